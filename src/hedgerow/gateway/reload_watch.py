"""Notices that a file has changed: looks at it every two seconds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from hedgerow.gateway.blueprint import Stamp

INTERVAL = 2.0
"""Seconds between two looks. A network file system or a mounted volume tells nobody of changes, so we ask."""


def stamp_of(path: str) -> Stamp | None:
    """What differs when a file was written to or replaced; None while there is none to be read."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class FileWatch:
    """Calls `changed` when the file at `path` is another than `seen` and was so at two looks.

    Whoever writes a file piece by piece is given that long to finish; while there is no file, nothing has changed.
    """

    def __init__(
        self, path: str, seen: Stamp | None, changed: Callable[[], object], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._path = path
        self.seen = seen
        """The file as it was last read."""
        self._changed = changed
        self._loop = loop
        self._before: Stamp | None = None
        self._timer: asyncio.TimerHandle | None = None

    def read(self) -> None:
        """The file is about to be read: what is there now is not news any more."""
        self.seen = stamp_of(self._path)

    def start(self) -> None:
        """Look from now on."""
        if self._timer is None:
            self._timer = self._loop.call_later(INTERVAL, self._look)

    def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(INTERVAL, self._look)
        found, before = stamp_of(self._path), self._before
        self._before = found
        if found is not None and found == before and found != self.seen:
            self.seen = found
            self._changed()
