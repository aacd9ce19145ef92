"""The gateway as an ASGI application, to be mounted in any ASGI server.

    # app.py:  uvicorn app:app
    from pathlib import Path
    from hedgerow.asgi import application
    from hedgerow.config import load

    app = application(load(Path("hedgerow.yaml")))

Mounted below a path such as /llm, clients use base_url http://<host>/llm/v1.

Same core, same behaviour; `hedgerow serve` is several times faster, because it needs no task and no messages per
request. ASGI 3.0 (https://asgi.readthedocs.io/en/stable/specs/www.html), types http and lifespan. `server.listen`,
`tls`, `timeouts` and `limits.header_bytes` are the surrounding server's affair; `limits.body_bytes` is obeyed here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any
from urllib.parse import quote

from hedgerow.config import Settings
from hedgerow.errors import RequestError
from hedgerow.events import Headers
from hedgerow.gateway.access_log import handler_of
from hedgerow.gateway.answers import refuse
from hedgerow.gateway.blueprint import Blueprint
from hedgerow.gateway.build import build
from hedgerow.gateway.core import Gateway
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.gateway.listening import Closing, listeners_of
from hedgerow.http.client import Pool
from hedgerow.http.exchange import Handler, Listener
from hedgerow.http.head import fields_in
from hedgerow.wire import lookup

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_QUEUED = 16
"""Messages waiting to be sent above which the upstream is told to pause."""
_SAFE = "/:@!$&'()*+,;="
"""What a path may hold as it is besides letters, digits and `-._~` (RFC 3986 section 3.3)."""


class AsgiExchange:
    """A `hedgerow.http.exchange.Exchange` whose answer becomes ASGI messages."""

    def __init__(self, scope: Message, headers: Headers, body: bytes) -> None:
        query = scope["query_string"]
        # What the server has decoded may hold anything, line breaks too; `raw_path` is optional in ASGI.
        path: bytes = scope.get("raw_path") or quote(scope["path"], safe=_SAFE).encode()
        root = quote(scope.get("root_path", ""), safe=_SAFE).encode()
        if path.startswith(root + b"/"):
            path = path[len(root) :]
        self.method: bytes = scope["method"].encode()
        self.target: bytes = path + b"?" + query if query else path
        self.headers = headers
        self.body = body
        self.peer = "{}:{}".format(*(scope.get("client") or ("unknown", 0)))
        self.listener: Listener | None = None
        self.started = False
        self.outbox: asyncio.Queue[Message | None] = asyncio.Queue()
        """What is to be sent; None last, when no more will come."""
        self.broken = False
        self._over = False
        self._paused = False

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, fields: bytes = b"") -> None:
        """Send a whole answer."""
        self.start(status, [*headers, (b"content-length", b"%d" % len(body))], fields)
        self._put({"type": "http.response.body", "body": body, "more_body": False}, last=True)

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]], fields: bytes = b"") -> None:
        """Send status and headers of a streamed answer."""
        self.started = True
        self._put({"type": "http.response.start", "status": status, "headers": [*headers, *fields_in(fields)]})

    def write(self, data: bytes) -> None:
        """Send one piece of a streamed answer."""
        self._put({"type": "http.response.body", "body": data, "more_body": True})
        if not self._paused and self.listener is not None and self.outbox.qsize() > _QUEUED:
            self._paused = True
            self.listener.on_pause()

    def end(self) -> None:
        """End a streamed answer whole."""
        self._put({"type": "http.response.body", "body": b"", "more_body": False}, last=True)

    def abort(self) -> None:
        """Break off: the application ends by an error, so that the server cuts the connection."""
        if not self._over:
            self.broken = True
            self._over = True
            self.listener = None
            self.outbox.put_nowait(None)

    def gone(self) -> None:
        """The client has left."""
        if not self._over:
            self._over = True
            self.outbox.put_nowait(None)
            listener, self.listener = self.listener, None
            if listener is not None:
                listener.on_disconnect()

    def sent(self) -> None:
        """A message has been taken by the server."""
        if self._paused and self.outbox.qsize() <= _QUEUED // 4:
            self._paused = False
            if self.listener is not None:
                self.listener.on_resume()

    def _put(self, message: Message, *, last: bool = False) -> None:
        if not self._over:
            self.outbox.put_nowait(message)
            if last:
                self._over = True
                self.listener = None


class AnswerBroken(Exception):
    """Raised to the ASGI server when an answer could not be completed, so that the client sees it broken."""


class Application:
    """The ASGI callable; made by `application`."""

    def __init__(self, blueprint: Blueprint) -> None:
        self._blueprint = blueprint
        self._gateway: Gateway | None = None
        self._handle: Handler | None = None
        self._pools: Sequence[Pool] = ()
        self._no_more_events: Closing | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["type"] == "http":
            await self._http(scope, receive, send)
        else:
            raise NotImplementedError(f"hedgerow serves http, not {scope['type']}")

    async def _lifespan(self, receive: Receive, send: Send) -> None:
        while True:
            match (await receive())["type"]:
                case "lifespan.startup":
                    await send({"type": "lifespan.startup.complete"})
                case "lifespan.shutdown":
                    if self._gateway is not None:
                        self._gateway.close()
                        await self._gateway.keeping.closed()
                    await asyncio.gather(*(pool.close() for pool in self._pools))
                    if self._no_more_events is not None:
                        await self._no_more_events()
                    await send({"type": "lifespan.shutdown.complete"})
                    return
                case _:
                    pass

    def _handler(self) -> Handler:
        if self._gateway is None or self._handle is None:
            loop = asyncio.get_running_loop()
            hearing = listeners_of(self._blueprint.server, loop)
            self._no_more_events = hearing.close
            self._gateway, self._pools = build(self._blueprint, loop=loop, listeners=hearing.listeners)
            self._handle = handler_of(self._gateway)
        return self._handle

    async def _http(self, scope: Message, receive: Receive, send: Send) -> None:
        headers: Headers = [(name.lower(), value) for name, value in scope["headers"]]
        body = await self._body(receive)
        if body is None:
            return
        exchange = AsgiExchange(scope, headers, body)
        limit = self._blueprint.server.http.body_bytes
        if len(body) > limit:
            error = RequestError(413, f"The request's body is larger than {limit} bytes.")
            refuse(exchange, lookup(exchange.method, exchange.target), error)
        else:
            self._handler()(exchange)
        watcher = asyncio.ensure_future(_watch(receive, exchange))
        try:
            await _deliver(exchange, send)
        finally:
            watcher.cancel()
            await asyncio.gather(watcher, return_exceptions=True)
            exchange.gone()

    async def _body(self, receive: Receive) -> bytes | None:
        """The request's body; None when the client left. Reading stops just beyond the limit."""
        parts: list[bytes] = []
        size = 0
        while size <= self._blueprint.server.http.body_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if not message.get("more_body", False):
                break
        return b"".join(parts)


async def _watch(receive: Receive, exchange: AsgiExchange) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    exchange.gone()


async def _deliver(exchange: AsgiExchange, send: Send) -> None:
    while (message := await exchange.outbox.get()) is not None:
        await send(message)
        if message.get("more_body") is False:
            return
        exchange.sent()
    if exchange.broken:
        raise AnswerBroken("the upstream's answer broke off")


def application(settings: Settings) -> Application:
    """The gateway of these `settings` (`hedgerow.config.load("hedgerow.yaml")`) as an ASGI application. Pools are made
    when the first request comes, on its loop.
    """
    return Application(blueprint_of(settings))
