"""For clients built on aiohttp: a connector for their session, which hedges whatever is asked in it.

A request that may be hedged is sent, as any other, over a connection: one whose other end is a gateway in this process.
So all of aiohttp works as ever, its timeouts included. What the gateway cannot answer has status 502 or 504.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from pathlib import Path
from typing import Any, Self
from urllib.request import getproxies

import aiohttp
from yarl import URL

from hedgerow.client.settings import Policy
from hedgerow.events import Listener
from hedgerow.gateway.blueprint import Blueprint
from hedgerow.http.client_settings import Origin
from hedgerow.http.exchange import Exchange, Handler
from hedgerow.http.limits import Limits
from hedgerow.http.server_connection import Connection
from hedgerow.http.server_head import plain_error_body
from hedgerow.http.server_shared import Shared
from hedgerow.transports.door import Door
from hedgerow.transports.paths import hedged_path
from hedgerow.transports.targets import HttpTarget, Leave, blueprint_of, configured

_LIMITS = Limits(body_bytes=1 << 30)
_NONE = Policy()
_SSL = "ssl=... has no effect on what is hedged: use HttpTarget(ca_file=..., verify=...)"


class HedgeConnector(aiohttp.TCPConnector):
    """For aiohttp.ClientSession(connector=HedgeConnector([...])); made in a running loop, as all connectors.

    What is not hedged goes where it is meant to go, as by a TCPConnector.
    """

    def __init__(
        self,
        targets: Sequence[HttpTarget],
        policy: Policy = _NONE,
        *,
        nonstream_as_stream: bool = False,
        allow: Collection[Leave] = (),
        listeners: Sequence[Listener] = (),
        base_urls: Collection[str] = (),
        **options: Any,
    ) -> None:
        """`targets`, `policy`, `nonstream_as_stream`, `allow`, `listeners` and `base_urls` are as for `HedgeTransport`;
        `options` are a TCPConnector's, for what is not hedged; trust is an `HttpTarget`'s. Raises `ValueError` for what
        cannot work.
        """
        blueprint = blueprint_of(targets, policy, nonstream_as_stream=nonstream_as_stream, allow=allow)
        self._start(blueprint, listeners, base_urls, options)

    @classmethod
    def from_config(
        cls,
        file: str | os.PathLike[str],
        *,
        route: str | None = None,
        listeners: Sequence[Listener] = (),
        base_urls: Collection[str] = (),
        **options: Any,
    ) -> Self:
        """As `HedgeTransport.from_config`. Raises `ConfigError`."""
        made = cls.__new__(cls)
        made._start(configured(Path(file), route), listeners, base_urls, options)
        return made

    def _start(
        self,
        blueprint: Blueprint,
        listeners: Sequence[Listener],
        base_urls: Collection[str],
        options: dict[str, Any],
    ) -> None:
        if options.get("ssl", True) is not True:
            raise ValueError(_SSL)
        super().__init__(**options)
        self._door = Door(blueprint, listeners, base_urls)
        self._inside = _Inside(self._door, limit=0)

    async def connect(self, req: Any, traces: Any, timeout: Any) -> aiohttp.connector.Connection:  # noqa: ASYNC109  # aiohttp's
        """A connection for this request; the session calls this."""
        if self._hedges(req):
            return await self._inside.connect(req, traces, timeout)
        return await super().connect(req, traces, timeout)

    def _hedges(self, req: Any) -> bool:
        path = req.url.raw_path_qs.encode()
        if req.method != "POST" or hedged_path(path, self._door.paths) is None:
            return False
        if not self._door.takes(_origin_of(req.url), path):
            return False
        if req.proxy is not None and req.proxy not in _environments():
            raise ValueError("proxy=... has no effect on what is hedged: use HttpTarget(proxy=...)")
        if req.ssl is not True:
            raise ValueError(_SSL)
        return True

    def close(self, **options: Any) -> Coroutine[Any, Any, None]:
        """Close all connections."""
        return _all(super().close(**options), self._inside.close(), self._door.close)


async def _all(outside: Awaitable[None], inside: Awaitable[None], door: Callable[[], Awaitable[None]]) -> None:
    await outside
    await inside
    await asyncio.sleep(0)  # the gateway hears that they are closed
    await door()


class _Inside(aiohttp.BaseConnector):
    """Connections whose other end is a gateway in this process."""

    def __init__(self, door: Door, **options: Any) -> None:
        super().__init__(**options)
        self._door = door

    async def _create_connection(self, req: Any, traces: Any, timeout: Any) -> Any:  # noqa: ASYNC109  # aiohttp's
        shared = Shared(_handler(self._door, _origin_of(req.url)), _LIMITS, plain_error_body, self._loop)
        ours, theirs = socket.socketpair()
        await self._loop.connect_accepted_socket(lambda: Connection(shared), ours)
        _, protocol = await self._loop.create_connection(self._factory, sock=theirs)
        return protocol


def _origin_of(url: Any) -> Origin:
    """Of a URL of yarl."""
    return Origin(url.scheme, url.raw_host, url.port)


def _environments() -> set[URL]:
    """The proxies that the environment names, as sessions that trust it give them; targets go through those, too."""
    return {URL(proxy).with_user(None) for name, proxy in getproxies().items() if name != "no"}


def _handler(door: Door, meant: Origin) -> Handler:
    def handle(exchange: Exchange) -> None:
        exchange.target = hedged_path(exchange.target, door.paths) or exchange.target
        door.take(exchange, meant)

    return handle
