"""What is not in the database yet: encoded records, bounded in bytes, kept until the writer has confirmed them."""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from hedgerow.ledger.record import LENGTH, Content, Told, encode_into, frame

BATCH: Final = 64 << 10
"""Bytes after which a batch is closed; it is closed at each flush in any case."""
_NO_LENGTH: Final = bytes(LENGTH.size)


class Batch(NamedTuple):
    """Some records."""

    number: int
    frame: bytes
    records: int


class Backlog:
    """Takes records at any time, gives them out in numbered batches, and forgets a batch when it is confirmed.

    A writer that dies is given what it had not confirmed once more; it knows by their numbers which it had written.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = bytearray()
        self._buffered = 0
        self._batches: deque[Batch] = deque()  # sent or not, all unconfirmed
        self._sent = 0  # how many of them are with the writer
        self._number = 0
        self.size = 0
        """Bytes that wait to be confirmed."""
        self.queued = 0
        """Records that wait to be confirmed."""
        self.written = 0
        """Records that are in the database; one of a request that was under way at a flush counts again at its end."""
        self.lost = 0
        """Records for which there was no room, or that the database would not take."""

    def add(self, record: Told) -> bool:
        """Take a record; False when there is no room: it is lost, and counted. Contents may fill half of it."""
        limit = self._limit // 2 if type(record) is Content else self._limit
        if self.size + len(self._buffer) >= limit:
            self.lost += 1
            return False
        buffer = self._buffer
        at = len(buffer)
        buffer += _NO_LENGTH
        try:
            encode_into(record, buffer, at + LENGTH.size)
        except Exception:
            del buffer[at:]
            self.lost += 1
            raise
        LENGTH.pack_into(buffer, at, len(buffer) - at - LENGTH.size)
        self._buffered += 1
        self.queued += 1
        if len(buffer) >= BATCH:
            self.close_batch()
        return True

    def close_batch(self) -> None:
        """Let what was added be given out."""
        if self._buffered:
            self._number += 1
            batch = Batch(self._number, frame(self._number, self._buffer), self._buffered)
            self._batches.append(batch)
            self.size += len(batch.frame)
            self._buffer.clear()
            self._buffered = 0

    def next(self) -> bytes | None:
        """A batch to send, in its frame; None when all are with the writer."""
        if self._sent == len(self._batches):
            return None
        self._sent += 1
        return self._batches[self._sent - 1].frame

    def confirm(self, number: int, refused: int = 0) -> None:
        """All batches up to this one are in the database, but for so many of their records."""
        while self._batches and self._batches[0].number <= number:
            batch = self._batches.popleft()
            self._sent -= 1
            self.size -= len(batch.frame)
            self.queued -= batch.records
            self.written += batch.records
        self.written -= refused
        self.lost += refused

    def again(self) -> None:
        """The writer is gone: what it has not confirmed is to be sent to the next one."""
        self._sent = 0

    def give_up(self) -> int:
        """Nobody will write what is left; how many records that is."""
        self.close_batch()
        left, self.queued = self.queued, 0
        self.lost += left
        self._batches.clear()
        self._sent = self.size = 0
        return left
