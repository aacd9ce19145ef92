"""Helpers for the tests of the HTTP server: loops, a raw client, a recording handler, a transport in memory."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import uvloop

from hedgerow.http.exchange import Exchange
from hedgerow.http.limits import Limits
from hedgerow.http.server import Server
from hedgerow.http.server_connection import Connection
from hedgerow.http.server_head import plain_error_body
from hedgerow.http.server_shared import Shared

T = TypeVar("T")

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


def run(main: Coroutine[Any, Any, T], loop: str = "asyncio") -> T:
    """Run `main` on a fresh loop; no test of the server may take ten seconds."""
    runner = asyncio.Runner(loop_factory=LOOPS[loop])
    try:
        return runner.run(asyncio.wait_for(main, 10))
    finally:
        with warnings.catch_warnings():
            if loop == "uvloop":
                # Where a failed test leaves a socket open, a warning that raises makes uvloop's close hang for ever.
                warnings.simplefilter("ignore", ResourceWarning)
            runner.close()


def plain(status: bytes, body: bytes, *, close: bool = False) -> bytes:
    """A whole plain-text answer as the server writes it."""
    connection = b"connection: close\r\n" if close else b""
    return b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\n%bcontent-length: %d\r\n\r\n%b" % (
        status,
        connection,
        len(body),
        body,
    )


def refusal(status: bytes, message: bytes) -> bytes:
    """A whole answer that the server itself gives."""
    return (
        b"HTTP/1.1 %b\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n%b\n"
        % (status, len(message) + 1, message)
    )


class Ears:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.changed = asyncio.Event()

    def on_disconnect(self) -> None:
        self._hear("disconnect")

    def on_pause(self) -> None:
        self._hear("pause")

    def on_resume(self) -> None:
        self._hear("resume")

    def _hear(self, what: str) -> None:
        self.heard.append(what)
        self.changed.set()

    async def until(self, what: str) -> None:
        """Wait until `what` has been heard."""
        while what not in self.heard:
            self.changed.clear()
            await self.changed.wait()


class Desk:
    """A handler that keeps every exchange and, when told how, answers it at once."""

    def __init__(self, answer: Callable[[Exchange], None] | None = None) -> None:
        self.seen: list[Exchange] = []
        self.answer = answer
        self.changed = asyncio.Event()

    def __call__(self, exchange: Exchange) -> None:
        self.seen.append(exchange)
        self.changed.set()
        if self.answer is not None:
            self.answer(exchange)

    async def until(self, count: int) -> Exchange:
        """Wait for the `count`-th request."""
        while len(self.seen) < count:
            self.changed.clear()
            await self.changed.wait()
        return self.seen[count - 1]


def echo(exchange: Exchange) -> None:
    """Answer with method, target and body."""
    text = b"%b %b %b" % (exchange.method, exchange.target, exchange.body)
    exchange.respond(200, [(b"content-type", b"text/plain")], text)


class Client:
    """A client that sends exactly the bytes it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, server: Server, **options: Any) -> Client:
        return cls(*await asyncio.open_connection("127.0.0.1", server.port, **options))

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def expect(self, data: bytes) -> None:
        """Assert that exactly `data` comes next."""
        assert await self.reader.readexactly(len(data)) == data

    async def rest(self) -> bytes:
        """Everything up to the end of the stream, then close."""
        data = await self.reader.read()
        self.leave()
        return data

    def leave(self) -> None:
        self.writer.close()

    def vanish(self) -> None:
        self.writer.transport.abort()


class MemoryTransport(asyncio.Transport):
    """Keeps what is written; the test plays the network."""

    def __init__(self, peer: tuple[str | int, ...]) -> None:
        super().__init__({"peername": peer})
        self.written = bytearray()
        self.unsent = 0
        self.ended = ""
        self.reading = True
        self.after_write: Callable[[], None] = lambda: None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.ended, "written after the end"
        self.written += data
        self.after_write()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.ended = self.ended or "eof"

    def close(self) -> None:
        self.ended = self.ended or "closed"

    def abort(self) -> None:
        self.ended = "aborted"

    def is_closing(self) -> bool:
        return self.ended in ("closed", "aborted")

    def pause_reading(self) -> None:
        assert self.reading
        self.reading = False

    def resume_reading(self) -> None:
        assert not self.reading
        self.reading = True


class Wire:
    """One server connection without a network, on a clock moved by hand."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        handler: Desk,
        limits: Limits | None = None,
        *,
        peer: tuple[str | int, ...] = ("127.0.0.1", 51234),
    ) -> None:
        self.shared = Shared(handler, limits or Limits(), plain_error_body, loop)
        self.shared.now = 0.0
        self.transport = MemoryTransport(peer)
        self.connection = Connection(self.shared)
        self.connection.connection_made(self.transport)

    def receive(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.connection.data_received(piece)

    def at(self, now: float) -> bytes:
        """Set the clock, let the connection expire if it is due, and return all that has been written."""
        self.shared.now = now
        if self.connection.deadline <= now:
            self.connection.expire()
        return bytes(self.transport.written)

    def reads(self) -> bool:
        """Whether the server takes bytes from the client."""
        return self.transport.reading

    @property
    def written(self) -> bytes:
        return bytes(self.transport.written)
