"""One attempt: the sink of one upstream call, and what is held back until its first token."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hedgerow.errors import ConnectFailed, PoolExhausted, UpstreamError
from hedgerow.events import AttemptEnded, Failure, FailureClass, Headers, Outcome, Role, Usage
from hedgerow.http.upstream import Call
from hedgerow.wire.base import Accepted, Scanner, Verdict

if TYPE_CHECKING:
    from hedgerow.gateway.flight import Flight
    from hedgerow.gateway.target import Target


def _never(_data: bytes) -> bool:
    return False


class Attempt:
    """Feeds the scanner, holds bytes until commit, then hands every piece on."""

    __slots__ = (
        "_flight",
        "_held_limit",
        "_time",
        "_watch",
        "_write",
        "call",
        "done",
        "ended",
        "first_token_at",
        "headers",
        "headers_at",
        "held",
        "index",
        "last",
        "last_data_at",
        "launched_at",
        "received",
        "role",
        "scanner",
        "status",
        "target",
        "whole",
    )

    def __init__(self, flight: Flight, index: int, target: Target, role: Role, now: float, held_limit: int) -> None:
        self._flight = flight
        self._held_limit = held_limit
        self.index = index
        self.target = target
        self.role = role
        self.launched_at = now
        self.headers_at: float | None = None
        self.first_token_at: float | None = None
        self.call: Call | None = None
        self.status: int | None = None
        self.headers: Headers = []
        self.scanner: Scanner | None = None
        self.held: list[bytes] = []
        self.received = 0
        self.last_data_at = now
        self.last = b""
        """The piece that was last delivered."""
        self._time = flight.time
        self._write: Callable[[bytes], None] | None = None
        self._watch: Callable[[bytes], bool] = _never
        self.whole = False
        """The body has ended (before commit)."""
        self.done = False
        """The protocol's end marker has been seen (after commit)."""
        self.ended = False
        """Its AttemptEnded event has been spoken."""

    def on_head(self, status: int, headers: Headers) -> None:
        flight = self._flight
        self.headers_at = now = self._time()
        self.status = status
        self.headers = headers
        if flight.protocol.accepts_head:
            self.scanner = flight.protocol.scanner(flight.facts, headers)
            self.first_token_at = now
            flight.run.accepted(self.index)
        elif 200 <= status < 300:
            self.scanner = flight.protocol.scanner(flight.facts, headers)

    def on_data(self, data: bytes) -> None:
        self.received += len(data)
        if self._write is None:
            self._hold(data)
        elif not self.done:
            self.last_data_at = self._time()
            self.last = data
            self._write(data)
            if self._watch(data):
                self._complete()

    def on_end(self) -> None:
        if self._write is not None:
            if not self.done and self.scanner is not None:
                self._flight.ended(self.scanner.ending(True))
            return
        self.whole = True
        if self.scanner is None:
            self._flight.lost(self, self._flight.protocol.classify(self.status or 0, self.headers, self.body()))
        else:
            self._judged(self.scanner.eof(self.body()))

    def on_error(self, error: UpstreamError) -> None:
        if self._write is not None:
            if not self.done and self.scanner is not None:
                self._flight.ended(self.scanner.ending(False))
            return
        connect = isinstance(error, ConnectFailed | PoolExhausted)
        kind = FailureClass.CONNECT if connect else FailureClass.PROTOCOL
        self._flight.lost(self, Failure(kind, str(error)))

    def deliver_to(self, write: Callable[[bytes], None]) -> None:
        """From commit on: hand over what is held, then every piece as it comes."""
        self._write = write
        scanner = self.scanner
        if scanner is not None:
            self._watch = scanner.watch
        if self.held:
            self.last = self.body()
            self.held = []
            write(self.last)
        if scanner is not None and scanner.watch(b""):
            self._complete()

    def body(self) -> bytes:
        """All that is held, as one piece."""
        held = self.held
        return held[0] if len(held) == 1 else b"".join(held)

    def ended_event(
        self, request_id: str, outcome: Outcome, failure: Failure | None, usage: Usage | None
    ) -> AttemptEnded:
        """The record of this attempt, spoken once."""
        self.ended = True
        return AttemptEnded(
            request_id,
            self.index,
            self.target.name,
            self.role,
            outcome,
            self.launched_at,
            self.headers_at,
            self.first_token_at,
            self._time(),
            self.status,
            self.received,
            failure,
            usage,
        )

    def _hold(self, data: bytes) -> None:
        self.held.append(data)
        if self.received > self._held_limit:
            self._give_up(f"more than {self._held_limit} bytes came before a first token")
        elif self.scanner is not None and (verdict := self.scanner.feed(data)) is not None:
            self._judged(verdict)

    def _complete(self) -> None:
        """The protocol's end marker has come; what follows it is nobody's business."""
        self.done = True
        if self.scanner is not None:
            self._flight.ended(self.scanner.ending(True))
        if self.call is not None:
            self._flight.linger(self.call)

    def _judged(self, verdict: Verdict) -> None:
        if isinstance(verdict, Accepted):
            self.first_token_at = self.last_data_at = self._time()
            self._flight.run.accepted(self.index)
            return
        if not self.whole and self.call is not None:
            self.call.cancel()
        self._flight.lost(self, verdict)

    def _give_up(self, why: str) -> None:
        if self.call is not None:
            self.call.cancel()
        self._flight.lost(self, Failure(FailureClass.PROTOCOL, why))
