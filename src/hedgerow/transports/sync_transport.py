"""The sync transport, the same for httpx and httpx2: requests run on hedgerow's loop in the background."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hedgerow.client.background import background
from hedgerow.events import Headers
from hedgerow.transports.asking import Asked, path_of
from hedgerow.transports.door import Door
from hedgerow.transports.exchange import Broken
from hedgerow.transports.hedging import Hedging


class SyncHedging(Hedging):
    """As `AsyncHedging`, for sync clients, in as many threads as there are."""

    def handle_request(self, request: Any) -> Any:
        """Answer the request; the client calls this."""
        path = path_of(self._door, request)
        if path is None:
            return self._plain(request).handle_request(request)
        content = request.read()
        try:
            asked, status, fields = background().call(_ask(self._door, request, path, content))
        except Broken as broken:
            raise self._error(broken, request) from None
        return self._response(status, fields, asked, request)

    def close(self) -> None:
        """Close all connections."""
        if self._door.used:
            background().call(self._door.close())
        for transport in self._others():
            transport.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


async def _ask(door: Door, request: Any, path: bytes, content: bytes) -> tuple[Asked, int, Headers]:
    asked = Asked(door, request, path, content)
    status, fields = await asked.head()
    if asked.exchange.over:
        asked.first = await asked.exchange.rest()  # all of it: nobody needs come for it again
    return asked, status, fields


class SyncBody:
    """An answer's body, as the client's library reads it."""

    def __init__(self, asked: Asked, hedging: Hedging, request: Any) -> None:
        self._asked = asked
        self._hedging = hedging
        self._request = request

    def __iter__(self) -> Iterator[bytes]:
        exchange = self._asked.exchange
        try:
            if data := self._asked.first:
                yield data
            while not exchange.read and (data := background().call(exchange.rest())):
                yield data
        except Broken as broken:
            raise self._hedging._error(broken, self._request) from None

    def close(self) -> None:
        """The client wants no more."""
        if not self._asked.exchange.over:
            background().call(_close(self._asked))

    def __del__(self) -> None:
        self._asked.exchange.forgotten()


async def _close(asked: Asked) -> None:
    asked.close()
