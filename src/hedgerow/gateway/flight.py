"""One request in flight: from its first attempt to the last byte its client gets.

The engine's `Run` says what to do (launch, cancel, commit, fail); attempts report what came; the exchange reports a
client that left or reads slowly. Whatever happens, the request ends once: `_finish`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hedgerow.events import (
    AttemptLaunched,
    Event,
    Failure,
    Headers,
    HedgeSkipped,
    Outcome,
    Reason,
    RequestFinished,
    RequestStarted,
    Role,
    Usage,
)
from hedgerow.gateway import answers
from hedgerow.gateway.attempt import Attempt
from hedgerow.gateway.headers import Incoming
from hedgerow.http.exchange import Exchange
from hedgerow.wire.base import Ending, Facts, Protocol

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.route import Route
    from hedgerow.gateway.target import Target


_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")


class Flight:
    """Implements the engine's `Driver` and the exchange's `Listener`."""

    __slots__ = (
        "_attempts",
        "_bodies",
        "_exchange",
        "_gateway",
        "_gone",
        "_hedged",
        "_incoming",
        "_last",
        "_loop",
        "_order",
        "_path",
        "_route",
        "_started_at",
        "_winner",
        "facts",
        "protocol",
        "request_id",
        "run",
    )

    def __init__(
        self,
        gateway: Gateway,
        exchange: Exchange,
        route: Route,
        protocol: Protocol,
        facts: Facts,
        incoming: Incoming,
        path: bytes,
    ) -> None:
        self._gateway = gateway
        self._exchange = exchange
        self._route = route
        self._incoming = incoming
        self._path = path
        self._loop: asyncio.AbstractEventLoop = gateway.loop
        self.protocol = protocol
        self.facts = facts
        self.request_id = gateway.next_id()
        self._attempts: list[Attempt] = []
        self._bodies: dict[str | None, bytes] = {}
        self._winner: Attempt | None = None
        self._hedged = False
        self._gone = False
        self._last = b""
        self._started_at = now = gateway.loop.time()
        hedger = route.hedger
        if protocol.hedgeable:
            self._order: Sequence[int] = hedger.usable(now)
            plan = hedger.plan(stream=facts.stream, replayable=facts.forbids_hedge is None)
        else:
            self._order = (0,)
            plan = hedger.alone
        self.run = hedger.run(self, plan, self._order, loop=self._loop, opted_out=incoming.opted_out)

    def start(self) -> None:
        """Launch the first attempt."""
        self._exchange.listener = self
        route = self._route
        route.hedger.emit(
            RequestStarted(self.request_id, route.name, self.protocol.name, self.facts.stream, self._started_at)
        )
        self.run.start()

    def now(self) -> float:
        """The loop's time, in seconds."""
        return self._loop.time()

    # The engine's Driver.

    def launch(self, attempt: int, candidate: int, role: Role) -> None:
        target = self._route.targets[self._order[candidate]]
        now = self._loop.time()
        self._hedged = self._hedged or role is Role.HEDGE
        limits = self._gateway.limits
        held_limit = limits.held_bytes if self.facts.stream else limits.answer_bytes
        launched = Attempt(self, attempt, target, role, now, held_limit)
        self._attempts.append(launched)
        self._route.hedger.emit(AttemptLaunched(self.request_id, attempt, target.name, role, now))
        launched.call = target.send(
            launched,
            method=self._exchange.method,
            path=self._path,
            forward=self._incoming.forward,
            authorization=self._incoming.authorization,
            body=self._body_for(target),
        )

    def cancel(self, attempt: int, failure: Failure | None) -> None:
        loser = self._attempts[attempt]
        if loser.call is not None:
            loser.call.cancel()
        if failure is not None:
            outcome = Outcome.FAILED
        else:
            outcome = Outcome.CLIENT_GONE if self._gone else Outcome.SUPERSEDED
        self._speak(loser, outcome, failure)

    def commit(self, attempt: int) -> None:
        winner = self._winner = self._attempts[attempt]
        winner.committed = True
        self._route.hedger.answered(winner.target.place)
        head = answers.head_of(self, winner)
        status = winner.status or 200
        if winner.whole:
            self._exchange.respond(status, head, winner.body())
            self._complete(winner.scanner.ending(True) if winner.scanner else None)
            return
        self._exchange.start(status, head)
        if winner.held:
            self._last = winner.body()
            winner.held = []
            self._exchange.write(self._last)
        self.run.watch()

    def skip(self, reason: Reason, detail: str) -> None:
        detail = detail or self.facts.forbids_hedge or ""
        self._route.hedger.emit(HedgeSkipped(self.request_id, self._route.name, reason, self.now(), detail))

    def fail(self, attempt: int, failure: Failure) -> None:
        answer = answers.failure_answer(self, self._attempts[attempt], failure)
        self._exchange.respond(answer.status, answer.headers, answer.body)
        self._finish(Outcome.FAILED, answer.status)

    def expire(self, failure: Failure) -> None:
        winner = self._winner
        if winner is None or winner.call is None:
            return
        winner.call.cancel()
        self._break_off(failure, None)

    # Told by attempts.

    def lost(self, attempt: Attempt, failure: Failure) -> None:
        """An attempt failed before commit."""
        self._speak(attempt, Outcome.FAILED, failure)
        self._route.hedger.failed(attempt.target.place, failure, self.now())
        self.run.failed(attempt.index, failure)

    def forward(self, data: bytes, done: bool) -> None:
        """A piece of the committed answer; `done` when it holds the protocol's end marker."""
        self._exchange.write(data)
        self._last = data
        self.run.touch()
        winner = self._winner
        if done and winner is not None and winner.scanner is not None:
            winner.done = True
            self.ended(winner.scanner.ending(True))
            if winner.call is not None:
                self._gateway.linger(winner.call)

    def ended(self, ending: Ending) -> None:
        """The committed answer's body ended, broke off, or said that it is complete."""
        if ending.failure is not None:
            self._break_off(ending.failure, ending.usage)
            return
        self._exchange.end()
        self._complete(ending)

    # The exchange's Listener.

    def on_disconnect(self) -> None:
        self._gone = True
        winner = self._winner
        if winner is None:
            self.run.client_gone()
        elif winner.call is not None and not winner.ended:
            winner.call.cancel()
            self._speak(winner, Outcome.CLIENT_GONE, None)
        self._finish(Outcome.CLIENT_GONE, None)

    def on_pause(self) -> None:
        if self._winner is not None and self._winner.call is not None:
            self._winner.call.pause()

    def on_resume(self) -> None:
        if self._winner is not None and self._winner.call is not None:
            self.run.touch()
            self._winner.call.resume()

    # What responses say about us.

    def marks(self, answered_by: Attempt) -> Headers:
        """Our own response header fields."""
        return [
            (b"x-hedgerow-request-id", self.request_id.encode()),
            (b"x-hedgerow-target", answered_by.target.name.encode()),
            (b"x-hedgerow-attempts", b"%d" % len(self._attempts)),
            (b"x-hedgerow-hedged", b"true" if self._hedged else b"false"),
        ]

    @property
    def attempts(self) -> int:
        """How many attempts were launched."""
        return len(self._attempts)

    def _body_for(self, target: Target) -> bytes:
        body = self._bodies.get(target.model)
        if body is None:
            body = self._exchange.body
            # On an endpoint we do not hedge, a model that is no route of ours is the upstream's own affair.
            ours = self.protocol.hedgeable or self.facts.model == self._route.name
            if ours and target.model is not None:
                body = self.protocol.rewrite(body, self.facts, target.model)
            self._bodies[target.model] = body
        return body

    def _complete(self, ending: Ending | None) -> None:
        winner = self._winner
        usage = ending.usage if ending is not None else None
        if winner is not None:
            self._speak(winner, Outcome.WON, None, usage)
            self._finish(Outcome.WON, winner.status, usage)

    def _break_off(self, failure: Failure, usage: Usage | None) -> None:
        """The committed answer cannot be completed: say so in the stream, then let it look broken."""
        winner = self._winner
        if winner is None:
            return
        frame = self.protocol.error_frame(failure) if failure.body is None else b""
        if frame:  # the upstream told no error of its own
            self._exchange.write(frame if self._last.endswith(_EVENT_ENDS) else b"\n\n" + frame)
        self._exchange.abort()
        self._speak(winner, Outcome.FAILED_AFTER_COMMIT, failure, usage)
        self._finish(Outcome.FAILED_AFTER_COMMIT, winner.status, usage)

    def _speak(self, attempt: Attempt, outcome: Outcome, failure: Failure | None, usage: Usage | None = None) -> None:
        event: Event = attempt.ended_event(self.request_id, outcome, failure, usage)
        self._route.hedger.emit(event)

    def _finish(self, outcome: Outcome, status: int | None, usage: Usage | None = None) -> None:
        self._exchange.listener = None
        self.run.finished()
        winner = self._winner
        launched = len(self._attempts)
        self._attempts.clear()  # attempts hold their flight: leave no cycle to the collector
        self._winner = None
        self._gateway.landed(self)
        self._route.hedger.emit(
            RequestFinished(
                self.request_id,
                self._route.name,
                self.protocol.name,
                self.facts.stream,
                self._started_at,
                winner.first_token_at if winner is not None else None,
                self.now(),
                status,
                winner.index if winner is not None else None,
                launched,
                outcome,
                usage,
            )
        )
