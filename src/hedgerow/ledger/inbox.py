"""What comes to the writer through its pipe."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import BinaryIO, Final

from hedgerow.ledger.record import FRAME

SIZE: Final = 16 << 20
"""Bytes that are read before they are written; beyond it the gateway keeps them."""
TRANSACTION: Final = 4 << 20
"""Bytes of records that are written in one transaction."""


class Inbox:
    """What comes through the pipe, read by a thread of its own so that the gateway finds room in it."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._changed = threading.Condition()
        self._batches: deque[tuple[int, bytes]] = deque()
        self._size = 0
        self._ended = False

    def read_one(self) -> bytes | None:
        """The next frame's content, before `start`; None at the end."""
        found = self._read()
        return None if found is None else found[1]

    def start(self) -> None:
        """Begin to read ahead."""
        threading.Thread(target=self._run, name="inbox", daemon=True).start()

    def take(self, timeout: float) -> Sequence[tuple[int, bytes]] | None:
        """Batches for a transaction, in order; none after so many seconds; None when no more will come."""
        with self._changed:
            self._changed.wait_for(lambda: self._batches or self._ended, timeout)
            taken: list[tuple[int, bytes]] = []
            size = 0
            while self._batches and size < TRANSACTION:
                taken.append(self._batches.popleft())
                size += len(taken[-1][1])
            self._size -= size
            self._changed.notify_all()
            return None if not taken and self._ended else taken

    def wait_for_end(self, timeout: float) -> bool:
        """Wait so many seconds, or until nothing more will come."""
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, timeout)

    def _run(self) -> None:
        while (batch := self._read()) is not None:
            with self._changed:
                self._batches.append(batch)
                self._size += len(batch[1])
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._size < SIZE)
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _read(self) -> tuple[int, bytes] | None:
        head = self._pipe.read(FRAME.size)
        if len(head) < FRAME.size:
            return None
        length, number = FRAME.unpack(head)
        payload = self._pipe.read(length)
        return (number, payload) if len(payload) == length else None
