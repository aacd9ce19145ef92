"""The HTTP/1.1 server: listens, keeps the clock for all connections, drains and closes.

server = Server(handler)
await server.start("127.0.0.1", 8080)
...
whole = await server.drain(30.0)
"""

from __future__ import annotations

import asyncio
import selectors
import ssl as tls
from collections.abc import Sequence
from pathlib import Path
from socket import socket
from typing import Final

from hedgerow.errors import ConfigError
from hedgerow.http.exchange import Handler
from hedgerow.http.limits import Limits
from hedgerow.http.server_connection import Connection
from hedgerow.http.server_head import ErrorBody, plain_error_body
from hedgerow.http.server_shared import Shared

_DRAIN_LINGER: Final = 0.25
"""Seconds an idle connection stays open while draining, so that a request already on the wire is answered."""
_DRAIN_TICK: Final = 0.05
_SET_UP_TURNS: Final = 5
"""Turns of the loop from accepting a connection to its first bytes."""


class Server:
    """Serves `handler` on one listening address; one server per event loop and address."""

    def __init__(
        self,
        handler: Handler,
        *,
        limits: Limits = Limits(),  # noqa: B008  (frozen)
        ssl: tls.SSLContext | None = None,
        error_body: ErrorBody | None = None,
    ) -> None:
        """`error_body(status, message)` gives content type and body of the 4xx and 5xx the server itself answers."""
        self._handler = handler
        self._limits = limits
        self._ssl = ssl
        self._error_body = error_body or plain_error_body
        self._tick = limits.tick
        self._timer: asyncio.TimerHandle | None = None
        self._listening: asyncio.Server | None = None
        self._shared: Shared | None = None

    async def start(self, host: str, port: int, *, reuse_port: bool = False, backlog: int = 4096) -> None:
        """Listen on `host`:`port` (0: any free port). Raises OSError where that is not possible."""
        loop = asyncio.get_running_loop()
        shared = self._shared = Shared(self._handler, self._limits, self._error_body, loop)
        self._listening = await loop.create_server(
            lambda: Connection(shared),
            host,
            port,
            ssl=self._ssl,
            backlog=backlog,
            reuse_port=reuse_port or None,
            ssl_handshake_timeout=self._limits.header_timeout if self._ssl else None,
        )
        self._timer = loop.call_later(self._tick, self._on_tick)

    @property
    def sockets(self) -> Sequence[socket]:
        """The listening sockets; none before `start` and after the end."""
        return () if self._listening is None else self._listening.sockets

    @property
    def port(self) -> int:
        """The port of the first listening socket. Raises RuntimeError when the server does not listen."""
        for sock in self.sockets:
            port: int = sock.getsockname()[1]
            return port
        raise RuntimeError("the server does not listen")

    @property
    def connections(self) -> int:
        """Open client connections."""
        return 0 if self._shared is None else len(self._shared.connections)

    @property
    def in_flight(self) -> int:
        """Requests being answered."""
        return 0 if self._shared is None else sum(c.current is not None for c in self._shared.connections)

    def sweep(self, now: float) -> None:
        """Close what is overdue. The server calls it with the loop's time; tests may go faster.

        Deadlines are set from the time of the last sweep and judged by the time of the one before this, so that none
        comes early.
        """
        shared = self._running()
        before, shared.now = shared.now, now
        for connection in [c for c in shared.connections if c.deadline <= before]:
            connection.expire()

    async def drain(self, timeout: float) -> bool:  # noqa: ASYNC109  (it is the deadline of a policy, not of a wait)
        """Stop without losing a request; True if everything ended within `timeout` seconds.

        What waits in the backlog is accepted, then listening ends. Requests in progress, and such as still arrive on
        open connections, are answered with `connection: close`; connections that stay idle are closed after a moment.
        At the deadline the rest is aborted.
        """
        shared = self._running()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        shared.draining = True
        linger = min(timeout, _DRAIN_LINGER)
        await self._accept_waiting(loop.time() + linger)
        self._stop_listening()
        self._tick = min(self._tick, _DRAIN_TICK)
        self._on_tick()
        shared.idle_timeout = min(shared.idle_timeout, linger)
        for connection in shared.connections:
            if connection.idle:
                connection.deadline = min(connection.deadline, shared.now + linger)
        if self._ssl is not None:
            await asyncio.sleep(linger)  # handshakes in progress are not among the connections yet
        try:
            async with asyncio.timeout_at(deadline):
                await shared.empty.wait()
        except TimeoutError:
            pass
        whole = not any(connection.busy for connection in shared.connections)
        await self.close()
        return whole

    async def close(self) -> None:
        """Stop at once: abort every connection. Safe to call twice, and before `start`."""
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._shared is not None:
            for connection in list(self._shared.connections):
                connection.transport.abort()
            await self._shared.empty.wait()

    async def _accept_waiting(self, deadline: float) -> None:
        """Let the loop accept what waits in the backlog (uvloop takes one connection a turn) and set it up."""
        loop = asyncio.get_running_loop()
        with selectors.DefaultSelector() as selector:
            for sock in self.sockets:
                selector.register(sock.fileno(), selectors.EVENT_READ)
            while selector.get_map() and selector.select(0) and loop.time() < deadline:  # noqa: ASYNC110  (the kernel sets no event)
                await asyncio.sleep(0)
        for _ in range(_SET_UP_TURNS):
            await asyncio.sleep(0)

    def _running(self) -> Shared:
        if self._shared is None:
            raise RuntimeError("the server has not been started")
        return self._shared

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None

    def _on_tick(self) -> None:
        loop = self._running().loop
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_later(self._tick, self._on_tick)
        self.sweep(loop.time())


def server_ssl_context(cert: Path | str, key: Path | str) -> tls.SSLContext:
    """TLS 1.2 or newer, with a PEM certificate chain and its key. Raises ConfigError if they do not work."""
    context = tls.create_default_context(tls.Purpose.CLIENT_AUTH)
    context.minimum_version = tls.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(cert, key)
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError([f"the TLS certificate {cert} with key {key} cannot be used: {error}"]) from error
    return context
