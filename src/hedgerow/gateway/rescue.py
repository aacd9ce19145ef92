"""A committed answer that breaks off: another attempt begins it anew, or goes on from its last character.

Anew only where the client has got nothing; from the last character only with plain text and targets that can. It
happens once in a request, is paid for like an attempt after a failure, and where it cannot be, the answer breaks off as
it would have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from hedgerow.events import AnswerRescued, Failure, FailureClass, Outcome, Reason, Role, Usage
from hedgerow.gateway.delivery import Delivery
from hedgerow.policy.failures import Next, next_after
from hedgerow.wire.base import Ending

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.flight import Flight
    from hedgerow.gateway.landing import Landing
    from hedgerow.gateway.target import Target
    from hedgerow.wire.continuing import Continuation

log = logging.getLogger("hedgerow.gateway")
CONTINUES = ".continues: "
"""In the detail of an attempt that cannot be asked for as its target is configured."""


def rescuable(flight: Flight, delivery: Delivery, request: bytes) -> Delivery:
    """`delivery`, with a chance to be rescued if its route and request allow one; `request` is the client's body."""
    continuation = None
    if not flight.question.collects:
        plain = flight.facts.forbids_hedge is None and not flight.facts.needs
        continuation = flight.protocol.continuation() if plain else None
        if flight.route.reading.on_stall != "continue" or continuation is None:
            return delivery
    flight.rescue = Rescue(flight, delivery, request, continuation)
    return flight.rescue


class Rescue:
    """The chance of one committed stream; a `Delivery`. Without a `continuation` the answer begins anew."""

    __slots__ = (
        "_continuation",
        "_delivery",
        "_failure",
        "_flight",
        "_following",
        "_write",
        "attempt",
        "first_token_at",
        "request",
    )

    def __init__(self, flight: Flight, delivery: Delivery, request: bytes, continuation: Continuation | None) -> None:
        self._flight = flight
        self._delivery = delivery
        self._write = delivery.write
        self.request = request
        """The client's body."""
        self._continuation = continuation
        self._failure: Failure | None = None  # of the attempt that broke off, once another is to go on
        self._following = False
        self.attempt: Attempt | None = None
        """Who is to go on with the answer."""
        self.first_token_at: float | None = None
        """When the client's first token came; None while its first attempt goes on."""

    # The Delivery.

    @property
    def write(self) -> Callable[[bytes], None]:
        """Takes the first winner's pieces."""
        return self._write if self._continuation is None else self._pass_on

    def end(self, flight: Landing, winner: Attempt) -> Failure | None:
        """The stream is whole."""
        if (continuation := self._continuation) is not None:
            if self._following and (continuation.broken is not None or not continuation.finished):
                return self._unfit(continuation)
            if not self._following and (rest := continuation.end()):
                self._write(rest)
        return self._delivery.end(flight, winner)

    def break_off(self, flight: Landing, winner: Attempt, failure: Failure) -> int | None:
        """The stream cannot be completed."""
        continuation = self._continuation
        if continuation is not None and not self._following and failure.body is not None:
            self._write(continuation.unsaid)
        return self._delivery.break_off(flight, winner, failure)

    # The flight asks and tells.

    def begins(self, winner: Attempt, failure: Failure, usage: Usage | None) -> bool:
        """Whether another attempt has been launched to go on with the answer, which broke off."""
        flight = self._flight
        if self._failure is not None or (found := self._where(winner, failure)) is None:
            return False
        candidate, body = found
        attempt, now = len(flight.attempts), flight.time()
        refusal = flight.run.may(Role.FAILOVER, attempt, candidate, now)
        if refusal is not None:
            flight.skip(refusal.reason, refusal.detail, Role.FAILOVER)
            return False
        self._failure, self.first_token_at = failure, winner.first_token_at
        winner.cancel()
        flight.fallen(winner, failure, usage)
        flight.launch(attempt, candidate, Role.FAILOVER, body)
        self.attempt = flight.attempts[attempt]
        flight.follow(self.attempt)
        return True

    @property
    def goes_on(self) -> bool:
        """Whether the client has the answer's beginning already."""
        return self._continuation is not None

    def rejected(self, attempt: Attempt) -> None:
        """A gate rejected the new attempt's answer: nobody else is asked."""
        flight = self._flight
        if flight.run.strict:
            attempt.cancel()
            flight.speak(attempt, Outcome.REJECTED, None)
            self._give_up(attempt)
        else:
            self.answered(attempt)  # better than none, and marked

    def answered(self, attempt: Attempt) -> None:
        """The new attempt's first token is here, and its gates, if it has any, have spoken."""
        self._tell(attempt)
        if self._continuation is None:
            self._flight.deliver(attempt, self.request)
        elif attempt.whole is not None:
            self._end_with(attempt, self._continuation, attempt.whole)
        else:
            attempt.deliver_to(self._splice)

    def lost(self, attempt: Attempt, failure: Failure, *, blame: bool) -> None:
        """The new attempt failed: the answer breaks off, as it would have without it."""
        flight, continuation = self._flight, self._continuation
        if continuation is not None and failure.kind is FailureClass.EMPTY and failure.body is not None:
            self._tell(attempt)  # it has nothing to add: the answer was all there
            self._end_with(attempt, continuation, failure.body)
            return
        flight.fell(attempt, failure, blame=blame)
        self._give_up(attempt)

    # Its own.

    def _give_up(self, attempt: Attempt) -> None:
        if self._failure is not None:  # it is: else no attempt would have been launched
            self._flight.give_up(attempt, self._failure)

    def _where(self, winner: Attempt, failure: Failure) -> tuple[int, bytes] | None:
        """Which of the run's candidates can go on, and what to send there."""
        where = next_after(failure, replayable=True)
        if where is Next.NOWHERE:
            return None
        lost = winner.target.place.candidate
        for candidate, target in self._others(winner):
            place = target.place.candidate
            if where is Next.OTHER_ACCOUNT and place.account == lost.account:
                continue
            if where is Next.OTHER_TARGET and place.target == lost.target:
                continue
            if (body := self._body(target)) is not None:
                return candidate, body
        return None

    def _others(self, winner: Attempt) -> Iterator[tuple[int, Target]]:
        """Candidates and their targets: those not asked before first, the one that broke off last, if listed twice."""
        flight = self._flight
        listed = [(candidate, flight.route.targets[index]) for candidate, index in enumerate(flight.order)]
        asked, lost = {attempt.target.name for attempt in flight.attempts}, winner.target
        others = [entry for entry in listed if entry[1] is not lost]
        yield from sorted(others, key=lambda entry: (entry[1].name == lost.name, entry[1].name in asked))
        yield from [entry for entry in listed if entry[1] is lost][1:]

    def _body(self, target: Target) -> bytes | None:
        flight, continuation = self._flight, self._continuation
        if continuation is None:
            return flight.body_for(target, self.request)
        if target.continues is None or continuation.prefix is None:
            return None
        if target.continues not in continuation.FORMS:
            misfit = f"targets.{target.name}{CONTINUES}{target.continues} is not for {flight.protocol.name}"
            flight.skip(Reason.TARGETS, misfit, Role.FAILOVER)
            return None
        return continuation.request(flight.body_for(target, self.request), target.continues)

    def _tell(self, attempt: Attempt) -> None:
        """The new attempt goes on: in the event log, in the log, and where there is a stream, in a comment of it."""
        flight, hedger, continuation = self._flight, self._flight.route.hedger, self._continuation
        name, now, chars = attempt.target.name, flight.time(), 0
        if attempt.probe is not None:
            hedger.over(attempt.probe)
        if attempt.rejection is None:
            hedger.answered(attempt.target.place, flight.ask, attempt.launched_at, now)
        if continuation is not None:
            chars = len(continuation.prefix or "")
            self._following = True
            form = attempt.target.continues
            if form is not None:
                continuation.follow(form, usage=flight.facts.wants_usage)
            self._write(b": continued by hedgerow with target %b after %d characters\n\n" % (name.encode(), chars))
        how = (
            f"goes on with the answer, of which its client has {chars} characters"
            if chars
            else "begins the answer anew"
        )
        log.warning("request %s: target %s %s", flight.request_id, name, how, extra=flight.about(attempt))
        hedger.emit(AnswerRescued(flight.request_id, hedger.name, attempt.index, name, chars, now))

    def _end_with(self, attempt: Attempt, continuation: Continuation, body: bytes) -> None:
        """The new attempt's whole answer is here."""
        if out := continuation.splice(body):
            self._write(out)
        usage = None if attempt.scanner is None else attempt.scanner.ending(True).usage
        self._flight.ended(Ending(None, usage))

    def _pass_on(self, data: bytes) -> None:
        if self._continuation is not None and (out := self._continuation.pass_on(data)):
            self._write(out)

    def _splice(self, data: bytes) -> None:
        continuation = self._continuation
        if continuation is None:
            return
        if out := continuation.splice(data):
            self._write(out)
        if continuation.broken is not None:
            self._flight.expire(self._unfit(continuation))

    def _unfit(self, continuation: Continuation) -> Failure:
        why = continuation.broken or "it did not say how it ends"
        return Failure(FailureClass.PROTOCOL, f"what was to continue the answer does not fit it: {why}")
