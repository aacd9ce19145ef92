"""What the tests of the upstream pool share: both loops, a recording sink, a server that follows a script."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ssl
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import pytest
import uvloop

from hedgerow.errors import UpstreamError
from hedgerow.events import Headers
from hedgerow.http.client import Origin, Pool, PoolSettings
from hedgerow.http.upstream import Call
from tests.descriptors import open_sockets

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "uvloop": uvloop.new_event_loop,
}
REQUEST = b"POST /v1/chat HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


def on_both_loops(test: Callable[[], Awaitable[None]]) -> Callable[[str], None]:
    """Runs an async test on asyncio and on uvloop, and fails it if it leaves a task or a socket behind."""

    async def checked() -> None:
        async with asyncio.timeout(30):
            await test()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    @pytest.mark.parametrize("loop", list(LOOPS))
    def run(loop: str) -> None:
        before = open_sockets()
        with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
            runner.run(checked())
        assert open_sockets() == before

    functools.update_wrapper(run, test)
    del run.__dict__["__wrapped__"]  # pytest would read the parameters of the test itself
    return run


class Recorder:
    """A sink that keeps everything; await `done` for the last word."""

    def __init__(self) -> None:
        self.status: int | None = None
        self.headers: Headers = []
        self.pieces: list[bytes] = []
        self.error: UpstreamError | None = None
        self.ends = 0
        self.done = asyncio.Event()
        self.begun = asyncio.Event()
        self.moved = asyncio.Event()
        self.call: Call | None = None

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def on_head(self, status: int, headers: Headers) -> None:
        assert self.status is None
        assert not self.ends
        self.status, self.headers = status, headers
        self.begun.set()

    def on_data(self, data: bytes) -> None:
        assert self.status is not None
        assert not self.ends
        self.pieces.append(data)
        self.moved.set()

    def on_end(self) -> None:
        self.ends += 1
        self.done.set()

    def on_error(self, error: UpstreamError) -> None:
        self.ends += 1
        self.error = error
        self.done.set()

    async def whole(self) -> bytes:
        """The body of an answer that must come whole."""
        await self.done.wait()
        if self.error is not None:
            raise self.error
        assert self.ends == 1
        return self.body

    async def failure(self) -> UpstreamError:
        """The error of an answer that must not come whole."""
        await self.done.wait()
        assert self.error is not None
        assert self.ends == 1
        return self.error


def ask(pool: Pool, sink: Recorder | None = None, body: bytes = b"{}", *, resend: bool = True) -> Recorder:
    """Send a small POST; nothing may be told before `send` returns."""
    sink = sink or Recorder()
    head = REQUEST if body == b"{}" else b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
    sink.call = pool.send(sink, head, body, resend=resend)
    assert sink.status is None
    assert not sink.ends
    return sink


class Peer:
    """One connection as the scripted server sees it."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        """Connections count from 0 in the order they were accepted."""
        self.reader = reader
        self.writer = writer
        self.requests = 0

    async def request(self) -> tuple[bytes, bytes]:
        """The next request's head and body; raises `EOFError` when the client closes instead."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = 0
        for line in head.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        body = await self.reader.readexactly(length)
        self.requests += 1
        return head, body

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def closed(self) -> None:
        """Returns when the client has closed."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass

    def reset(self) -> None:
        """Close with a reset instead of a FIN."""
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


async def answer_ok(peer: Peer) -> None:
    """The plain script: every request is answered with OK."""
    while True:
        await peer.request()
        peer.write(OK)


class Server:
    """A loopback server that runs `script` once per connection and then closes it."""

    def __init__(self, script: Script = answer_ok, *, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self.peers: list[Peer] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.open = 0
        self.faults: list[BaseException] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0, ssl=self._tls)
        self.port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._server.close()
        for _ in range(3):
            await asyncio.sleep(0)  # asyncio starts a connection some turns after it has accepted it
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if kind is None and self.faults:
            raise self.faults[0]

    def pool(self, settings: PoolSettings = PoolSettings()) -> Pool:  # noqa: B008 - frozen
        return Pool(Origin("http", "127.0.0.1", self.port), settings)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(len(self.peers), reader, writer)
        self.peers.append(peer)
        task = asyncio.ensure_future(self._serve(peer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, peer: Peer) -> None:
        self.open += 1
        try:
            await self._script(peer)
        except (EOFError, ConnectionError):
            pass
        except Exception as error:
            self.faults.append(error)
        finally:
            peer.writer.close()
            with contextlib.suppress(OSError):
                await peer.writer.wait_closed()
            self.open -= 1


async def until(condition: Callable[[], bool]) -> None:
    """Give the loop turns until `condition` holds; the runner's time limit is the failure."""
    while not condition():  # noqa: ASYNC110 - what is awaited is another side's doing, it sets no event
        await asyncio.sleep(0.001)
