"""The asynchronous transport, the same for httpx and httpx2: they differ in their names only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

from hedgerow.client.settings import Policy
from hedgerow.events import Headers, Listener
from hedgerow.transports.door import Door, hedged_path
from hedgerow.transports.exchange import Broken, MemoryExchange
from hedgerow.transports.targets import HttpTarget, blueprint_of

OURS = frozenset({b"host", b"content-length", b"transfer-encoding", b"connection"})


class AsyncHedging:
    """Sends what may be hedged to its targets, and everything else where the client means it to go.

    `targets` in the order in which they are asked; the first is the primary.
    """

    _library: Any
    """The module whose classes are spoken: httpx or httpx2."""

    def __init__(
        self,
        targets: Sequence[HttpTarget],
        policy: Policy = Policy(),  # noqa: B008  # frozen
        *,
        nonstream_as_stream: bool = False,
        listeners: Sequence[Listener] = (),
        otherwise: Any = None,
    ) -> None:
        """`otherwise` is the transport of requests that are not hedged (files, batches, models); left out, the
        library's own. Raises `ValueError` for what cannot work.
        """
        blueprint = blueprint_of(targets, policy, nonstream_as_stream=nonstream_as_stream)
        self._door = Door(blueprint, listeners)
        self._otherwise = otherwise

    async def handle_async_request(self, request: Any) -> Any:
        """Answer the request; the client calls this."""
        target = hedged_path(request.method.encode("ascii"), request.url.raw_path)
        if target is None:
            if self._otherwise is None:
                self._otherwise = self._library.AsyncHTTPTransport()
            return await self._otherwise.handle_async_request(request)
        headers: Headers = [(name.lower(), value) for name, value in request.headers.raw if name.lower() not in OURS]
        exchange = self._door.ask(b"POST", target, headers, await request.aread())
        patience = request.extensions.get("timeout", {}).get("read")
        body = Body(exchange, request, patience, self._library)
        try:
            status, fields = await body.within(exchange.head())
        except BaseException:
            exchange.gone()
            raise
        stream = type("Stream", (BodyStream, self._library.AsyncByteStream), {})(body)
        return self._library.Response(status, headers=fields, stream=stream)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._door.close()
        if self._otherwise is not None:
            await self._otherwise.aclose()

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class Body:
    """An answer's body, read within the client's own patience."""

    def __init__(self, exchange: MemoryExchange, request: Any, patience: float | None, library: Any) -> None:
        self.exchange = exchange
        self._request = request
        self._patience = patience
        self._library = library

    async def within(self, what: Any) -> Any:
        """What is waited for; the client's timeout and a broken answer are its library's own errors."""
        try:
            async with asyncio.timeout(self._patience):
                return await what
        except TimeoutError:
            raise self._library.ReadTimeout("nothing came in time", request=self._request) from None
        except Broken:
            broken = "the answer broke off before it was whole"
            raise self._library.RemoteProtocolError(broken, request=self._request) from None


class BodyStream:
    """As the client's library reads it."""

    def __init__(self, body: Body) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        exchange = self._body.exchange
        while (piece := await self._body.within(exchange.piece())) is not None:
            yield piece

    async def aclose(self) -> None:
        """The client wants no more: whatever runs for it is broken off."""
        self._body.exchange.gone()
