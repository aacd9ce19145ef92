"""One request in flight: from its first attempt to the last byte its client gets.

The engine's `Run` says what to do (launch, cancel, commit, fail); attempts report what came; the exchange reports a
client that left or reads slowly. Whatever happens, the request ends once: `_finish`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hedgerow.events import Failure, Outcome, Reason, Role, Usage
from hedgerow.gateway import answers, records
from hedgerow.gateway.attempt import Attempt
from hedgerow.gateway.delivery import Collecting, Delivery, Forwarding
from hedgerow.gateway.headers import Incoming, to_client
from hedgerow.gateway.paced import Paced
from hedgerow.gateway.question import Question
from hedgerow.gateway.trial import Reviewed, Trial
from hedgerow.http.exchange import Exchange
from hedgerow.wire.base import Ending, Facts, Protocol
from hedgerow.wire.passthrough import ENDPOINT

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.route import Route


log = logging.getLogger("hedgerow.gateway")
_PRIMARY, _HEDGE, _FAILOVER = Role.PRIMARY, Role.HEDGE, Role.FAILOVER  # a member of an enum is slow to look up
_WON = Outcome.WON


class Flight(Paced):
    """Implements the engine's `Driver` and the exchange's `Listener`."""

    __slots__ = (
        "_delivery",
        "_exchange",
        "_gone",
        "_incoming",
        "_order",
        "ask",
        "attempts",
        "facts",
        "hedged",
        "protocol",
        "question",
        "request_id",
        "route",
        "skipped",
    )

    def __init__(
        self,
        gateway: Gateway,
        exchange: Exchange,
        route: Route,
        protocol: Protocol,
        facts: Facts,
        incoming: Incoming,
    ) -> None:
        super().__init__(gateway)
        self._exchange = exchange
        self.route = route
        self._incoming = incoming
        self.protocol = protocol
        self.question = question = Question(protocol, facts, route, opted_out=incoming.opted_out)
        self.facts = facts
        self.request_id = next(gateway.request_ids)
        self.attempts: list[Attempt] = []
        self._delivery: Delivery | None = None
        self.hedged = False
        self.skipped: Reason | None = None
        """Why a hedge that was due was not launched."""
        self._gone = False
        self.started_at = now = self.time()
        self.ask = ask = question.ask(self.request_id, exchange, incoming, now)
        hedger, alarm = route.hedger, gateway.alarm
        if protocol.hedgeable:
            model = facts.model or ""
            self.run, self._order = hedger.run(self, now, alarm=alarm, ask=ask, refusal=question.refusal, model=model)
        else:
            self.run, self._order = hedger.run_alone(self, alarm=alarm)

    def start(self) -> None:
        """Launch the first attempt."""
        self._exchange.listener = self
        if self.route.hedger.watched:
            records.started(self)
        if not self.protocol.hedgeable:
            self.skip(Reason.SIDE_EFFECTS, ENDPOINT, _HEDGE)
        self.run.start(self.started_at)

    # The engine's Driver.

    def launch(self, attempt: int, candidate: int, role: Role) -> None:
        hedger, question, exchange = self.route.hedger, self.question, self._exchange
        target = self.route.targets[self._order[candidate]]
        now = self.started_at
        if attempt:
            now = self.time()
            self.hedged = self.hedged or role is not _FAILOVER
            who, after = self.request_id, now - self.started_at
            log.info("request %s: %s at target %s after %.3f s", who, role, target.name, after)
        limits = self._gateway.limits
        held_limit = limits.held_bytes if question.asked.stream else limits.answer_bytes
        launched = Attempt(self, attempt, target, role, now, held_limit)
        launched.probe = hedger.launched(target.place, self.ask, role, now, self.facts.model or "")
        self.attempts.append(launched)
        if hedger.watched:
            records.launched(self, launched)
        launched.call = target.send(
            launched,
            method=exchange.method,
            target=question.path(exchange, target),
            incoming=self._incoming,
            body=question.body(exchange, target),
            resend=self.facts.forbids_hedge is None,
        )

    def cancel(self, attempt: int, failure: Failure | None) -> None:
        loser = self.attempts[attempt]
        loser.cancel()
        if failure is not None:
            self.blame(loser, failure)
        unfit = Outcome.CLIENT_GONE if self._gone else Outcome.SUPERSEDED
        if loser.rejection is not None and not self._gone:
            unfit = Outcome.REJECTED
        self._speak(loser, unfit if failure is None else Outcome.FAILED, failure)

    def commit(self, attempt: int) -> None:
        winner = self._winner = self.attempts[attempt]
        hedger = self.route.hedger
        if winner.probe is not None:
            hedger.over(winner.probe)
        if (status := winner.status or 200) < 300 and winner.rejection is None:  # else it is only handed through
            model, stream = self.facts.model or "", self.ask.stream
            hedger.answered(winner.target.place, winner.launched_at, self.time(), model, stream=stream)
        records.first_token(self, winner)
        if winner.whole is not None:
            fields = to_client(winner.headers) + answers.marks(self, winner)
            self._exchange.respond(status, (), winner.whole, fields)
            if hedger.watched or self.ask.stream or winner.role is not _PRIMARY:
                self._complete(winner, winner.scanner.ending(True).usage if winner.scanner else None)
            else:  # its end is no news: nobody listens, nothing is learned from it, and it spent no budget
                winner.ended = True
                self._finish(_WON, status)
            return
        body, self._exchange.body = self._exchange.body, b""  # streams are many and long, and nobody will ask again
        if self.question.collects:
            self._delivery = Collecting(self._exchange, self._gateway.limits.answer_bytes, self.expire)
        else:
            filtered = self.question.adds_usage(winner.target)
            self._delivery = Forwarding(self, self._exchange, winner, filtered=filtered)
        if self.route.gates is not None:
            room = self._gateway.limits.answer_bytes
            self._delivery = Reviewed(self._delivery, self.route.gates.keeper, body, room)
        self.run.watch()
        winner.deliver_to(self._delivery.write)

    def skip(self, reason: Reason, detail: str, role: Role) -> None:
        if role is not _FAILOVER:
            self.skipped = reason
            if role is _HEDGE and len(self.attempts) == 1:
                self.route.hedger.late(self.ask, self.time())
        detail = detail or self.facts.forbids_hedge or ""
        log.debug("request %s: no %s: %s %s", self.request_id, role, reason, detail)
        records.skipped(self, reason, detail, role)

    def fail(self, attempt: int, failure: Failure) -> None:
        answer = answers.failure_answer(self, self.attempts[attempt], failure)
        self._exchange.respond(answer.status, (), answer.body, answer.fields)
        self._finish(Outcome.FAILED, answer.status)

    def expire(self, failure: Failure) -> None:
        winner = self._winner
        if winner is None or winner.call is None:
            return
        winner.call.cancel()
        self._break_off(failure, None)

    def crashed(self) -> None:
        log.exception("request %s: hedgerow itself failed; please report it", self.request_id)
        if self not in self._gateway.flights:
            return
        for attempt in self.attempts:
            attempt.cancel()
            attempt.end()
            if attempt.probe is not None:
                self.route.hedger.over(attempt.probe)
        if self._exchange.started:
            self._exchange.abort()
        else:
            body = self.protocol.error_body(500, "hedgerow itself failed; its log says how", kind="server_error")
            self._exchange.respond(500, answers.JSON, body)
        self._finish(Outcome.FAILED, None)

    # Told by attempts.

    def answered(self, attempt: Attempt) -> None:
        """An attempt's first token is here, or the whole of an answer that is not streamed."""
        gates = self.route.gates
        if gates is None or (attempt.whole is None and gates.prefix is None):
            self.run.accepted(attempt.index)
        else:
            attempt.hold(Trial(self, attempt, gates, self._exchange.body))

    def lost(self, attempt: Attempt, failure: Failure, *, blame: bool = True) -> None:
        """An attempt failed before commit; without `blame` its target had no part in it."""
        self._speak(attempt, Outcome.FAILED, failure)
        if blame:
            self.blame(attempt, failure)
        self.run.failed(attempt.index, failure)

    def blame(self, attempt: Attempt, failure: Failure) -> None:
        """Let the health of its target learn from an attempt that failed."""
        hedger, ask = self.route.hedger, self.ask
        hedger.failed(
            attempt.target.place,
            failure,
            attempt.launched_at,
            self.time(),
            self.facts.model or "",
            stream=ask.stream,
            had_all_its_time=attempt.index == 0 and self._incoming.patience >= self.route.reading.total,
        )

    def ended(self, ending: Ending) -> None:
        """The committed answer's body ended, broke off, or said that it is complete."""
        winner, delivery = self._winner, self._delivery
        if winner is None or delivery is None:
            return
        try:
            failure = ending.failure or delivery.end(self, winner)
            if failure is None:
                self._complete(winner, ending.usage)
            else:
                self._break_off(failure, ending.usage)
        except Exception:
            self.crashed()

    # The exchange's Listener.

    def on_disconnect(self) -> None:
        self._gone = True
        winner, usage = self._winner, None
        if winner is None:
            self.run.client_gone()
        elif winner.call is not None and not winner.ended:
            winner.call.cancel()
            usage = self._speak(winner, Outcome.CLIENT_GONE, None)
        self._finish(Outcome.CLIENT_GONE, None, usage)

    def _complete(self, winner: Attempt, usage: Usage | None) -> None:
        winner.ended = True
        records.ended(self, winner, _WON, None, usage)
        self._finish(_WON, winner.status, usage)

    def _break_off(self, failure: Failure, usage: Usage | None) -> None:
        """The committed answer cannot be completed: say so in the stream, then let it look broken."""
        winner, delivery = self._winner, self._delivery
        if winner is None or delivery is None:
            return
        status = delivery.break_off(self, winner, failure)
        # Said here and not by a listener: no event need be made for every attempt only to find the few that broke off.
        log.warning("request %s broke off after commit: %s", self.request_id, failure.message)
        self.blame(winner, failure)
        usage = self._speak(winner, Outcome.FAILED_AFTER_COMMIT, failure, usage)
        self._finish(Outcome.FAILED_AFTER_COMMIT, status, usage)

    def _speak(
        self, attempt: Attempt, outcome: Outcome, failure: Failure | None, usage: Usage | None = None
    ) -> Usage | None:
        """Tell of an attempt that ended and did not win; returns its usage, where anybody wants to hear of it."""
        attempt.end()
        if attempt.probe is not None:
            self.route.hedger.over(attempt.probe)
        if failure is not None and outcome is Outcome.FAILED:
            why = failure.kind, failure.message
            log.info("request %s: target %s failed: %s, %s", self.request_id, attempt.target.name, *why)
        return records.ended(self, attempt, outcome, failure, usage)

    def _finish(self, outcome: Outcome, status: int | None, usage: Usage | None = None) -> None:
        self.run.finished()
        winner = self._winner
        launched = len(self.attempts)
        self.attempts.clear()  # attempts hold their flight: leave no cycle to the collector
        self._winner = None
        self._delivery = None
        self._gateway.flights.discard(self)
        if self._gateway.debug:
            took, route = self.time() - self.started_at, self.route.name
            log.debug("request %s: %s on route %s, status %s, %.3f s", self.request_id, outcome, route, status, took)
        if self.route.hedger.watched:
            records.finished(self, winner, launched, outcome, status, usage)
        if launched > 1 or self.skipped is not None:
            self.route.hedger.finished(self.request_id, launched, self.time())
