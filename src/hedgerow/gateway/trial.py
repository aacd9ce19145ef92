"""Asking a route's gates whether an attempt's answer may win, and holding it back for as long as that takes."""

from __future__ import annotations

import logging
from asyncio import TimerHandle
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, NamedTuple

from hedgerow.answer import Answer
from hedgerow.events import Failure, FailureClass
from hedgerow.gatekeeper import Gatekeeper, Handle
from hedgerow.gateway import records
from hedgerow.policy.gates.gate import Rejection, Verdict
from hedgerow.policy.gates.settings import Prefix
from hedgerow.wire.sse import keep
from hedgerow.wire.whole import is_event_stream

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.delivery import Delivery
    from hedgerow.gateway.flight import Flight

log = logging.getLogger("hedgerow.gateway")
CHARACTERS_PER_TOKEN = 4


class Gates(NamedTuple):
    """The gates of a route. `prefix`: how much of a stream is judged before it may win; None: nothing."""

    keeper: Gatekeeper
    prefix: Prefix | None = None


class Trial:
    """One attempt's answer before its gates: a whole one, or the start of a stream, which is held back meanwhile."""

    __slots__ = ("_asked", "_attempt", "_flight", "_gates", "_handle", "_request", "_timer", "closed", "rejection")

    def __init__(self, flight: Flight, attempt: Attempt, gates: Gates, request: bytes) -> None:
        self._flight = flight
        self._attempt = attempt
        self._gates = gates
        self._request = request
        self._asked = False
        self._handle: Handle | None = None
        self._timer: TimerHandle | None = None
        self.closed: bool | None = None
        """Whether the body ended cleanly; None while it goes on."""
        self.rejection: Rejection | None = None
        """Which gate rejected the answer, and why."""

    def begin(self) -> None:
        """A whole answer is judged now, a stream when there is enough of it."""
        body, prefix = self._attempt.whole, self._gates.prefix
        if body is not None:
            self._asked = True
            self._judge(answer_in(self._flight, body))
            return
        if prefix is not None and prefix.time < inf:
            self._timer = self._flight.later(prefix.time, self._ask)
        self.feed(b"")

    def feed(self, data: bytes) -> None:
        """Another piece of the stream, which the attempt keeps."""
        scanner = self._attempt.scanner
        done = scanner is not None and scanner.watch(data)
        if not self._asked and (done or self._is_enough()):
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

    def resume(self) -> None:
        """The answer has won: read on, if a rejection had stopped that."""
        attempt = self._attempt
        if self.rejection is not None and attempt.call is not None:
            attempt.last_data_at = self._flight.time()
            attempt.call.resume()

    def give_up(self) -> None:
        """The attempt is over: nothing is to be judged any more."""
        self._asked = True
        if self._timer is not None:
            self._timer.cancel()
        if self._handle is not None:
            self._handle.cancel()

    def _is_enough(self) -> bool:
        prefix = self._gates.prefix
        if prefix is None:
            return False
        held = b"".join(self._attempt.held)
        return len(self._flight.protocol.answer_so_far(held).text) >= CHARACTERS_PER_TOKEN * prefix.tokens

    def _ask(self) -> None:
        if not self._asked:
            self._asked = True
            if self._timer is not None:
                self._timer.cancel()
            self._judge(self._flight.protocol.answer_so_far(b"".join(self._attempt.held)))

    def _judge(self, answer: Answer) -> None:
        self._handle = self._gates.keeper.judge(answer, self._request, self._judged)

    def _judged(self, verdict: Verdict) -> None:
        self._handle = None
        shout(self._flight, verdict)
        attempt, rejection = self._attempt, verdict.rejection
        if attempt.ended:
            return
        if rejection is None:
            self._flight.run.accepted(attempt.index)
            return
        self.rejection = rejection
        if attempt.call is not None:
            attempt.call.pause()  # whoever waits here reads on only when nobody better comes
        flight, target = self._flight, attempt.target.name
        log.info("request %s: the answer of %s was rejected: %s", flight.request_id, target, rejection)
        records.rejected(flight, attempt, rejection, delivered=False)
        failure = Failure(FailureClass.GATE, f"its answer was rejected by gate {rejection}")
        flight.blame(attempt, failure)
        flight.run.rejected(attempt.index, failure, verdict.passed)


class Reviewed:
    """Delivers a stream, and when it is over has it judged: a rejection comes too late and is only reported."""

    __slots__ = ("_delivery", "_keeper", "_pieces", "_request", "_room", "_write")

    def __init__(self, delivery: Delivery, keeper: Gatekeeper, request: bytes, room: int) -> None:
        """A stream of more than `room` bytes is not judged."""
        self._delivery = delivery
        self._keeper = keeper
        self._request = request
        self._room = room
        self._pieces: list[bytes] = []
        self._write = delivery.write

    @property
    def write(self) -> Callable[[bytes], None]:
        """Takes the winner's pieces."""
        return self._keep

    def _keep(self, data: bytes) -> None:
        self._room -= len(data)
        if self._room >= 0:
            keep(self._pieces, data)
        else:
            self._pieces.clear()
        self._write(data)

    def end(self, flight: Flight, winner: Attempt) -> Failure | None:
        """The stream is whole."""
        failure = self._delivery.end(flight, winner)
        if failure is None and self._pieces:
            answer = answer_in(flight, b"".join(self._pieces))
            self._keeper.judge(answer, self._request, lambda verdict: _report(flight, winner, verdict))
        return failure

    def break_off(self, flight: Flight, winner: Attempt, failure: Failure) -> int | None:
        """The stream cannot be completed."""
        return self._delivery.break_off(flight, winner, failure)


def answer_in(flight: Flight, body: bytes) -> Answer:
    """What a gate sees of this body, be it a document or a stream."""
    protocol = flight.protocol
    return protocol.answer_so_far(body) if is_event_stream(body) else protocol.answer(body)


def shout(flight: Flight, verdict: Verdict) -> None:
    """Say loudly that a gate could not judge: its answers pass."""
    for error in verdict.errors:
        log.error("request %s, route %s: %s; its answer passes", flight.request_id, flight.route.name, error)


def _report(flight: Flight, winner: Attempt, verdict: Verdict) -> None:
    shout(flight, verdict)
    if verdict.rejection is not None:
        records.rejected(flight, winner, verdict.rejection, delivered=True)
