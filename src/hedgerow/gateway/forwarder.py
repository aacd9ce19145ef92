"""Handing a committed answer on piece by piece, and letting its scanner see what can wait several pieces at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from hedgerow.wire.base import Scanner
from hedgerow.wire.sse import without_bom
from hedgerow.wire.whole import is_event_stream

_COLLECTED = 8
"""Pieces without a sign of the end that are collected before the scanner sees them ..."""
_COLLECTED_BYTES = 2048
"""... fewer where pieces of the size seen last would be more than this: every open stream holds half of it."""
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_TAIL = 4
"""Bytes that the longest of them has."""


class Forwarder(ABC):
    """The part of an attempt that is busy after commit. The attempt sets it up, as a flight does with `Paced`."""

    __slots__ = (
        "_collected",
        "_room",
        "_sign",
        "_tail",
        "_time",
        "_watch",
        "_write",
        "input_tokens",
        "last_data_at",
        "received",
    )

    _time: Callable[[], float]
    input_tokens: int
    """About how many were sent."""
    last_data_at: float
    received: int
    """Bytes of the body, up to what is collected."""

    @abstractmethod
    def _complete(self) -> None:
        """The protocol's end marker has come."""

    def _start(self, write: Callable[[bytes], None], scanner: Scanner, held: bytes) -> Callable[[bytes], None]:
        """Deliver what was held back; returns what takes the pieces that follow."""
        self._collected: list[bytes] = []  # pieces that were delivered and that the scanner has not seen
        self._room = 1
        self._tail = held[-_TAIL:]
        self._write = write
        self._sign = scanner.sign or 0
        self._watch = scanner.watch
        if held:
            write(without_bom(held) if is_event_stream(held) else held)
        return self._pass_on if scanner.sign is None else self._forward

    def between_events(self) -> bool:
        """Whether what was delivered so far ends with a blank line."""
        self._catch_up()
        return self._tail.endswith(_EVENT_ENDS)

    def _forward(self, data: bytes) -> None:
        """A piece after commit. Whatever can wait is done for several pieces at once."""
        time, write = self._time, self._write  # CPython is slow to call what is in a slot without taking it out first
        self.last_data_at = time()
        write(data)
        collected = self._collected
        collected.append(data)
        if (len(collected) >= self._room or self._sign in data) and self._catch_up():
            self._complete()

    def _pass_on(self, data: bytes) -> None:
        """A piece after commit in a protocol whose end is not looked for."""
        self.last_data_at = self._time()
        self.received += len(data)
        self._write(data)

    def _catch_up(self) -> bool:
        """Let the scanner see what was collected; True once the end marker has been seen."""
        collected = self._collected
        if not collected:
            return False
        count = len(collected)
        data = collected[0] if count == 1 else b"".join(collected)
        collected.clear()
        self.received += len(data)
        self._tail = tail = data[-_TAIL:]
        # In the middle of an event, which may be the end marker, the next piece is looked at when it comes.
        between = tail.endswith(_EVENT_ENDS)
        self._room = min(_COLLECTED, _COLLECTED_BYTES * count // (len(data) or 1)) if between else 1
        return self._watch(data)
