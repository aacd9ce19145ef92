"""From the inbox into the tables: what the writer does, and what it does while that cannot be done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final

from sqlalchemy import Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError

from hedgerow.errors import LedgerError
from hedgerow.ledger.inbox import Inbox
from hedgerow.ledger.record import Hello, Reply
from hedgerow.ledger.store import migrate, open_store, why
from hedgerow.ledger.tables import Tables
from hedgerow.ledger.upkeep import Upkeep

RETRY: Final = 1.0
"""Seconds from one try to the next while the database cannot be written to."""
LAST: Final = 60_000_000
"""Microseconds for which it is tried once the gateway is gone; one that ends in good order kills its writer sooner."""
UPKEEP: Final = 10.0
"""Seconds from one look at what is old, lost or to be summed up to the next."""

Now = Callable[[], int]
"""Unix microseconds."""


class Writer:
    """Takes batches from the inbox and answers when they are in the tables."""

    def __init__(
        self, hello: Hello, inbox: Inbox, answer: Callable[[int, Reply], None], now: Now, ready: Callable[[], None]
    ) -> None:
        """`ready` is called once what comes can be written."""
        self._hello = hello
        self._inbox = inbox
        self._answer = answer
        self._now = now
        self._ready = ready
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
        self._ready()
        upkeep = Upkeep(engine, open_store(self._hello.url))
        self._keep_up(upkeep)
        while (batches := self._inbox.take(UPKEEP)) is not None:
            if batches and not self._written(engine, batches):
                return 1
        upkeep.end(self._process, self._now())
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

    def _keep_up(self, upkeep: Upkeep) -> None:
        def run() -> None:
            while True:
                try:
                    upkeep.look(self._process, self._hello, self._now())
                except SQLAlchemyError as error:
                    text = why(error) if isinstance(error, DBAPIError) else str(error)
                    self._answer(0, Reply(note=f"sums and old rows have to wait: {text}"))
                if self._inbox.wait_for_end(UPKEEP):
                    return

        threading.Thread(target=run, name="upkeep", daemon=True).start()
