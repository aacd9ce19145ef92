"""An upstream that does what a case says: exact bytes, each piece written on its own, at its time."""

from __future__ import annotations

import asyncio
import contextlib
import http
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.cases.case import Name, UpstreamScript

RUN_HEADER = "x-case-run"
"""Says which of a case's requests it is; the gateway passes it on."""
_RESET = struct.pack("ii", 1, 0)
_BEFORE_RESET = 0.005
"""Seconds between the last piece and a reset, so that the piece is not lost with it."""


@dataclass
class Seen:
    """One request as it came. Times are those of the runner's loop."""

    run: str
    at: float
    """When its first bytes came."""
    headers: list[tuple[str, str]]
    body: bytes
    reused: bool
    """It was not the first on its connection."""
    closed_at: float | None = None
    """When its connection was lost."""


@dataclass
class Upstream:
    """Listens on a port of its own, which it keeps whatever `connect` says."""

    name: Name
    script: UpstreamScript = field(default_factory=UpstreamScript)
    seen: list[Seen] = field(default_factory=list)
    """Requests since the case began."""
    open: set[_Connection] = field(default_factory=set)
    _first: bool = True
    _connect: str = "closed"
    _socket: socket.socket | None = None
    _server: asyncio.Server | None = None
    _fillers: list[socket.socket] = field(default_factory=list)
    port: int = 0

    async def begin(self, script: UpstreamScript) -> None:
        """From now on answer by this script."""
        self.script = script
        self._first = True
        connect = script.connect if isinstance(script.connect, str) else "accept"
        if connect != self._connect:
            await self._close()
            await self._listen(connect)

    async def close(self) -> None:
        """Stop; connections are cut."""
        await self._close()

    def first(self) -> bool:
        """Whether this is the first request since the step began; asked once per request."""
        first, self._first = self._first, False
        return first

    async def _listen(self, connect: str) -> None:
        self._connect = connect
        self._socket = listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        if connect == "accept":
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(lambda: _Connection(self), sock=listener, backlog=512)
        elif connect == "blackhole":
            listener.listen(0)  # with its queue full, the kernel drops what else knocks
            for _ in range(2):
                filler = socket.socket()
                filler.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    filler.connect(("127.0.0.1", self.port))
                self._fillers.append(filler)
        # "refuse": a socket that is bound and does not listen.

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.open):
            connection.cut()
        for each in (*self._fillers, self._socket):
            if each is not None:
                each.close()
        self._fillers, self._socket = [], None


class _Connection(asyncio.Protocol):
    """Reads requests and answers them one after the other."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._loop = asyncio.get_running_loop()
        self._buffer = bytearray()
        self._requests: list[Seen] = []
        self._answer: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._upstream.open.add(self)

    def data_received(self, data: bytes) -> None:
        if not self._buffer:
            self._began = self._loop.time()
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        lines = bytes(self._buffer[:end]).decode("latin-1").split("\r\n")[1:]
        headers = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        start, length = end + 4, int(dict(headers).get("content-length", 0))
        if len(self._buffer) >= start + length:
            body = bytes(self._buffer[start : start + length])
            del self._buffer[: start + length]
            self._asked(headers, body)

    def connection_lost(self, error: Exception | None) -> None:
        self._upstream.open.discard(self)
        if self._answer is not None:
            self._answer.cancel()
        for seen in self._requests:
            if seen.closed_at is None:
                seen.closed_at = self._loop.time()

    def cut(self) -> None:
        """Close at once, with a reset."""
        if (raw := self._transport.get_extra_info("socket")) is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._transport.abort()

    def _asked(self, headers: list[tuple[str, str]], body: bytes) -> None:
        upstream, script = self._upstream, self._upstream.script
        run = dict(headers).get(RUN_HEADER, "")
        seen = Seen(run, self._began, headers, body, reused=bool(self._requests))
        self._requests.append(seen)
        upstream.seen.append(seen)
        first = upstream.first()
        silent = (first and isinstance(script.first_request, str)) or (
            seen.reused and isinstance(script.on_reused_connection, str)
        )
        if silent:
            self._transport.close()
            return
        self._answer = self._loop.create_task(answer(script, self._transport.write, self._loop, self.cut))


async def answer(
    script: UpstreamScript,
    write: Callable[[bytes], None],
    loop: asyncio.AbstractEventLoop,
    cut: Callable[[], None],
) -> None:
    """Write an answer, piece by piece. Times are counted from the time that was due, so that delays do not add up."""
    due = loop.time() + script.header_delay_ms / 1000
    await _until(loop, due)
    chunked = not any(name.lower() in ("content-length", "transfer-encoding") for name, _ in script.headers)
    chunked = chunked and script.status not in (204, 304)
    write(_head(script, chunked=chunked))
    for delay, piece in script.pieces():
        due += delay
        await _until(loop, due)
        if piece:
            write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
    if script.end == "close" and chunked:
        await asyncio.sleep(0)
        write(b"0\r\n\r\n")
    elif script.end == "reset":
        await asyncio.sleep(_BEFORE_RESET)
        cut()


async def _until(loop: asyncio.AbstractEventLoop, when: float) -> None:
    await asyncio.sleep(max(0.0, when - loop.time()))


def _head(script: UpstreamScript, *, chunked: bool) -> bytes:
    try:
        reason = http.HTTPStatus(script.status).phrase
    except ValueError:
        reason = "Unknown"
    lines = [f"HTTP/1.1 {script.status} {reason}", *(f"{name}: {value}" for name, value in script.headers)]
    if chunked:
        lines.append("transfer-encoding: chunked")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")
