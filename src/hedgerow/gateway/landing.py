"""How a request ends: whole, broken off, failed, or left by its client."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hedgerow.events import AttemptEnded, Failure, Outcome, Reason, Role, Usage
from hedgerow.gateway import answers, records
from hedgerow.gateway.delivery import Delivery
from hedgerow.gateway.headers import Incoming
from hedgerow.gateway.paced import Paced
from hedgerow.gateway.question import Question
from hedgerow.http.exchange import Exchange
from hedgerow.policy.ask import Ask
from hedgerow.wire.base import Ending, Facts, Protocol

if TYPE_CHECKING:
    from hedgerow.gateway.aftermath import Aftermath
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.recording import Recording
    from hedgerow.gateway.rescue import Rescue
    from hedgerow.gateway.route import Route
    from hedgerow.gateway.target import Target

log = logging.getLogger("hedgerow.gateway")
_WON = Outcome.WON  # a member of an enum is slow to look up
_HEDGES = (Role.HEDGE, Role.RACER)
_FAILED = (Outcome.FAILED, Outcome.FAILED_AFTER_COMMIT)


class Landing(Paced):
    """The part of a flight that ends it. Whatever happens, the request ends once: `_finish`."""

    __slots__ = (
        "_delivery",
        "_exchange",
        "_gone",
        "_incoming",
        "aftermath",
        "ask",
        "attempts",
        "counted",
        "ends",
        "facts",
        "hedged",
        "protocol",
        "question",
        "recording",
        "request_id",
        "rescue",
        "route",
        "skipped",
        "unhedged_at",
    )
    aftermath: Aftermath | None
    """What comes after the win, where losers are kept."""
    ask: Ask
    facts: Facts
    protocol: Protocol
    question: Question
    request_id: str
    route: Route
    _incoming: Incoming

    def __init__(self, gateway: Gateway, exchange: Exchange) -> None:
        self._gateway = gateway
        self.time = gateway.alarm.time
        self._winner = None
        self._paused = False
        self._exchange = exchange
        self.attempts: list[Attempt] = []
        self.ends: tuple[AttemptEnded, ...] = ()  # of its attempts, where somebody hears what they came to
        self._delivery: Delivery | None = None
        self._gone = False
        self.hedged = False
        self.counted = False  # all is told of it, by `records.won_alone`
        self.skipped: Reason | None = None
        """Why a hedge that was due was not launched."""
        self.unhedged_at: float | None = None  # as in `RequestFinished`
        self.rescue: Rescue | None = None
        """What goes on with a committed answer that breaks off, if anything can."""
        self.recording: Recording | None = None  # of what is said, where the ledger keeps it

    def about(self, attempt: Attempt | None = None, failure: Failure | None = None) -> dict[str, object]:
        """What a line of the log is about, for machines."""
        about: dict[str, object] = {"request_id": self.request_id, "route": self.route.name}
        if attempt is not None:
            about |= {"target": attempt.target.name, "attempt": attempt.index, "role": attempt.role}
        if failure is not None:
            about |= {"failure": failure.kind, "status": failure.status}
        return about

    def expire(self, failure: Failure) -> None:
        """The committed answer stalled or ran out of time: break it off."""
        winner = self._winner
        if winner is None or winner.call is None:
            return
        winner.call.cancel()
        self._break_off(failure, None)

    def crashed(self) -> None:
        """Something of ours has raised, which is being handled: end the request at once, however it stands."""
        log.exception("request %s: hedgerow itself failed; please report it", self.request_id, extra=self.about())
        if self not in self._gateway.flights:
            return
        for attempt in self.attempts:
            try:
                attempt.cancel()
            except Exception:
                log.exception("request %s: nor can an attempt be cancelled", self.request_id)
            self._abandon(attempt)
        status: int | None = 500
        if self._exchange.started:
            status = None if self._winner is None else self._winner.status
            self._exchange.abort()
        else:
            body = self.protocol.error_body(500, "hedgerow itself failed; its log says how", kind="server_error")
            self._exchange.respond(500, answers.JSON, body)
        self._finish(Outcome.FAILED, status)

    def _abandon(self, attempt: Attempt) -> None:
        attempt.end()
        if attempt.probe is not None:
            self.route.hedger.over(attempt.probe)
        if self.route.hedger.watched and not self.counted:
            records.crashed(self, attempt)
        if self.aftermath is not None:
            self.aftermath.over(attempt)

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

    def on_disconnect(self) -> None:
        """The client has left."""
        self._gone = True
        winner, usage = self._winner, None
        if winner is None:
            self.run.client_gone()
        elif winner.call is not None and not winner.ended:
            winner.call.cancel()
            usage = self.speak(winner, Outcome.CLIENT_GONE, None)
        self._finish(Outcome.CLIENT_GONE, None, usage)

    def blame(self, attempt: Attempt, failure: Failure) -> None:
        """Let the health of its target learn from an attempt that failed."""
        self.route.hedger.failed(
            attempt.target.place,
            self.ask,
            failure,
            attempt.launched_at,
            self.time(),
            had_all_its_time=attempt.index == 0 and self._incoming.patience >= self.route.reading.total,
        )

    def well(self, attempt: Attempt) -> None:
        """Let the health of its target learn from a good answer that nobody waits for any more."""
        first = self.time() if attempt.first_token_at is None else attempt.first_token_at
        self.route.hedger.answered(attempt.target.place, self.ask, attempt.launched_at, first)

    def _complete(self, winner: Attempt, usage: Usage | None) -> None:
        winner.ended = True
        self.counted = records.won_alone(self, winner, usage)
        if not self.counted:
            usage = records.ended(self, winner, _WON, None, usage)
        self._finish(_WON, winner.status, usage)

    def _break_off(self, failure: Failure, usage: Usage | None) -> None:
        """The committed answer cannot be completed: have another go on with it, else say so and let it look broken."""
        winner, delivery = self._winner, self._delivery
        if winner is None or delivery is None:
            return
        if self.rescue is not None and self.rescue.begins(winner, failure, usage):
            return
        status = delivery.break_off(self, winner, failure)
        self._finish(Outcome.FAILED_AFTER_COMMIT, status, self.fallen(winner, failure, usage))

    def fallen(self, winner: Attempt, failure: Failure, usage: Usage | None) -> Usage | None:
        """A committed attempt cannot complete its answer; returns its usage, where anybody wants to hear of it."""
        # Said here and not by a listener: no event need be made for every attempt only to find the few that broke off.
        target = winner.target.name
        about = self.about(winner, failure)
        told = self.request_id, target, failure.message
        log.warning("request %s: the answer of target %s broke off: %s", *told, extra=about)
        self.blame(winner, failure)
        return self.speak(winner, Outcome.FAILED_AFTER_COMMIT, failure, usage)

    def fell(self, attempt: Attempt, failure: Failure, *, blame: bool = True) -> None:
        """An attempt failed that was not committed; without `blame` its target had no part in it."""
        self.speak(attempt, Outcome.FAILED, failure)
        if blame:
            self.blame(attempt, failure)

    def follow(self, attempt: Attempt) -> None:
        """Another attempt is to go on with the answer: from now on its silence and the client's speed count for it."""
        self._winner = attempt
        if self._paused and attempt.call is not None:
            attempt.call.pause()
        self.run.watch()

    def body_for(self, target: Target, request: bytes) -> bytes:
        """What to send to this target, long after the first attempt, for the request with this body."""
        self._exchange.body = request
        body = self.question.body(self._exchange, target)
        self._exchange.body = b""
        return body

    def give_up(self, attempt: Attempt, failure: Failure) -> None:
        """Nobody goes on with the answer, and who was to has failed."""
        if self._delivery is not None:
            status = self._delivery.break_off(self, attempt, failure)
            self._finish(Outcome.FAILED_AFTER_COMMIT, status)

    def overflowed(self, failure: Failure) -> None:
        """The committed answer is too long to be put together: whoever gave it."""
        self.rescue = None
        self.expire(failure)

    def speak(
        self, attempt: Attempt, outcome: Outcome, failure: Failure | None, usage: Usage | None = None
    ) -> Usage | None:
        """Tell of an attempt that ended and did not win; returns its usage, where anybody wants to hear of it."""
        attempt.end()
        if attempt.probe is not None:
            self.route.hedger.over(attempt.probe)
        if failure is not None and outcome is Outcome.FAILED:
            told = self.request_id, attempt.target.name, failure.kind, failure.message
            log.info("request %s: target %s failed: %s, %s", *told, extra=self.about(attempt, failure))
        usage = records.ended(self, attempt, outcome, failure, usage)
        if self.aftermath is not None:
            self.aftermath.over(attempt)
        return usage

    def _finish(
        self,
        outcome: Outcome,
        status: int | None,
        usage: Usage | None = None,
        *,
        refused: bool = False,
    ) -> None:
        """The request is over; `refused`: by what it asks, which is not its target's fault."""
        self.run.finished()
        winner = self._winner
        launched = len(self.attempts)
        hedges = tuple(each.index for each in self.attempts if each.role in _HEDGES) if self.hedged else ()
        self.attempts.clear()  # attempts hold their flight: leave no cycle to the collector
        self._winner = None
        self._delivery = None
        first = None if winner is None else winner.first_token_at
        if self.rescue is not None:
            first = self.rescue.first_token_at or first
            self.rescue.attempt = None  # they hold each other: leave no cycle to the collector
            self.rescue = None
        self._gateway.flights.discard(self)
        if self._gateway.debug:
            took, route = self.time() - self.started_at, self.route.name
            told = self.request_id, outcome, route, status, took
            about = self.about() | {"outcome": outcome, "status": status}
            log.debug("request %s: %s on route %s, status %s, %.3f s", *told, extra=about)
        if self.route.hedger.watched and not self.counted:
            records.finished(self, winner, first, launched, hedges, outcome, status, usage)
        if winner is not None and winner.trial is not None:
            winner.let_go()
        run_on = self.aftermath is not None and self.aftermath.landed(launched)
        if not run_on:
            self.settle(launched)
        if session := self.ask.session:
            if launched > 1 or self.skipped is not None or (outcome in _FAILED and not refused):
                self.route.hedger.settled(session, None, self.time())
            elif winner is not None and outcome in (_WON, Outcome.CLIENT_GONE):
                self.route.hedger.settled(session, winner.target.place, self.time())

    def unpriced(self, target: str, model: str | None) -> None:
        """Nobody knows what an attempt cost: say so, once for each target."""
        if target not in self._gateway.unpriced:
            self._gateway.unpriced.add(target)
            what = "" if model is None else f" (of {model!r})"
            log.warning("targets.%s.price: none is known%s, so nothing is known of what that costs", target, what)

    def settle(self, attempts: int) -> None:
        """None of its so many attempts runs any more: nothing of the request needs be remembered."""
        self.aftermath = None  # they hold each other: leave no cycle to the collector
        self._gateway.claimed.discard(self.request_id)
        if (self.route.hedger.watched or len(self.ends) > 1) and not self.counted:
            records.billed(self)
        if attempts > 1 or self.skipped is not None:
            self.route.hedger.finished(self.request_id, attempts, self.time())
