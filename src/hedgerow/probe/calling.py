"""Calls that a probe makes: one that is heard to its end, one that is cancelled half-way, a question on the side."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from hedgerow.errors import HedgerowError, UpstreamError
from hedgerow.events import Headers
from hedgerow.http.client import Pool
from hedgerow.http.client_connection import ClientConnection
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.http.upstream import Call
from hedgerow.probe.asking import Asked
from hedgerow.wire.base import Accepted, Ending, Scanner


class ProbeFailed(HedgerowError):
    """The target could not be probed: it is not reachable, refuses the key, or does not answer as it should."""


class WatchedPool(Pool):
    """A pool that knows when a connection of its was last closed."""

    def __init__(self, origin: Origin, settings: PoolSettings, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(origin, settings, loop=loop)
        self.one_closed = asyncio.Event()
        """Set when one is closed, at `closed_at`; for whoever clears it."""
        self.closed_at = 0.0

    def closed(self, connection: ClientConnection) -> None:
        """Its socket is closed."""
        super().closed(connection)
        self.closed_at = self._now()
        self.one_closed.set()


class Heard:
    """The sink of one call: notes what came when. Times are the loop's."""

    def __init__(self, asked: Asked, now: Callable[[], float]) -> None:
        self._asked = asked
        self._now = now
        self._scanner: Scanner | None = None
        self.call: Call | None = None
        self.status: int | None = None
        self.headers: Headers = []
        self.body = b""
        self.headers_at: float | None = None
        self.first_token_at: float | None = None
        self.last_at: float | None = None
        self.ended_at: float | None = None
        self.error: UpstreamError | None = None
        self.pieces = 0
        """Pieces of an accepted stream that have come."""
        self.changed = asyncio.Event()
        self.cancelled_at: float | None = None
        self.stops_at_head = False
        """It is cancelled as soon as its head is here, before a token that may have come with it is looked at."""

    def on_head(self, status: int, headers: Headers) -> None:
        self.status, self.headers = status, headers
        self.headers_at = self._now()
        if 200 <= status < 300:
            self._scanner = self._asked.protocol.scanner(self._asked.facts, headers)
            if self.stops_at_head:
                self.cancel()
        self.changed.set()

    def on_data(self, data: bytes) -> None:
        self.body += data
        self.last_at = self._now()
        scanner = self._scanner
        if scanner is not None and scanner.sign is not None:
            if self.first_token_at is not None:
                scanner.watch(data)
                self.pieces += 1
            elif isinstance(scanner.feed(data), Accepted):
                self.first_token_at = self.last_at
                self.pieces = 1
        self.changed.set()

    def on_end(self) -> None:
        self.ended_at = self._now()
        scanner = self._scanner
        if scanner is not None and self.first_token_at is None and isinstance(scanner.eof(self.body), Accepted):
            self.first_token_at = self.ended_at
        self.changed.set()

    def on_error(self, error: UpstreamError) -> None:
        self.error = error
        self.ended_at = self._now()
        self.changed.set()

    def cancel(self) -> None:
        """Give the call up."""
        if self.call is not None and self.cancelled_at is None:
            self.cancelled_at = self._now()
            self.call.cancel()

    @property
    def over(self) -> bool:
        """Whether nothing more can come."""
        return self.ended_at is not None or self.cancelled_at is not None

    def ending(self) -> Ending | None:
        """How a good answer ended, or what is known of it by now; None of any other."""
        return None if self._scanner is None else self._scanner.ending(self.ended_at is not None and self.error is None)

    @property
    def sent_at(self) -> float | None:
        """When the request was written; None while it is not."""
        return None if self.call is None else self.call.sent_at

    def problem(self) -> str | None:
        """What is wrong with an answer that has come, in words without any of its own; None of a good one, or none."""
        if self.status is not None and self._scanner is None:
            failure = self._asked.protocol.classify(self.status, self.headers, self.body)
            return f"{failure.kind}: {failure.message}"
        ending = self.ending()
        if self.ended_at is None or ending is None or ending.failure is None:
            return None
        return f"its answer is not whole: {ending.failure.message}"

    def tokens(self) -> int | None:
        """Tokens of the answer that have come."""
        ending = self.ending()
        return None if ending is None or ending.usage is None else ending.usage.output_tokens

    async def until(self, true: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is so, or the call is over; False when it is not within this time, if there is any."""
        if not seconds:
            return true()
        try:
            async with asyncio.timeout(seconds):
                while not (true() or self.over):
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            pass  # what is so at the last moment still counts
        return true()


class Answered:
    """The sink of a question on the side, whole in memory."""

    def __init__(self) -> None:
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.status: int | None = None
        self.body = b""

    def on_head(self, status: int, headers: Headers) -> None:
        self.status = status

    def on_data(self, data: bytes) -> None:
        self.body += data

    def on_end(self) -> None:
        self._settle()

    def on_error(self, error: UpstreamError) -> None:
        self.status = None
        self._settle()

    def _settle(self) -> None:
        if not self._done.done():
            self._done.set_result(None)

    async def wait(self, call: Call, seconds: float) -> bytes | None:
        """The body of a 200; None for anything else, or nothing within this time."""
        try:
            async with asyncio.timeout(seconds):
                await self._done
        except TimeoutError:
            call.cancel()
            return None
        return self.body if self.status == 200 else None
