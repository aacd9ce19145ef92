"""One attempt: the sink of one upstream call, and what is held back until its first token."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.errors import ConnectFailed, PoolExhausted, UpstreamError
from hedgerow.events import AttemptEnded, Failure, FailureClass, Headers, Outcome, Role, Usage
from hedgerow.http.upstream import Call
from hedgerow.wire.base import Accepted, Scanner, Verdict

if TYPE_CHECKING:
    from hedgerow.gateway.flight import Flight
    from hedgerow.gateway.target import Target


class Attempt:
    """Feeds the scanner, holds bytes until commit, then hands every piece on."""

    __slots__ = (
        "_flight",
        "_held_limit",
        "call",
        "committed",
        "done",
        "ended",
        "first_token_at",
        "headers",
        "headers_at",
        "held",
        "index",
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
        self.committed = False
        self.whole = False
        """The body has ended (before commit)."""
        self.done = False
        """The protocol's end marker has been seen (after commit)."""
        self.ended = False
        """Its AttemptEnded event has been spoken."""

    def on_head(self, status: int, headers: Headers) -> None:
        flight = self._flight
        self.headers_at = flight.now()
        self.status = status
        self.headers = headers
        if flight.protocol.accepts_head:
            self.scanner = flight.protocol.scanner(flight.facts, headers)
            self.first_token_at = self.headers_at
            flight.run.accepted(self.index)
        elif 200 <= status < 300:
            self.scanner = flight.protocol.scanner(flight.facts, headers)

    def on_data(self, data: bytes) -> None:
        self.received += len(data)
        scanner = self.scanner
        if self.committed:
            if not self.done and scanner is not None:
                self._flight.forward(data, scanner.watch(data))
            return
        self.held.append(data)
        if self.received > self._held_limit:
            self._give_up(f"more than {self._held_limit} bytes came before a first token")
        elif scanner is not None and (verdict := scanner.feed(data)) is not None:
            self._judged(verdict)

    def on_end(self) -> None:
        if self.committed:
            if self.done or self.scanner is None:
                return
            self._flight.ended(self.scanner.ending(True))
            return
        self.whole = True
        body = self.body()
        if self.scanner is None:
            status = self.status or 0
            self._flight.lost(self, self._flight.protocol.classify(status, self.headers, body))
        else:
            self._judged(self.scanner.eof(body))

    def on_error(self, error: UpstreamError) -> None:
        if self.committed:
            if not self.done and self.scanner is not None:
                self._flight.ended(self.scanner.ending(False))
            return
        connect = isinstance(error, ConnectFailed | PoolExhausted)
        kind = FailureClass.CONNECT if connect else FailureClass.PROTOCOL
        self._flight.lost(self, Failure(kind, str(error)))

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
            self._flight.now(),
            self.status,
            self.received,
            failure,
            usage,
        )

    def _judged(self, verdict: Verdict) -> None:
        if isinstance(verdict, Accepted):
            self.first_token_at = self._flight.now()
            self._flight.run.accepted(self.index)
            return
        if not self.whole and self.call is not None:
            self.call.cancel()
        self._flight.lost(self, verdict)

    def _give_up(self, why: str) -> None:
        if self.call is not None:
            self.call.cancel()
        self._flight.lost(self, Failure(FailureClass.PROTOCOL, why))
