"""The page of what was kept of a request: `GET /v1/hedgerow/requests/<id>/alternatives`, at once or as it comes."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from hedgerow.errors import RequestError
from hedgerow.gateway import headers
from hedgerow.gateway.answers import JSON, refuse
from hedgerow.gateway.keeping import Record
from hedgerow.http.exchange import Exchange, Listener
from hedgerow.policy.alternatives import Alternative
from hedgerow.wire import lookup

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.sharing import Shared

_PATH = re.compile(rb"/v1/hedgerow/requests/([\x21-\x2e\x30-\x7e]{1,200})/alternatives")
_STREAM = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
_LISTENING = 600.0
"""Seconds for which a client may listen to what another gateway keeps."""
_STIR = 15.0
"""Seconds between two comments to a client that listens."""
_NO_STORE = b"cache-control: no-store\r\n"


def request_of(path: bytes) -> str | None:
    """The id of the request whose page this is; None where it is another page."""
    found = _PATH.fullmatch(path)
    return None if found is None else found[1].decode("ascii")


def answer(gateway: Gateway, exchange: Exchange) -> None:
    """What is there as JSON; with `accept: text/event-stream` as events, until nothing more will come.

    Raises `RequestError` (404) where nothing is kept that this client may see.
    """
    request_id = request_of(exchange.target.partition(b"?")[0]) or ""
    tenant = gateway.tenant_of(headers.read(exchange.headers))
    events = exchange.method == b"GET" and _wants_events(exchange)
    record, shared = gateway.keeping.find(request_id, tenant), gateway.keeping.shared
    if record is not None:
        _show(exchange, record, events=events)
    elif shared is not None:
        task = shared.run(_show_from_elsewhere(exchange, shared, tenant, request_id, events=events))
        exchange.listener = _Waiting(task.cancel)
    else:
        raise _NOTHING_KEPT


_NOTHING_KEPT = RequestError(
    404,
    "Nothing is kept of this request: its id is not known here or its time is over, "
    "it had no losers (then its answer has no x-hedgerow-alternatives), or it was made with another key.",
    code="not_found",
)


def _show(exchange: Exchange, record: Record, *, events: bool) -> None:
    if events:
        _Listening(exchange, record, exchange.listener)
    else:
        exchange.respond(200, JSON, msgspec.json.encode(record.view()), _NO_STORE)


async def _show_from_elsewhere(
    exchange: Exchange, shared: Shared, tenant: str, request_id: str, *, events: bool
) -> None:
    try:
        found = await shared.find(tenant, request_id)
    except Exception:
        exchange.abort()
        raise
    if found is None:
        refuse(exchange, lookup(exchange.method, exchange.target), _NOTHING_KEPT)
        return
    record, after = found
    _show(exchange, record, events=events)
    if events and record.pending:
        async with contextlib.aclosing(shared.follow(record, after, _LISTENING)) as news:
            async for _ in news:
                pass
        record.silence()


def _wants_events(exchange: Exchange) -> bool:
    return any(name == b"accept" and b"text/event-stream" in value.lower() for name, value in exchange.headers)


class _Waiting:
    """Calls something off when its client leaves."""

    def __init__(self, call_off: Callable[[], object]) -> None:
        self._call_off = call_off

    def on_disconnect(self) -> None:
        """The client has left."""
        self._call_off()

    def on_pause(self) -> None:
        """What is still to come is little."""

    def on_resume(self) -> None:
        """It has caught up."""


class _Listening(_Waiting):
    """Tells one client of alternatives as they come. `other`: who else wants to know that it has left."""

    def __init__(self, exchange: Exchange, record: Record, other: Listener | None) -> None:
        super().__init__(lambda: None if other is None else other.on_disconnect())
        self._exchange = exchange
        self._record = record
        exchange.listener = self
        exchange.start(200, _STREAM)
        self._stir()
        record.hear(self.hear)

    def hear(self, alternative: Alternative | None) -> None:
        """One that is new or has more agreement; None at the end, which may come before the last answer."""
        if alternative is not None:
            self._event(b"alternative", alternative.view())
            return
        self._timer.cancel()
        record, alternatives = self._record, self._record.alternatives
        told = {"alternatives": len(alternatives), "disagreement": alternatives.disagreement}
        self._event(b"done", {**told, "pending": record.pending})
        self._exchange.listener = None
        self._exchange.end()

    def on_disconnect(self) -> None:
        """The client has left."""
        self._timer.cancel()
        self._record.leave(self.hear)
        super().on_disconnect()

    def _stir(self) -> None:
        """A comment now and then, so that nobody between takes the connection for dead."""
        self._timer = asyncio.get_running_loop().call_later(_STIR, self._stir)
        self._exchange.write(b": \n\n")

    def _event(self, name: bytes, data: object) -> None:
        self._exchange.write(b"event: %b\ndata: %b\n\n" % (name, msgspec.json.encode(data)))
