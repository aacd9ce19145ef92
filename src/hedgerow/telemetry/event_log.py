"""Events as lines of JSON in a file: `{"event": "attempt_ended", ...}`, its fields as in `hedgerow.events`.

`time` is when it happened, in Unix seconds. All other times are the loop's monotonic seconds, as in the events:
differences mean something, the numbers themselves do not. Of a failure the class, the message, the status and
`retry_after` are written, never the upstream's header fields or body.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable
from typing import Final, get_args

import msgspec

from hedgerow.events import AttemptEnded, Event, Failure, FailureClass, RequestFinished

log = logging.getLogger("hedgerow.telemetry")

INTERVAL: Final = 0.1
"""Seconds for which lines are collected before they are written."""
KEPT_BYTES: Final = 1 << 20
"""Most that is kept for later while the file cannot be written to; lines beyond it are lost, and counted."""

Later = Callable[[float, Callable[[], None]], object]
"""As a loop's `call_later`."""

_NAMES = {kind: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower() for kind in get_args(Event)}
_encode = msgspec.json.Encoder().encode


class _Told(msgspec.Struct, frozen=True, gc=False):
    """What may be written of a failure."""

    kind: FailureClass
    message: str
    status: int | None
    retry_after: float | None


def line(event: Event, epoch: float = 0.0) -> bytes:
    """The event as a line of JSON; its monotonic time plus `epoch` is the Unix time."""
    fields = msgspec.structs.asdict(event)
    at = event.ended_at if isinstance(event, AttemptEnded | RequestFinished) else event.at
    if isinstance(event, AttemptEnded) and event.failure is not None:
        fields["failure"] = _told(event.failure)
    return _encode({"event": _NAMES[type(event)], "time": round(at + epoch, 3), **fields}) + b"\n"


def _told(failure: Failure) -> _Told:
    return _Told(failure.kind, failure.message, failure.status, failure.retry_after)


class EventLog:
    """A listener that appends every event to the file at `path`, which is made (mode 0600) when it is not there.

    Lines are written in batches, one write each, at most every `INTERVAL` seconds by means of `later`; several
    processes may share the file. A write that fails is said once and tried again with the next batch; requests never
    notice. `epoch` is the Unix time when the loop's clock showed 0. Raises `OSError` when the file cannot be opened.
    """

    def __init__(self, path: str, *, later: Later, epoch: float = 0.0) -> None:
        self._path = path
        self._epoch = epoch
        self._later = later
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._lines: list[bytes] = []
        self._kept = b""  # what could not be written yet; it may begin in the middle of a line
        self.written = 0
        """Lines, ever."""
        self.lost = 0
        """Lines that could not be written, ever."""
        self._lost = 0
        self._failing = False
        self._waiting = False
        self._closed = False

    @property
    def queued(self) -> int:
        """Lines that are yet to be written."""
        return len(self._lines) + self._kept.count(b"\n")

    def __call__(self, event: Event) -> None:
        if self._closed:
            return
        self._lines.append(line(event, self._epoch))
        if not self._waiting:
            self._waiting = True
            self._later(INTERVAL, self._write)

    def close(self) -> None:
        """Write what is left and close the file; events that come later are not written."""
        if not self._closed:
            self._write()
            self._closed = True
            os.close(self._file)

    def _write(self) -> None:
        self._waiting = False
        if self._closed or not (self._lines or self._kept):
            return
        self._kept += b"".join(self._lines)
        self._lines.clear()
        try:
            written = os.write(self._file, self._kept)
        except OSError as error:
            self._trouble(error.strerror or str(error))
            return
        self.written += self._kept.count(b"\n", 0, written)
        self._kept = self._kept[written:]
        if self._kept:
            self._trouble("only a part was taken; the disk may be full")
        elif self._failing:
            log.warning("event log %s: written to again; %d lines were lost", self._path, self._lost)
            self._failing, self._lost = False, 0

    def _trouble(self, why: str) -> None:
        if not self._failing:
            log.error("event log %s: cannot be written to: %s (lines are kept for a while)", self._path, why)
            self._failing = True
        if len(self._kept) > KEPT_BYTES:
            end = self._kept.index(b"\n") + 1  # what a torn line lacks must stay
            lost = self._kept.count(b"\n", end)
            self._lost += lost
            self.lost += lost
            self._kept = self._kept[:end]
