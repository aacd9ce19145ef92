"""A request and its answer, handed over in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from hedgerow.events import Headers
from hedgerow.http.exchange import Listener
from hedgerow.http.head import fields_in

_QUEUED = 64
"""Pieces that wait for their reader above which the upstream is told to pause."""


class Broken(Exception):
    """The answer could not be completed."""


class MemoryExchange:
    """A `hedgerow.http.exchange.Exchange` whose answer is read with `head` and `piece`."""

    def __init__(self, method: bytes, target: bytes, headers: Headers, body: bytes) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.peer = "in process"
        self.listener: Listener | None = None
        self.started = False
        self.status = 0
        self.fields: Headers = []
        self._pieces: deque[bytes] = deque()
        self._over = False
        self._broken = False
        self._paused = False
        self._news: asyncio.Future[None] | None = None

    # For the gateway.

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, fields: bytes = b"") -> None:
        """Give a whole answer."""
        self.start(status, [*headers, (b"content-length", b"%d" % len(body))], fields)
        if body:
            self._pieces.append(body)
        self.end()

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]], fields: bytes = b"") -> None:
        """Give status and headers of a streamed answer."""
        if not self._over:
            self.started = True
            self.status = status
            self.fields = [*headers, *fields_in(fields)]
            self._tell()

    def write(self, data: bytes) -> None:
        """Give one piece of a streamed answer."""
        if self._over:
            return
        self._pieces.append(data)
        self._tell()
        if not self._paused and self.listener is not None and len(self._pieces) > _QUEUED:
            self._paused = True
            self.listener.on_pause()

    def end(self) -> None:
        """The answer is whole."""
        if not self._over:
            self._over = True
            self.listener = None
            self._tell()

    def abort(self) -> None:
        """The answer breaks off."""
        self._broken = not self._over
        self.end()

    # For the reader.

    async def head(self) -> tuple[int, Headers]:
        """Status and header fields. Raises `Broken`."""
        while not self.started:
            if self._over:
                raise Broken
            await self._change()
        return self.status, self.fields

    async def piece(self) -> bytes | None:
        """The next piece of the body, None at its end. Raises `Broken`."""
        while not self._pieces:
            if self._broken:
                raise Broken
            if self._over:
                return None
            await self._change()
        piece = self._pieces.popleft()
        self._taken()
        return piece

    def rest(self) -> bytes:
        """What is there already of the pieces that follow."""
        rest = b"".join(self._pieces)
        self._pieces.clear()
        self._taken()
        return rest

    def _taken(self) -> None:
        if self._paused and len(self._pieces) <= _QUEUED // 4:
            self._paused = False
            if self.listener is not None:
                self.listener.on_resume()

    def gone(self) -> None:
        """The reader wants no more."""
        if not self._over:
            self._over = True
            listener, self.listener = self.listener, None
            if listener is not None:
                listener.on_disconnect()

    async def _change(self) -> None:
        self._news = asyncio.get_running_loop().create_future()
        await self._news

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
