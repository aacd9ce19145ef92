"""Asking a route's gates whether an attempt's answer may win, and holding it back for as long as that takes."""

from __future__ import annotations

import logging
from asyncio import TimerHandle
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from hedgerow.answer import Answer
from hedgerow.events import Failure, FailureClass
from hedgerow.gatekeeper import Gatekeeper, Handle
from hedgerow.gateway import records
from hedgerow.policy.gates.gate import Verdict
from hedgerow.policy.gates.settings import Prefix
from hedgerow.wire.reading import Reading
from hedgerow.wire.whole import is_event_stream

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.flight import Flight
    from hedgerow.gateway.landing import Landing

log = logging.getLogger("hedgerow.gateway")
CHARACTERS_PER_TOKEN = 4


class Gates(NamedTuple):
    """The gates of a route. `prefix`: how much of a stream is judged before it may win; None: nothing."""

    keeper: Gatekeeper
    prefix: Prefix | None = None


class Trial:
    """One attempt's answer before its gates: a whole one, or the start of a stream, which is held back meanwhile."""

    __slots__ = (
        "_asked",
        "_attempt",
        "_flight",
        "_gates",
        "_handle",
        "_reading",
        "_request",
        "_settled",
        "_timer",
        "closed",
    )

    def __init__(self, flight: Flight, attempt: Attempt, gates: Gates, request: bytes) -> None:
        self._flight = flight
        self._attempt = attempt
        self._gates = gates
        self._request = request
        self._asked = False
        self._settled = False
        self._reading: Reading | None = None
        self._handle: Handle | None = None
        self._timer: TimerHandle | None = None
        self.closed: bool | None = None
        """Whether the body ended cleanly; None while it goes on."""

    def begin(self) -> None:
        """A whole answer is judged now, a stream when there is enough of it."""
        attempt, flight, prefix = self._attempt, self._flight, self._gates.prefix
        if attempt.whole is not None:
            self._asked = True
            self._judge(answer_in(flight, attempt.whole))
        else:
            if prefix is not None and prefix.time < inf:
                self._timer = flight.later(prefix.time, self._ask)
            self._reading = flight.protocol.reading()
            self._look(attempt.scanner is not None and attempt.scanner.watch(b""), b"".join(attempt.held))
        if not self._settled:
            flight.run.held(attempt.index)

    def feed(self, data: bytes) -> None:
        """Another piece of the stream, which the attempt keeps."""
        attempt = self._attempt
        attempt.last_data_at = self._flight.time()  # of an answer that is begun anew the stall limit holds already
        scanner = attempt.scanner
        self._look(scanner is not None and scanner.watch(data), data)

    def _look(self, done: bool, data: bytes) -> None:
        """Ask when there is enough, or all: the stream's end marker has come."""
        reading, prefix = self._reading, self._gates.prefix
        if self._asked or reading is None or prefix is None:
            return
        reading.feed(data)
        if done or reading.chars >= CHARACTERS_PER_TOKEN * prefix.tokens:
            self._ask()

    def over(self, *, clean: bool) -> None:
        """The body ended before commit, or broke off. Until it is judged, a stream that is cut is no answer."""
        self.closed = clean
        scanner = self._attempt.scanner
        if self._asked or scanner is None:
            return
        if (failure := scanner.ending(clean).failure) is None:
            self._ask()
        else:
            self._flight.lost(self._attempt, failure)

    def too_long(self) -> None:
        """More has come than may be held."""
        self._attempt.give_up("more came than may be held back (limits.held_bytes) before its gates had judged")

    def resume(self) -> None:
        """The answer has won: read on, if a rejection had stopped that."""
        attempt = self._attempt
        if attempt.rejection is not None and attempt.call is not None:
            attempt.last_data_at = self._flight.time()
            attempt.call.resume()

    def give_up(self) -> None:
        """The attempt is over: nothing is to be judged any more."""
        self._asked = self._settled = True
        if self._timer is not None:
            self._timer.cancel()
        if self._handle is not None:
            self._handle.cancel()

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            self._reading = None
            if self._timer is not None:
                self._timer.cancel()
            self._judge(self._flight.protocol.answer_so_far(b"".join(self._attempt.held)))

    def _judge(self, answer: Answer) -> None:
        self._handle = self._gates.keeper.judge(answer, self._request, self._judged)

    def _judged(self, verdict: Verdict) -> None:
        self._handle = None
        self._settled = True
        attempt, rejection = self._attempt, verdict.rejection
        shout(self._flight, attempt, verdict)
        if attempt.ended:
            return
        if rejection is None:
            self._flight.passed(attempt)
            return
        attempt.rejection = rejection
        if attempt.call is not None:
            attempt.call.pause()  # whoever waits here reads on only when nobody better comes
        flight, target = self._flight, attempt.target.name
        about = flight.about(attempt) | {"gate": rejection.gate}
        log.info("request %s: the answer of %s was rejected: %s", flight.request_id, target, rejection, extra=about)
        records.rejected(flight, attempt, rejection, delivered=False)
        failure = Failure(FailureClass.GATE, f"its answer was rejected by gate {rejection}")
        flight.blame(attempt, failure)
        flight.rejected(attempt, failure, verdict.passed)


def answer_in(flight: Landing, body: bytes) -> Answer:
    """What a gate sees of this body, be it a document or a stream."""
    protocol = flight.protocol
    return protocol.answer_so_far(body) if is_event_stream(body) else protocol.answer(body)


def shout(flight: Landing, attempt: Attempt, verdict: Verdict) -> None:
    """Say loudly that a gate could not judge: its answers pass."""
    for error in verdict.errors:
        records.not_judged(flight, attempt, error)
        about = flight.about(attempt)
        log.error(
            "request %s, route %s: %s; its answer passes", about["request_id"], about["route"], error, extra=about
        )


def review(gates: Gates, request: bytes, flight: Landing, winner: Attempt, body: bytes) -> None:
    """Judge a stream that was delivered: a rejection comes too late and is only reported."""

    def report(verdict: Verdict) -> None:
        shout(flight, winner, verdict)
        if verdict.rejection is not None:
            records.rejected(flight, winner, verdict.rejection, delivered=True)

    gates.keeper.judge(answer_in(flight, body), request, report)
