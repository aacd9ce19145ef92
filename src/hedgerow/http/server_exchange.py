"""The server's `Exchange`: one request, and the bytes of its answer."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, Protocol

from hedgerow.events import Headers
from hedgerow.http.exchange import Listener
from hedgerow.http.head import field_lines
from hedgerow.http.server_shared import Shared

log = logging.getLogger("hedgerow.http")

_UNANSWERED: Final = 0
_STREAMING: Final = 1
_ENDED: Final = 2
_GONE: Final = 3

_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding", b"connection", b"keep-alive"))
_JOIN_UP_TO: Final = 64 * 1024
"""Bodies up to this size are copied behind their head and sent in one piece."""

_STATUS_LINES: Final = {
    status.value: b"HTTP/1.1 %d %b\r\n" % (status.value, status.phrase.encode()) for status in HTTPStatus
}


class Channel(Protocol):
    """What an exchange needs of its connection."""

    transport: asyncio.Transport
    peer: str
    write_paused: bool
    shared: Shared

    def must_close(self) -> bool:
        """Asked while draining: whether the answer that starts now is the connection's last."""

    def answered(self, close: bool) -> None:
        """The exchange in progress has ended whole."""

    def broken_off(self, reset: bool) -> None:
        """The exchange in progress has ended short; with `reset` what is unsent is thrown away."""

    def call_soon(self, exchange: ServerExchange) -> None:
        """Call `exchange.catch_up()` from the loop."""


class ServerExchange:
    """See `hedgerow.http.exchange.Exchange`."""

    __slots__ = (
        "_bodiless",
        "_channel",
        "_chunked",
        "_close",
        "_left",
        "_listener",
        "_state",
        "_told_pause",
        "_transport",
        "body",
        "headers",
        "is_last",
        "legacy",
        "method",
        "started",
        "target",
    )

    def __init__(self, channel: Channel, method: bytes, target: bytes, headers: Headers, last: bool) -> None:
        self.method = method
        self.target = target
        self.headers = headers
        self.body = b""
        self.started = False
        self.is_last = last
        """The client has asked for the connection to be closed after this answer."""
        self._channel = channel
        self._transport = channel.transport
        self.legacy = False
        """HTTP/1.0."""
        self._listener: Listener | None = None
        self._state = _UNANSWERED
        self._chunked = False
        self._told_pause = False

    @property
    def peer(self) -> str:
        """The client's address for logs."""
        return self._channel.peer

    @property
    def listener(self) -> Listener | None:
        """Who hears of disconnects and back-pressure. Set late, it hears what it missed in the loop's next turn."""
        return self._listener

    @listener.setter
    def listener(self, listener: Listener | None) -> None:
        self._listener = listener
        if self._state == _GONE or self._channel.write_paused:
            self._channel.call_soon(self)

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, fields: bytes = b"") -> None:
        """Send a whole answer; content-length is added, HEAD and 204/304 send no body."""
        if self._state != _UNANSWERED:
            self._refuse("respond")
            return
        head = self._head(status, headers, fields)
        # As `_finish` does, and first: a listener must not be paused by the last write, it would never be resumed.
        self._state, self._listener = _ENDED, None
        transport = self._transport
        if self.method == b"HEAD" or status == 304:
            head += _declared_length(headers) or (b"content-length: %d\r\n" % len(body) if body else b"")
            transport.write(head + b"\r\n")
        elif status == 204:
            transport.write(head + b"\r\n")
        elif len(body) <= _JOIN_UP_TO:
            transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        else:
            transport.write(b"%bcontent-length: %d\r\n\r\n" % (head, len(body)))
            transport.write(body)
        self._channel.answered(self._close)

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]], fields: bytes = b"") -> None:
        """Send status and headers of a streamed answer."""
        if self._state != _UNANSWERED:
            self._refuse("start")
            return
        declared = _declared_length(headers)
        bodiless = self._bodiless = self.method == b"HEAD" or status in (204, 304)
        unframed = self.legacy and not declared and not bodiless
        self.is_last |= unframed
        head = self._head(status, headers, fields)
        self._left: int | None = None
        if bodiless:
            self._left = 0
            head += declared if status != 204 else b""
        elif declared:
            self._left = int(declared[16:])
            head += declared
        elif not unframed:
            self._chunked = True
            head += b"transfer-encoding: chunked\r\n"
        self._state = _STREAMING
        self._transport.write(head + b"\r\n")

    def write(self, data: bytes) -> None:
        """Send one piece of a streamed answer, at once."""
        if self._chunked:
            if data:
                self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        elif self._state != _STREAMING:
            self._refuse("write")
        elif self._left is None:
            self._transport.write(data)
        elif len(data) <= self._left:
            self._left -= len(data)
            self._transport.write(data)
        elif not self._bodiless:
            # Sent on, the surplus would be read as the head of the next answer.
            self.abort()
            raise RuntimeError("the answer is longer than its content-length")

    def end(self) -> None:
        """End a streamed answer whole."""
        if self._state != _STREAMING:
            self._refuse("end")
            return
        if self._left:
            self.abort()
            raise RuntimeError("the answer is shorter than its content-length")
        chunked = self._chunked
        self._finish()
        if chunked:
            self._transport.write(b"0\r\n\r\n")
        self._channel.answered(self._close)

    def abort(self) -> None:
        """Break off so that the client sees a truncated answer (no last chunk, connection closed)."""
        if self._state in (_ENDED, _GONE):
            return
        unframed = self._state == _STREAMING and not self._chunked and self._left is None
        self._finish()
        if unframed:
            # Only a TCP reset can show that an answer without length or chunks is not whole.
            sock = self._transport.get_extra_info("socket")
            if sock is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._channel.broken_off(unframed)

    # What the connection tells its exchange

    def fail(self, content_type: bytes, body: bytes) -> None:
        """The handler raised: answer 500 where nothing has been sent, break off where something has."""
        if self._state == _UNANSWERED:
            self.respond(500, [(b"content-type", content_type)], body)
        else:
            self.abort()

    def gone(self) -> None:
        """The client has gone."""
        self._state = _GONE
        self._chunked = False
        listener, self._listener = self._listener, None
        if listener is not None:
            _tell(listener.on_disconnect)

    def paused(self) -> None:
        """The write buffer is full."""
        if self._listener is not None and not self._told_pause:
            self._told_pause = True
            _tell(self._listener.on_pause)

    def resumed(self) -> None:
        """The write buffer has room again."""
        if self._listener is not None and self._told_pause:
            self._told_pause = False
            _tell(self._listener.on_resume)

    def catch_up(self) -> None:
        """Tell a listener that came late what it missed."""
        if self._state == _GONE:
            self.gone()
        elif self._state != _ENDED and self._channel.write_paused:
            self.paused()

    # Helpers

    def _head(self, status: int, headers: Sequence[tuple[bytes, bytes]], fields: bytes) -> bytes:
        """The head without its framing fields and its blank line; settles whether to close afterwards."""
        if headers:
            fields = field_lines([field for field in headers if field[0] not in _FRAMING]) + fields
        head = (_STATUS_LINES.get(status) or b"HTTP/1.1 %d Unknown\r\n" % status) + fields
        self.started = True
        self._close = self.is_last or (self._channel.shared.draining and self._channel.must_close())
        if self._close:
            return head + b"connection: close\r\n"
        return head + b"connection: keep-alive\r\n" if self.legacy else head

    def _finish(self) -> None:
        self._state = _ENDED
        self._chunked = False
        self._listener = None  # a handler and its exchange hold each other: leave no cycle to the collector

    def _refuse(self, call: str) -> None:
        if self._state == _GONE:
            return
        if self._state == _UNANSWERED:
            raise RuntimeError(f"{call}() before start()")
        raise RuntimeError(f"{call}() on an answer that has already {'ended' if self._state == _ENDED else 'started'}")


def _declared_length(headers: Sequence[tuple[bytes, bytes]]) -> bytes:
    for name, value in headers:
        if name == b"content-length":
            if not value.isdigit():
                raise ValueError("content-length is not a number")
            return b"content-length: %b\r\n" % value
    return b""


def _tell(call: Callable[[], None]) -> None:
    try:
        call()
    except Exception:
        log.exception("a listener of the client's connection failed")
