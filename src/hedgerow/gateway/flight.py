"""One request in flight: from its first attempt to the last byte its client gets.

The engine's `Run` says what to do (launch, cancel, commit, fail); attempts report what came; the exchange reports a
client that left or reads slowly. Whatever happens, the request ends once: `_finish`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from hedgerow.engine import Run
from hedgerow.events import Failure, FailureClass, Outcome, Reason, Role
from hedgerow.gateway import answers, keys, records, tracing
from hedgerow.gateway.aftermath import aftermath_of, say_it_won
from hedgerow.gateway.attempt import Attempt
from hedgerow.gateway.delivery import Collecting, Delivery, Forwarding, Overheard
from hedgerow.gateway.headers import Incoming, to_client
from hedgerow.gateway.landing import Landing
from hedgerow.gateway.question import Question
from hedgerow.gateway.recording import recording_of
from hedgerow.gateway.rescue import rescuable
from hedgerow.gateway.trial import Trial, review
from hedgerow.http.exchange import Exchange
from hedgerow.wire.base import Facts, Protocol
from hedgerow.wire.passthrough import ENDPOINT

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.route import Route


log = logging.getLogger("hedgerow.gateway")
_PRIMARY, _HEDGE, _FAILOVER, _RACER = Role.PRIMARY, Role.HEDGE, Role.FAILOVER, Role.RACER  # slow to look up
_WON = Outcome.WON
_REFUSED = (FailureClass.FATAL_REQUEST, FailureClass.CONTENT_POLICY)


class Flight(Landing):
    """Implements the engine's `Driver` and the exchange's `Listener`."""

    __slots__ = ("order",)

    def __init__(
        self,
        gateway: Gateway,
        exchange: Exchange,
        route: Route,
        protocol: Protocol,
        facts: Facts,
        incoming: Incoming,
    ) -> None:
        Landing.__init__(self, gateway, exchange)  # CPython is slow to look up `super()`
        self.route = route
        self._incoming = incoming
        self.protocol = protocol
        self.question = question = Question(protocol, facts, route, incoming)
        self.facts = facts
        named = incoming.request_id
        self.request_id = gateway.claim(named) if named else next(gateway.request_ids)
        self.started_at = now = self.time()
        self.ask = ask = question.ask(self.request_id, exchange, now)
        self.aftermath = None if route.keep is None else aftermath_of(self, exchange.target, exchange.body)
        if protocol.hedgeable:
            basis, self.order = route.hedger.begins(ask, now, question.refusal)
        else:
            basis, self.order = route.hedger.begins_alone()
        self.run = Run(self, gateway.alarm, basis, ask)

    def start(self) -> None:
        """Launch the first attempt."""
        self._exchange.listener = self
        if (traces := self._gateway.traces) is not None:
            self._incoming = tracing.taken_in(traces, self.request_id, self._incoming)
        if self.route.hedger.followed:
            records.started(self)
        if (book := self._gateway.contents) is not None:
            self.recording = recording_of(book, self, self._exchange.body)
        if not self.protocol.hedgeable:
            self.skip(Reason.SIDE_EFFECTS, ENDPOINT, _HEDGE)
        self.run.start(self.started_at)

    # The engine's Driver.

    def launch(self, attempt: int, candidate: int, role: Role, body: bytes | None = None) -> None:
        hedger, question, exchange = self.route.hedger, self.question, self._exchange
        target = self.route.targets[self.order[candidate]]
        now = self.started_at
        if attempt:
            now = self.time()
            self.hedged = self.hedged or role is not _FAILOVER
            who, after = self.request_id, now - self.started_at
            level = logging.DEBUG if role is _RACER else logging.INFO  # in a race every request has some
            about = {"request_id": who, "route": self.route.name, "target": target.name, "role": role.value}
            log.log(level, "request %s: %s at target %s after %.3f s", who, role, target.name, after, extra=about)
        limits = self._gateway.limits
        held_limit = limits.held_bytes if question.asked.stream else limits.answer_bytes
        launched = Attempt(self, attempt, target, role, now, held_limit)
        launched.input_tokens = self.ask.input_tokens if body is None else len(body) >> 2
        launched.probe = hedger.launched(target.place, self.ask, role, now)
        self.attempts.append(launched)
        if hedger.followed:
            records.launched(self, launched)
        incoming = self._incoming
        if target.key_field or incoming.key:
            incoming = keys.for_attempt(incoming, target, self.request_id, attempt, body)
        if (traces := self._gateway.traces) is not None:
            incoming = tracing.for_attempt(traces, incoming, self.request_id, attempt)
        launched.call = target.send(
            launched,
            method=exchange.method,
            target=question.path(exchange, target),
            incoming=incoming,
            body=question.body(exchange, target) if body is None else body,
            resend=self.facts.forbids_hedge is None or target.key_field != b"",
        )

    def cancel(self, attempt: int, failure: Failure | None) -> None:
        loser = self.attempts[attempt]
        if attempt == 0 and failure is None and self.route.hedger.watched:
            self._first_lost(loser)
        if failure is None and self.aftermath is not None and not self._gone and self.aftermath.takes(loser):
            return
        loser.cancel()
        if failure is not None:
            self.blame(loser, failure)
        unfit = Outcome.CLIENT_GONE if self._gone else Outcome.SUPERSEDED
        if loser.rejection is not None and not self._gone:
            unfit = Outcome.REJECTED
        self.speak(loser, unfit if failure is None else Outcome.FAILED, failure)

    def _first_lost(self, loser: Attempt) -> None:
        """The first attempt is cancelled: unless its answer was there already, how long would it have been silent?"""
        if loser.first_token_at is None and not self._gone:
            place, now = loser.target.place, self.time()
            self.unhedged_at = self.route.hedger.unhedged_at(place, self.ask, loser.launched_at, now)

    def commit(self, attempt: int) -> None:
        winner = self._winner = self.attempts[attempt]
        hedger = self.route.hedger
        if attempt == 0 or not self.hedged:
            self.unhedged_at = winner.first_token_at
        if winner.probe is not None:
            hedger.over(winner.probe)
        if (winner.status or 200) < 300 and winner.rejection is None:  # else it is only handed through
            hedger.answered(winner.target.place, self.ask, winner.launched_at, self.time())
        records.first_token(self, winner)
        if self.aftermath is not None:
            self.aftermath.won()
        self.deliver(winner, self._exchange.body)

    def deliver(self, winner: Attempt, body: bytes) -> None:
        """Give the client a committed attempt's answer to the request with this body."""
        hedger, aftermath, status = self.route.hedger, self.aftermath, winner.status or 200
        if winner.whole is not None:
            fields = to_client(winner.headers) + answers.marks(self, winner)
            self._exchange.respond(status, (), winner.whole, fields)
            if aftermath is not None and aftermath.keeps:
                aftermath.say(winner, winner.whole, winner.usage(), won=True)
            if hedger.watched or len(self.attempts) > 1:
                self._complete(winner, winner.scanner.ending(True).usage if winner.scanner else None)
            else:  # as `records.ended` says: that is no news
                winner.ended = True
                self._finish(_WON, status)
            return
        self._exchange.body = b""  # streams are many and long, and nobody will ask again
        delivery = self._delivery = self._to_client(winner, body)
        self.run.watch()
        winner.deliver_to(delivery.write)

    def _to_client(self, winner: Attempt, request: bytes) -> Delivery:
        delivery: Delivery
        room = self._gateway.limits.answer_bytes
        if self.question.collects:
            delivery = Collecting(self._exchange, room, self.overflowed)
        else:
            filtered = self.question.adds_usage(winner.target)
            delivery = Forwarding(self, self._exchange, winner, filtered=filtered)
        if self.recording is not None:
            delivery = self.recording.of(delivery)
        if (gates := self.route.gates) is not None and self.protocol.hedgeable:
            delivery = Overheard(delivery, partial(review, gates, request), room)
        if self.aftermath is not None and self.aftermath.keeps:
            delivery = Overheard(delivery, say_it_won, room)
        if self.route.reading.on_stall == "error" or self.rescue is not None:
            return delivery
        return rescuable(self, delivery, request)

    def skip(self, reason: Reason, detail: str, role: Role) -> None:
        if role is not _FAILOVER:
            self.skipped = reason
            if role is _HEDGE and len(self.attempts) == 1:
                self.route.hedger.late(self.ask, self.time())
        detail = detail or self.facts.forbids_hedge or ""
        if self._gateway.debug:
            about = {"request_id": self.request_id, "route": self.route.name, "role": role, "reason": reason}
            log.debug("request %s: no %s: %s %s", self.request_id, role, reason, detail, extra=about)
        records.skipped(self, reason, detail, role)

    def fail(self, attempt: int, failure: Failure) -> None:
        answer = answers.failure_answer(self, self.attempts[attempt], failure)
        self._exchange.respond(answer.status, (), answer.body, answer.fields)
        self._finish(Outcome.FAILED, answer.status, refused=failure.kind in _REFUSED)

    # Told by attempts.

    def answered(self, attempt: Attempt) -> None:
        """An attempt's first token is here, or the whole of an answer that is not streamed."""
        gates = self.route.gates
        request = self._exchange.body
        if self.rescue is not None and self.rescue.attempt is attempt:
            if self.rescue.goes_on:  # the client has its beginning: it is judged when all of it is there
                gates = None
            request = self.rescue.request
        if attempt.trial is not None:  # it has lost
            attempt.hold(attempt.trial)
        elif gates is None or (attempt.whole is None and gates.prefix is None):
            self.passed(attempt)
        else:
            attempt.hold(Trial(self, attempt, gates, request))

    def passed(self, attempt: Attempt) -> None:
        """Nothing speaks against the attempt's answer."""
        if self.rescue is not None and self.rescue.attempt is attempt:
            self.rescue.answered(attempt)
        else:
            self.run.accepted(attempt.index)

    def rejected(self, attempt: Attempt, failure: Failure, rank: int) -> None:
        """A gate rejected the attempt's answer; `rank` gates let it pass before."""
        if self.rescue is not None and self.rescue.attempt is attempt:
            self.rescue.rejected(attempt)
        else:
            self.run.rejected(attempt.index, failure, rank)

    def lost(self, attempt: Attempt, failure: Failure, *, blame: bool = True) -> None:
        """An attempt failed before commit; without `blame` its target had no part in it."""
        if self.rescue is not None and self.rescue.attempt is attempt:
            self.rescue.lost(attempt, failure, blame=blame)
            return
        self.fell(attempt, failure, blame=blame)
        self.run.failed(attempt.index, failure)
