"""The asynchronous transport, the same for httpx and httpx2: they differ in their names only."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from hedgerow.transports.asking import Asked, path_of
from hedgerow.transports.exchange import Broken
from hedgerow.transports.hedging import Hedging


class AsyncHedging(Hedging):
    """Sends what may be hedged to its targets, and all else where the client means it to go, by the library's own."""

    async def handle_async_request(self, request: Any) -> Any:
        """Answer the request; the client calls this."""
        path = path_of(self._door, request)
        if path is None:
            return await self._plain(request).handle_async_request(request)
        asked = Asked(self._door, request, path, await request.aread())
        try:
            status, fields = await asked.head()
        except Broken as broken:
            raise self._error(broken, request) from None
        return self._response(status, fields, asked, request)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._door.close()
        for transport in self._others():
            await transport.aclose()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class AsyncBody:
    """An answer's body, as the client's library reads it."""

    def __init__(self, asked: Asked, hedging: Hedging, request: Any) -> None:
        self._asked = asked
        self._hedging = hedging
        self._request = request

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self  # a generator would be entered in the loop's list of those to close

    async def __anext__(self) -> bytes:
        try:
            data = await self._asked.exchange.rest()
        except Broken as broken:
            raise self._hedging._error(broken, self._request) from None
        if not data:
            raise StopAsyncIteration
        return data

    async def aclose(self) -> None:
        """The client wants no more."""
        self._asked.close()

    def __del__(self) -> None:
        self._asked.exchange.forgotten()
