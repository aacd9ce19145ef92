"""An exchange that tells when it is over, for the access log."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hedgerow.events import Headers
from hedgerow.http.exchange import Exchange, Listener
from hedgerow.http.head import fields_in

_ID = b"x-hedgerow-request-id"
_PATH = 200
"""Characters of a path that are told; clients may send anything."""

Over = Callable[["WatchedExchange", int | None, str | None], None]
"""Told of the end, with the status (None: the client left first) and the name of the request that was answered."""


class WatchedExchange:
    """An exchange that tells when it is over. Its handler sees no difference; it is a listener of the real one."""

    __slots__ = ("_exchange", "_listener", "_path", "_request_id", "_status", "_tell", "at", "flies", "write")

    def __init__(self, exchange: Exchange, at: float, over: Over) -> None:
        self._tell = over
        self._exchange = exchange
        self._listener: Listener | None = None
        self._path = exchange.target.partition(b"?")[0][:_PATH]  # the query may hold a key
        self._status: int | None = None
        self._request_id: str | None = None
        self.at = at
        self.flies = False
        """Its request has attempts: events tell of its end."""
        self.write = exchange.write
        """As it is: nothing is to be done for every piece."""

    def asked(self) -> dict[str, str]:
        """What was asked, and by whom."""
        return {"method": self.method.decode("latin-1"), "path": self._path.decode("latin-1"), "peer": self.peer}

    # The Exchange.

    @property
    def method(self) -> bytes:
        return self._exchange.method

    @method.setter
    def method(self, method: bytes) -> None:
        self._exchange.method = method

    @property
    def target(self) -> bytes:
        return self._exchange.target

    @target.setter
    def target(self, target: bytes) -> None:
        self._exchange.target = target

    @property
    def headers(self) -> Headers:
        return self._exchange.headers

    @headers.setter
    def headers(self, headers: Headers) -> None:
        self._exchange.headers = headers

    @property
    def body(self) -> bytes:
        return self._exchange.body

    @body.setter
    def body(self, body: bytes) -> None:
        self._exchange.body = body

    @property
    def started(self) -> bool:
        return self._exchange.started

    @started.setter
    def started(self, started: bool) -> None:
        self._exchange.started = started

    @property
    def peer(self) -> str:
        return self._exchange.peer

    @property
    def listener(self) -> Listener | None:
        return None if self._exchange.listener is None else self._listener

    @listener.setter
    def listener(self, listener: Listener | None) -> None:
        self._listener = listener
        self._exchange.listener = None if listener is None else self

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, fields: bytes = b"") -> None:
        self._exchange.respond(status, headers, body, fields)
        self._begun(status, fields)
        self._over()

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]], fields: bytes = b"") -> None:
        self._exchange.start(status, headers, fields)
        self._begun(status, fields)

    def end(self) -> None:
        self._exchange.end()
        self._over()

    def abort(self) -> None:
        self._exchange.abort()
        self._over()

    # The Listener.

    def on_disconnect(self) -> None:
        self._status = None
        self._over()
        if self._listener is not None:
            self._listener.on_disconnect()

    def on_pause(self) -> None:
        if self._listener is not None:
            self._listener.on_pause()

    def on_resume(self) -> None:
        if self._listener is not None:
            self._listener.on_resume()

    def _begun(self, status: int, fields: bytes) -> None:
        self._status = status
        if not self.flies:
            named = [value.decode() for name, value in fields_in(fields) if name == _ID]
            self._request_id = named[0] if named else None

    def _over(self) -> None:
        if not self.flies:
            self.flies = True  # it is told once
            self._tell(self, self._status, self._request_id)
