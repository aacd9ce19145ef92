"""Keeps a writer running and fed. Requests never wait for it: what does not find room is lost, and said."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Iterator
from itertools import chain, islice
from typing import Any, Final

import hedgerow
from hedgerow.ledger.backlog import Backlog
from hedgerow.ledger.book import Book, ContentBook
from hedgerow.ledger.record import FRAME, URGENT, Hello, Record, Reply, Told, decode_reply, encode, frame
from hedgerow.ledger.settings import LedgerSettings

log = logging.getLogger("hedgerow.ledger")

PATIENCE: Final = 5.0
"""Seconds that the writer has at the end to write what is left."""
IDLY: Final = 1.0
"""Seconds of these after which it lets nothing else go first: on a busy machine it would not get there."""
RESTART: Final = 1.0
"""Seconds after which a writer that has died is started again."""
STEP: Final = 100
"""Records of requests under way that are told before others have their turn on the loop."""
STEPPED: Final = 0.2
"""Seconds by which the clock must have been set before it is believed: reading it is not that exact."""
_REMIND: Final = 30.0
"""Seconds after which it is said again that records are lost."""


class Feed:
    """A ledger as the gateway has it: `book` listens, `backlog` counts. Made on the running loop."""

    def __init__(self, settings: LedgerSettings, loop: asyncio.AbstractEventLoop, epoch: Callable[[], float]) -> None:
        """`epoch` tells the Unix time when the loop's clock showed 0, as the system's clock is set now."""
        self.backlog = Backlog(settings.queue)
        told = self._add, epoch()
        self.book = Book(*told) if settings.content is None else ContentBook(*told, settings.content)
        self._epoch = epoch
        self._settings = settings
        self._loop = loop
        self._hello = Hello(
            url=settings.url,
            key=secrets.token_hex(16),
            host=socket.gethostname(),
            pid=os.getpid(),
            version=hedgerow.__version__,
            keep=settings.keep,
            keep_hourly=settings.keep_hourly,
        )
        self._unfinished: Iterator[Record] = iter(())
        self._more = asyncio.Event()
        self._ready = asyncio.Event()
        self._closing = False
        self._process: Process | None = None
        self._troubled = False
        self._urgent = False
        """The writer is not to let everything else go first: so it did not keep up."""
        self._said_lost = 0
        self._say_lost_at = 0.0
        self._timer = loop.call_later(settings.flush, self._flush)
        self._keeper = loop.create_task(self._keep_running())

    async def close(self) -> None:
        """Write what is left, within `PATIENCE`."""
        self._timer.cancel()
        for record in chain(self._unfinished, self.book.unfinished()):
            self._add(record)
        self.backlog.close_batch()
        self._closing = True
        self._more.set()
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.wait((self._keeper,), timeout=IDLY)
                if not (self._keeper.done() or self._urgent or self._troubled):
                    self._hurry()
                await self._keeper
        except TimeoutError:
            pass
        if left := self.backlog.give_up():
            log.error("ledger: %d records could not be written before the end and are lost", left)

    async def ready(self) -> None:
        """Wait until what is told would be written, or for `PATIENCE` where the database keeps that from being so."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await self._ready.wait()

    def _add(self, record: Told) -> None:
        try:
            if not self.backlog.add(record):
                self._say_lost("what waits to be written fills the queue (server.ledger.queue)")
        except Exception as error:  # it cannot be encoded, which no other is to suffer for
            self._say_lost(f"hedgerow itself cannot put them into bytes ({error!r}); please report it")

    def _say_lost(self, why: str) -> None:
        now, lost = self._loop.time(), self.backlog.lost
        if now >= self._say_lost_at:
            self._say_lost_at = now + _REMIND
            since = lost - self._said_lost
            log.error("ledger: %d records are lost, %d since this was last said: %s", lost, since, why)
            self._said_lost = lost

    def _flush(self) -> None:
        """Give out what came since the last time."""
        if abs((epoch := self._epoch()) - self.book.epoch) > STEPPED:
            self.book.epoch = epoch
        if self.backlog.size > self._settings.queue // 4 and not (self._urgent or self._troubled):
            self._hurry()
        self._unfinished = self.book.unfinished()
        self._flush_some()

    def _hurry(self) -> None:
        """Much waits, and not for the database: the machine is too busy for who lets all others go first."""
        self._urgent = True
        log.warning(
            "ledger: %d bytes wait to be written: the machine is busy, and the writer no longer lets all else go first",
            self.backlog.size,
        )
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()  # unprivileged processes cannot become more urgent

    def _flush_some(self) -> None:
        wait, then, told = self._settings.flush, self._flush, 0
        try:
            for record in islice(self._unfinished, STEP):
                self._add(record)
                told += 1
            if told == STEP:
                wait, then = 0.0, self._flush_some
            else:
                self.backlog.close_batch()
                self._more.set()
        finally:  # whatever happens, there is a next time
            self._timer = self._loop.call_later(wait, then)

    async def _keep_running(self) -> None:
        while True:
            urgent = self._urgent
            try:
                await self._run_writer()
            except OSError as error:
                log.error("ledger: its writer cannot be started: %s", error.strerror or error)
            except Exception:
                log.exception("ledger: hedgerow itself failed to feed its writer; please report it")
            if self._closing and not self.backlog.queued:
                return
            self.backlog.again()
            if urgent != self._urgent:
                continue  # it was ended to be started with more urgency
            if not self._closing:
                log.error("ledger: its writer has died and is started again; nothing is lost by that")
            await asyncio.sleep(RESTART)

    async def _run_writer(self) -> None:
        """Start a writer, and feed it until it ends."""
        command = (sys.executable, "-P", "-m", "hedgerow.ledger.writer")
        how = (URGENT,) if self._urgent else ()
        process = self._process = await asyncio.create_subprocess_exec(*command, *how, stdin=PIPE, stdout=PIPE)
        feeding = asyncio.ensure_future(self._feed(process))
        try:
            await self._hear(process)
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _feed(self, process: Process) -> None:
        pipe: Any = process.stdin
        try:
            pipe.write(frame(0, encode(self._hello)))
            while True:
                while (batch := self.backlog.next()) is not None:
                    pipe.write(batch)
                    await pipe.drain()
                if self._closing:
                    pipe.close()
                    return
                self._more.clear()
                await self._more.wait()
        except ConnectionError:
            pass  # it has died, which `_hear` is told of too

    async def _hear(self, process: Process) -> None:
        pipe: Any = process.stdout
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                length, number = FRAME.unpack(await pipe.readexactly(FRAME.size))
                self._obey(number, decode_reply(await pipe.readexactly(length)))

    def _obey(self, number: int, reply: Reply) -> None:
        self._ready.set()
        self.backlog.confirm(number, reply.refused)
        if reply.refused:
            log.error("ledger: the database would not take %d records; they are lost", reply.refused)
        if reply.note is not None:
            log.warning("ledger: %s", reply.note)
        if reply.trouble is not None:
            self._troubled = bool(reply.trouble)
        if reply.trouble:
            log.error("ledger: cannot be written: %s (kept in memory and tried again)", reply.trouble)
        elif reply.trouble is not None:
            log.warning("ledger: is written again; %d records were lost", self.backlog.lost)
