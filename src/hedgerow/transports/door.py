"""A gateway without a server: made for the running loop when the first request comes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hedgerow.events import Headers, Listener
from hedgerow.gateway.blueprint import Blueprint
from hedgerow.gateway.build import build
from hedgerow.gateway.core import Gateway
from hedgerow.http.client import Pool
from hedgerow.transports.exchange import MemoryExchange
from hedgerow.wire import lookup

_ENDPOINTS = (
    b"/chat/completions",
    b"/completions",
    b"/responses",
    b"/embeddings",
    b"/moderations",
    b"/rerank",
    b"/messages",
)
"""What may be hedged, behind whatever base URL the SDK was given."""
_GEMINI = b"/models/"


def hedged_path(method: bytes, path: bytes) -> bytes | None:
    """The path, as the gateway knows it, of a request that may be hedged; None for one that is to go as it is."""
    if method != b"POST":
        return None
    bare, mark, query = path.partition(b"?")
    for endpoint in _ENDPOINTS:
        if bare.endswith(endpoint):
            return b"/v1" + endpoint + mark + query
    at = bare.rfind(_GEMINI)
    if at >= 0 and lookup(method, b"/v1beta" + bare[at:]).hedgeable:
        return b"/v1beta" + bare[at:] + mark + query
    return None


class Door:
    """One gateway for one event loop."""

    def __init__(self, blueprint: Blueprint, listeners: Sequence[Listener] = ()) -> None:
        self._blueprint = blueprint
        self._listeners = listeners
        self._loop: asyncio.AbstractEventLoop | None = None
        self._gateway: Gateway | None = None
        self._pools: Sequence[Pool] = ()

    def ask(self, method: bytes, target: bytes, headers: Headers, body: bytes) -> MemoryExchange:
        """Ask the gateway; whoever asks reads the exchange, or says that it is gone."""
        exchange = MemoryExchange(method, target, headers, body)
        self._here()(exchange)
        return exchange

    def _here(self) -> Gateway:
        """The gateway; in another loop than before a new one, since connections live in theirs."""
        loop = asyncio.get_running_loop()
        if self._gateway is None or self._loop is not loop:
            self._gateway, self._pools = build(self._blueprint, loop=loop, listeners=self._listeners)
            self._loop = loop
        return self._gateway

    async def close(self) -> None:
        """Close all connections. Asked again, it makes new ones."""
        gateway, self._gateway = self._gateway, None
        if gateway is not None and self._loop is asyncio.get_running_loop():
            gateway.close()
            await gateway.keeping.closed()
            await asyncio.gather(*(pool.close() for pool in self._pools))
