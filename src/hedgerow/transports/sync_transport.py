"""The sync transport, the same for httpx and httpx2: requests run on hedgerow's loop in the background."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hedgerow.client.background import background
from hedgerow.client.settings import Policy
from hedgerow.events import Headers, Listener
from hedgerow.transports.async_transport import OURS, Body
from hedgerow.transports.door import Door, hedged_path
from hedgerow.transports.exchange import MemoryExchange
from hedgerow.transports.targets import HttpTarget, blueprint_of


class SyncHedging:
    """As `AsyncHedging`, for sync clients."""

    _library: Any

    def __init__(
        self,
        targets: Sequence[HttpTarget],
        policy: Policy = Policy(),  # noqa: B008  # frozen
        *,
        nonstream_as_stream: bool = False,
        listeners: Sequence[Listener] = (),
        otherwise: Any = None,
    ) -> None:
        """As for `AsyncHedging`."""
        blueprint = blueprint_of(targets, policy, nonstream_as_stream=nonstream_as_stream)
        self._door = Door(blueprint, listeners)
        self._otherwise = otherwise

    def handle_request(self, request: Any) -> Any:
        """Answer the request; the client calls this."""
        target = hedged_path(request.method.encode("ascii"), request.url.raw_path)
        if target is None:
            if self._otherwise is None:
                self._otherwise = self._library.HTTPTransport()
            return self._otherwise.handle_request(request)
        headers: Headers = [(name.lower(), value) for name, value in request.headers.raw if name.lower() not in OURS]
        asked = _ask(self._door, target, headers, request.read(), request, self._library)
        body, status, fields = background().call(asked)
        stream = type("Stream", (_Stream, self._library.SyncByteStream), {})(body)
        return self._library.Response(status, headers=fields, stream=stream)

    def close(self) -> None:
        """Close all connections."""
        background().call(self._door.close())
        if self._otherwise is not None:
            self._otherwise.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _ask(
    door: Door, target: bytes, headers: Headers, content: bytes, request: Any, library: Any
) -> tuple[Body, int, Headers]:
    exchange = door.ask(b"POST", target, headers, content)
    body = Body(exchange, request, request.extensions.get("timeout", {}).get("read"), library)
    try:
        status, fields = await body.within(exchange.head())
    except BaseException:
        exchange.gone()
        raise
    return body, status, fields


async def _pieces(body: Body) -> bytes:
    """All that is there, as soon as something is; nothing at the end."""
    piece = await body.within(body.exchange.piece())
    return b"" if piece is None else piece + body.exchange.rest()


async def _gone(exchange: MemoryExchange) -> None:
    exchange.gone()


class _Stream:
    def __init__(self, body: Body) -> None:
        self._body = body

    def __iter__(self) -> Iterator[bytes]:
        while piece := background().call(_pieces(self._body)):
            yield piece

    def close(self) -> None:
        background().call(_gone(self._body.exchange))
