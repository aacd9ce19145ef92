"""A gateway without a server: made for each event loop when its first request comes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Sequence
from contextlib import suppress
from urllib.parse import urlsplit
from weakref import WeakSet

from hedgerow.errors import RequestError
from hedgerow.events import Headers, Listener
from hedgerow.gateway.answers import refuse
from hedgerow.gateway.blueprint import Blueprint
from hedgerow.gateway.build import build
from hedgerow.gateway.core import Gateway
from hedgerow.gateway.listening import Closing, listeners_of
from hedgerow.gateway.parts import Parts
from hedgerow.http.client import Pool
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.http.exchange import Exchange
from hedgerow.transports.exchange import CLOSED, MemoryExchange
from hedgerow.wire import lookup

logger = logging.getLogger("hedgerow.transports")

_NO_LOOP = (
    "hedgerow's transports need a running asyncio loop (uvloop's, or anyio's on asyncio, is one); under trio, use the "
    "sync client in a thread"
)


class Door:
    """One gateway for each event loop that asks. A new loop goes on with what was learned in one that has ended."""

    def __init__(
        self, blueprint: Blueprint, listeners: Sequence[Listener] = (), base_urls: Collection[str] = ()
    ) -> None:
        """`base_urls`: whose requests are taken, beside those to the hosts of the targets. Raises `TypeError` for what
        are none, `ValueError` for wrong ones and when a client's key would have to go to several places.
        """
        if isinstance(base_urls, str):
            raise TypeError(f"base_urls must be a list of URLs, not {base_urls!r}")
        self._instead_of = [(Origin.of(url), urlsplit(url).path.rstrip("/").encode() + b"/") for url in base_urls]
        self._hosts = {Origin.of(target.base_url): target.pool for target in blueprint.targets.values()}
        self._not_ours: set[Origin] = set()
        self._blueprint = blueprint
        self._listeners = listeners
        self._homes: dict[asyncio.AbstractEventLoop, Home] = {}
        self._lessons: Parts | None = None
        self.paths = frozenset(path.encode() for route in blueprint.routes.values() for path in route.endpoints)
        """Further paths that may be hedged."""
        passing = {Origin.of(target.base_url) for target in blueprint.targets.values() if target.passthrough}
        if len(passing) > 1:
            named = ", ".join(sorted(origin.authority for origin in passing))
            raise ValueError(f"a client's key belongs to one place, and passthrough would send it to {named}")
        self._keys_go_to = next(iter(passing), None)

    def takes(self, meant: Origin, path: bytes) -> bool:
        """Whether a request that looks like one to be hedged is ours: other services have paths that look so, too."""
        if meant in self._hosts or any(
            meant == origin and path.startswith(under) for origin, under in self._instead_of
        ):
            return True
        if meant not in self._not_ours:
            self._not_ours.add(meant)
            place = f"{meant.scheme}://{meant.authority}{path.partition(b'?')[0].decode('latin-1')}"
            logger.warning("%s is asked without hedging: no target has that host, nor is it among base_urls", place)
        return False

    def settings_of(self, origin: Origin) -> PoolSettings | None:
        """Of the connections to a target at this host; None where none is."""
        return self._hosts.get(origin)

    def ask(self, method: bytes, target: bytes, headers: Headers, body: bytes, meant: Origin) -> MemoryExchange:
        """Ask the gateway; whoever asks reads the exchange, or says that it is gone.

        `meant` is where the client would have sent it. Raises `RuntimeError` where no loop runs.
        """
        home = self._home()
        exchange = MemoryExchange(home.loop, method, target, headers, body)
        home.exchanges.add(exchange)
        self._put(exchange, home.gateway, meant)
        return exchange

    def take(self, exchange: Exchange, meant: Origin) -> None:
        """Answer a request that has come in some other way."""
        self._put(exchange, self._home().gateway, meant)

    def _put(self, exchange: Exchange, gateway: Gateway, meant: Origin) -> None:
        if self._keys_go_to in (None, meant):
            gateway(exchange)
        else:
            refuse(exchange, lookup(exchange.method, exchange.target), _misled(meant, self._keys_go_to))

    def _home(self) -> Home:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(_NO_LOOP) from None
        return self._homes.get(loop) or self._settle(loop)

    def _settle(self, loop: asyncio.AbstractEventLoop) -> Home:
        for known in [known for known in self._homes if known.is_closed()]:
            self._lessons = self._homes.pop(known).gateway.parts
        lessons, self._lessons = self._lessons, None
        home = self._homes[loop] = Home(self._blueprint, self._listeners, loop, lessons)
        return home

    @property
    def used(self) -> bool:
        """Whether anything was asked since it was closed."""
        return bool(self._homes)

    async def close(self) -> None:
        """Close all connections. Asked again, it makes new ones."""
        here = self._homes.pop(asyncio.get_running_loop(), None)
        self._homes.clear()  # each loop closes what it has when that is forgotten
        if here is not None:
            await here.close()


def _misled(meant: Origin, keys_go_to: Origin | None) -> RequestError:
    there = "" if keys_go_to is None else keys_go_to.authority
    why = f"The client's key is meant for {meant.authority}; passthrough would send it to {there}"
    return RequestError(400, f"{why}. Give that target a key of its own, or the client that base URL.", code="key")


class Home:
    """The gateway in one event loop.

    What it has opened is closed when the loop ends, or when the home is forgotten: loops end their asynchronous
    generators, and those that are collected.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        listeners: Sequence[Listener],
        loop: asyncio.AbstractEventLoop,
        lessons: Parts | None,
    ) -> None:
        self.loop = loop
        hearing = listeners_of(blueprint.server, loop)
        old = None if lessons is None else lessons._replace(pools={})  # which were the last loop's
        self.gateway, pools = build(blueprint, loop=loop, listeners=[*hearing.listeners, *listeners], old=old)
        self.exchanges: WeakSet[MemoryExchange] = WeakSet()
        self._open = _open(self.exchanges, self.gateway, pools, hearing.close)
        with suppress(StopIteration):
            self._open.__anext__().send(None)  # up to its yield, without a task

    async def close(self) -> None:
        """Close all connections."""
        await self._open.aclose()


async def _open(
    exchanges: Collection[MemoryExchange], gateway: Gateway, pools: Sequence[Pool], no_more_events: Closing
) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        for exchange in list(exchanges):
            exchange.expire(CLOSED)
        gateway.close()
        await gateway.keeping.closed()
        await asyncio.gather(*(pool.close() for pool in pools))
        await no_more_events()
