"""A request and its answer, handed over in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from hedgerow.events import Headers
from hedgerow.http.exchange import Listener
from hedgerow.http.head import fields_in

_HELD = 256 * 1024
"""Bytes that wait for their reader above which the upstream is told to pause."""


class Broken(Exception):
    """The answer could not be completed. `why` is the name of the client library's error for that."""

    def __init__(self, why: str, message: str) -> None:
        super().__init__(message)
        self.why = why


CUT = Broken("RemoteProtocolError", "the answer broke off before it was whole")
CLOSED = Broken("ReadError", "the transport was closed")


class MemoryExchange:
    """A `hedgerow.http.exchange.Exchange` whose answer is read with `head` and `rest`."""

    __slots__ = (
        "__weakref__",
        "_held",
        "_news",
        "_paused",
        "_pieces",
        "_trouble",
        "body",
        "fields",
        "headers",
        "listener",
        "loop",
        "method",
        "on_over",
        "over",
        "started",
        "status",
        "target",
        "waits_since",
    )
    peer = "in process"

    def __init__(
        self, loop: asyncio.AbstractEventLoop, method: bytes, target: bytes, headers: Headers, body: bytes
    ) -> None:
        self.loop = loop
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.listener: Listener | None = None
        self.started = False
        self.status = 0
        self.fields: Headers = []
        self.over = False
        """Nothing more will come."""
        self.on_over: Callable[[], None] | None = None
        """Called then, once."""
        self.waits_since: float | None = loop.time()
        """Since when the reader has been waiting; None while it does something else."""
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._trouble: Broken | None = None
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
        if not self.over:
            self.started = True
            self.status = status
            self.fields = [*headers, *fields_in(fields)]
            self._tell()

    def write(self, data: bytes) -> None:
        """Give one piece of a streamed answer."""
        if self.over:
            return
        self._pieces.append(data)
        self._held += len(data)
        self._tell()
        if self._held > _HELD and not self._paused and self.listener is not None:
            self._paused = True
            self.listener.on_pause()

    def end(self) -> None:
        """The answer is whole."""
        if not self.over:
            self.listener = None
            self._end()
            self._tell()

    def abort(self) -> None:
        """The answer breaks off."""
        if not self.over:
            self._trouble = CUT
            self.end()

    # For the reader.

    async def head(self) -> tuple[int, Headers]:
        """Status and header fields. Raises `Broken`."""
        while not self.started:
            self._check()
            await self._change()
        self.waits_since = None
        return self.status, self.fields

    async def rest(self) -> bytes:
        """All that has come since; b"" at the end. Raises `Broken`."""
        pieces = self._pieces
        while not pieces:
            self._check()
            if self.over:
                return b""
            self.waits_since = self.loop.time()
            await self._change()
        self.waits_since = None
        data = pieces.popleft() if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        self._held = 0
        if self._paused:
            self._paused = False
            if self.listener is not None:
                self.listener.on_resume()
        return data

    @property
    def read(self) -> bool:
        """Whether the reader has all of a whole answer. May be asked in any thread."""
        return self.over and not self._pieces and self._trouble is None

    def gone(self) -> None:
        """The reader wants no more."""
        if not self.over:
            listener, self.listener = self.listener, None
            self._end()
            if listener is not None:
                listener.on_disconnect()

    def expire(self, trouble: Broken) -> None:
        """The reader's patience is at an end."""
        if not self.over:
            self._trouble = trouble
            self.gone()
            self._tell()

    def forgotten(self) -> None:
        """As `gone`, from whatever thread the reader was collected in."""
        if not self.over and not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.gone)

    def _end(self) -> None:
        self.over = True
        on_over, self.on_over = self.on_over, None
        if on_over is not None:
            on_over()

    def _check(self) -> None:
        if self._trouble is not None:
            raise Broken(self._trouble.why, str(self._trouble))

    async def _change(self) -> None:
        self._news = self.loop.create_future()
        await self._news

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
