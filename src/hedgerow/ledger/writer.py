"""The process that writes: `python -m hedgerow.ledger.writer`, started by a gateway and fed through its standard input.

It ends when its input does, once all that came is written. Signals do not end it: whoever stops a gateway and all that
belongs to it with one signal would lose what is on its way here.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import BinaryIO, Final

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from hedgerow.errors import LedgerError
from hedgerow.ledger.record import FRAME, Hello, Reply, decode_hello, encode, frame
from hedgerow.ledger.store import migrate, open_store, why
from hedgerow.ledger.tables import Tables
from hedgerow.ledger.upkeep import Upkeep

INBOX: Final = 16 << 20
"""Bytes that are read before they are written; beyond it the gateway keeps them."""
TRANSACTION: Final = 4 << 20
"""Bytes of records that are written in one transaction."""
RETRY: Final = 1.0
"""Seconds from one try to the next while the database cannot be written to."""
LAST: Final = 60_000_000
"""Microseconds for which it is tried once the gateway is gone; one that ends in good order kills its writer sooner."""
UPKEEP: Final = 10.0
"""Seconds from one look at what is old, lost or to be summed up to the next."""

Now = Callable[[], int]
"""Unix microseconds."""


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
                self._changed.wait_for(lambda: self._size < INBOX)
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


class Writer:
    """Takes batches from the inbox and answers when they are in the tables."""

    def __init__(self, hello: Hello, inbox: Inbox, answer: Callable[[int, Reply], None], now: Now) -> None:
        self._hello = hello
        self._inbox = inbox
        self._answer = answer
        self._now = now
        self._tables: Tables | None = None
        self._trouble = ""
        self._pause = threading.Event()  # is never set
        self._until = 0

    def run(self) -> int:
        """Until the inbox ends. Returns the exit code: 0 when all was written."""
        try:
            engine = open_store(self._hello.url, writes=True)
        except LedgerError as error:
            self._answer(0, Reply(trouble=str(error)))
            self._inbox.wait_for_end(3600.0)
            return 1
        if not self._written(engine, ()):
            return 1
        self._keep_up(engine)
        while (batches := self._inbox.take(UPKEEP)) is not None:
            if batches and not self._written(engine, batches):
                return 1
        Upkeep(engine, self._hello, self._process).end(self._now())
        engine.dispose()
        return 0

    def _written(self, engine: Engine, batches: Sequence[tuple[int, bytes]]) -> bool:
        """Try until they are in the tables; False when the gateway is gone and it cannot be done."""
        while True:
            try:
                self._write(engine, batches)
            except (SQLAlchemyError, OSError, LedgerError) as error:
                self._troubled(why(error) if isinstance(error, DBAPIError) else str(error))
                if self._inbox.wait_for_end(RETRY) and not self._once_more():
                    return False
            else:
                return True

    def _once_more(self) -> bool:
        """The gateway is gone, and it may still be tried again, now."""
        self._until = self._until or self._now() + LAST
        self._pause.wait(RETRY)
        return self._now() < self._until

    def _write(self, engine: Engine, batches: Sequence[tuple[int, bytes]]) -> None:
        if self._tables is None:
            migrate(engine)
            self._tables = Tables(engine, self._hello, self._now())
        if batches:
            refused = self._tables.write(batches, self._now())
            self._answer(batches[-1][0], Reply(refused=refused, trouble="" if self._trouble else None))
        elif self._trouble:
            self._answer(0, Reply(trouble=""))
        self._trouble = ""

    def _troubled(self, trouble: str) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            self._answer(0, Reply(trouble=trouble))

    @property
    def _process(self) -> int:
        return 0 if self._tables is None else self._tables.process

    def _keep_up(self, engine: Engine) -> None:
        upkeep = Upkeep(engine, self._hello, self._process)

        def run() -> None:
            while True:
                try:
                    upkeep.look(self._now())
                except SQLAlchemyError as error:
                    text = why(error) if isinstance(error, DBAPIError) else str(error)
                    self._answer(0, Reply(note=f"sums and old rows have to wait: {text}"))
                if self._inbox.wait_for_end(UPKEEP):
                    return

        threading.Thread(target=run, name="upkeep", daemon=True).start()


def main() -> int:
    """Write what comes on standard input; answers go to standard output."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    inbox = Inbox(sys.stdin.buffer)
    hello = inbox.read_one()
    if hello is None:
        return 0
    inbox.start()
    lock = threading.Lock()

    def answer(number: int, reply: Reply) -> None:
        try:
            with lock:
                os.write(1, frame(number, encode(reply)))
        except OSError:
            pass  # the gateway is gone, and what is here is to be written all the same

    def now() -> int:
        return time.time_ns() // 1000  # noqa: TID251  # when things were written, and how old they are

    return Writer(decode_hello(hello), inbox, answer, now).run()


if __name__ == "__main__":
    sys.exit(main())
