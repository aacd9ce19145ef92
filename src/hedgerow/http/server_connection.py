"""One client connection: bytes in, requests in order to the handler, timeouts, back-pressure, the close.

A request is answered before the next one on the same connection is begun. What the client sends meanwhile is kept
unparsed, up to a bound; beyond it reading pauses. As long as nothing is kept, reading never pauses, so a disconnect is
seen at once.

The end of the client's stream while a request is in progress counts as a disconnect. HTTP allows a client to close
only its sending side and wait for the answer, but on plain TCP that looks exactly like a client that has left, and
calling off upstream work the moment a client leaves is what hedgerow promises. nginx decides the same way.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
import struct
from typing import Final, cast

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from hedgerow.events import Headers
from hedgerow.http.exchange import Handler
from hedgerow.http.limits import Limits
from hedgerow.http.server_exchange import ServerExchange
from hedgerow.http.server_head import (
    HAS_UPGRADE,
    PLAIN,
    WANTS_CONTINUE,
    ErrorBody,
    Refused,
    head_bytes,
    judge_head,
    refusal_bytes,
)

log = logging.getLogger("hedgerow.http")

_IDLE: Final = 0
_HEAD: Final = 1
_BODY: Final = 2
_CLOSING: Final = 3

_SLICE: Final = 16 * 1024
"""Most bytes the parser is fed at once: bounds how many pipelined requests are parsed before their turn."""
_LINGER: Final = 1.0
"""Seconds a connection we have closed for writing still drops what the client sends.

Closing at once would answer such bytes with a TCP reset, which can destroy our last answer before it is read.
"""
_FRAMING_SLACK: Final = 8
"""Bytes of chunk framing allowed for each byte of body, so that extensions and trailers cannot go on for ever."""


class Shared:
    """What all connections of one server share."""

    __slots__ = ("connections", "draining", "empty", "error_body", "handler", "idle_timeout", "limits", "loop", "now")

    def __init__(
        self, handler: Handler, limits: Limits, error_body: ErrorBody, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.error_body = error_body
        self.loop = loop
        self.now = loop.time()
        """The loop's time at the last tick: deadlines are cheap, and exact to a tick."""
        self.idle_timeout = limits.idle_timeout
        self.draining = False
        self.connections: set[Connection] = set()
        self.empty = asyncio.Event()
        self.empty.set()


class Connection(asyncio.Protocol):
    """See the module's docstring. Implements `server_exchange.Channel` for its exchanges."""

    __slots__ = (
        "_body",
        "_body_size",
        "_continue_owed",
        "_deaf",
        "_fed",
        "_feed",
        "_flags",
        "_head_size",
        "_headers",
        "_held",
        "_held_size",
        "_legacy",
        "_method",
        "_parser",
        "_phase",
        "_pumping",
        "_raw_body",
        "_ready",
        "_refusal",
        "_shared",
        "_slow_after",
        "_target",
        "_unsent",
        "current",
        "deadline",
        "peer",
        "transport",
        "write_paused",
    )

    transport: asyncio.Transport

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._renew_parser()
        self._phase = _IDLE
        self._ready: list[ServerExchange] = []  # parsed, waiting for their turn
        self._held: list[memoryview] = []  # not parsed yet
        self._held_size = 0
        self._refusal: Refused | None = None  # the last answer, waiting for its turn
        self._deaf = False  # takes no further request
        self._pumping = False
        self._continue_owed = False
        self._fed = 0
        self._head_size = 0
        self._body: bytes | bytearray = b""
        self._unsent = 0
        self.current: ServerExchange | None = None
        """The exchange in progress."""
        self.write_paused = False
        self.deadline = math.inf
        self.peer = ""

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected (and the TLS handshake is done)."""
        shared = self._shared
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=shared.limits.write_buffer_high)
        address = transport.get_extra_info("peername")
        if isinstance(address, tuple):
            host, port = address[:2]
            self.peer = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.deadline = shared.now + shared.idle_timeout
        shared.connections.add(self)
        shared.empty.clear()

    def data_received(self, data: bytes) -> None:
        """Bytes from the client."""
        if self.current is None and not self._deaf and not self.write_paused and len(data) <= _SLICE:
            self._parse(data)
            return
        if self._deaf:
            return
        view = memoryview(data)
        self._held.extend(view[i : i + _SLICE] for i in range(0, len(data), _SLICE))
        self._held_size += len(data)
        self._pump()
        if self._held_size > self._shared.limits.pipeline_bytes:
            self.transport.pause_reading()

    def eof_received(self) -> None:
        """The client has closed its sending side; the transport flushes and closes after this."""
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is no more."""
        self._leave()
        self.deadline = math.inf
        shared = self._shared
        shared.connections.discard(self)
        if not shared.connections:
            shared.empty.set()
        del self._parser, self._feed  # they refer back to this connection

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self.write_paused = True
        self._unsent = self.transport.get_write_buffer_size()
        self.deadline = self._shared.now + self._shared.limits.write_timeout
        if self.current is not None:
            self.current.paused()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.write_paused = False
        self._unsent = 0
        if self._phase == _CLOSING:
            self.deadline = self._shared.now + _LINGER
        elif self.current is not None:
            self.deadline = math.inf
            self.current.resumed()
        else:
            self.deadline = self._shared.now + self._shared.idle_timeout
            self._pump()

    # The parser's side (llhttp callbacks)

    def on_message_begin(self) -> None:
        """First byte of a request."""
        self._phase = _HEAD
        self._target = b""
        self._headers: Headers = []
        self._head_size = 0

    def on_url(self, url: bytes) -> None:
        """The request target or a part of it."""
        self._target = self._target + url if self._target else url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One field of the head, or of the trailers, which are dropped."""
        if self._phase == _HEAD:
            self._headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        """End of the head: refuse it or prepare for its body."""
        parser, limits = self._parser, self._shared.limits
        headers = self._headers
        if (
            self._head_size + self._fed > limits.header_bytes
            and head_bytes(self._target, headers) > limits.header_bytes
        ):
            raise _too_large(limits)
        self._method = parser.get_method()
        version = parser.get_http_version()
        self._legacy = version == "1.0"
        flags = judge_head(self._method, version, headers, body_limit=limits.body_bytes)
        self._flags = flags
        self._body = b""
        self._body_size = self._raw_body = 0
        self._phase = _BODY
        if flags is not PLAIN:
            if flags & HAS_UPGRADE and not parser.should_upgrade():
                self._flags = flags = flags ^ HAS_UPGRADE
            if flags == WANTS_CONTINUE:
                self._continue_owed = True
                if self.current is None and not self._ready:
                    self._continue()

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._body_size += len(data)
        if self._body_size > self._shared.limits.body_bytes:
            raise Refused(413, f"The body is larger than {self._shared.limits.body_bytes} bytes.")
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body) + data

    def on_message_complete(self) -> None:
        """A whole request."""
        if self._flags & HAS_UPGRADE:
            return  # llhttp has skipped the body: see _ignore_upgrade
        keep = self._parser.should_keep_alive()
        exchange = ServerExchange(
            self, self._method, self._target, self._headers, bytes(self._body), keep, self._legacy
        )
        self._phase = _IDLE
        self._body = b""
        self._continue_owed = False
        if not keep:
            self._deaf = True
        if self.current is None and not self.write_paused and not self._ready:
            self._dispatch(exchange)
        else:
            self._ready.append(exchange)

    # What exchanges tell their connection

    def must_close(self) -> bool:
        """While draining the last answer for which there is a request closes the connection."""
        return self._shared.draining and not (self._ready or self._held or self._phase)

    def answered(self, close: bool) -> None:
        """The exchange in progress has ended whole."""
        self.current = None
        if close:
            self._close()
            return
        if not self.write_paused:
            self.deadline = self._shared.now + self._shared.idle_timeout
        if self._ready or self._held or self._phase or self._refusal:
            self._pump()

    def broken_off(self, reset: bool) -> None:
        """The exchange in progress has ended short."""
        self.current = None
        self._leave()
        if reset:
            _reset(self.transport)
        else:
            self.transport.close()

    def call_soon(self, exchange: ServerExchange) -> None:
        """Call `exchange.catch_up()` from the loop."""
        self._shared.loop.call_soon(exchange.catch_up)

    # The server's side

    @property
    def busy(self) -> bool:
        """Whether closing now would lose a request or a part of an answer."""
        return (
            self.current is not None
            or bool(self._ready or self._held or self._refusal)
            or self._phase in (_HEAD, _BODY)
            or self.transport.get_write_buffer_size() > 0
        )

    @property
    def idle(self) -> bool:
        """Whether nothing is going on."""
        return self._phase == _IDLE and not self.busy

    def expire(self) -> None:
        """The deadline has passed."""
        unsent = self.transport.get_write_buffer_size()
        if unsent and not 0 < self._unsent <= unsent:
            # The client still takes bytes.
            self._unsent = unsent
            self.deadline = self._shared.now + self._shared.limits.write_timeout
        elif unsent or self._phase == _CLOSING:
            self.deadline = math.inf
            self.transport.abort()
        elif self._phase == _HEAD:
            self._refuse(Refused(408, "The request head did not arrive in time."))
        elif self._phase == _BODY:
            self._refuse(Refused(408, "The request body did not arrive in time."))
        else:
            self._leave()
            self.transport.close()

    # Helpers

    def _renew_parser(self) -> None:
        self._parser = HttpRequestParser(self)
        self._feed = self._parser.feed_data

    def _parse(self, data: bytes | memoryview) -> None:
        self._fed = len(data)
        try:
            self._feed(data)
        except HttpParserUpgrade as upgrade:
            self._ignore_upgrade(memoryview(data)[upgrade.args[0] :])
        except HttpParserError as error:
            if not self._deaf:
                self._refuse(_refusal_for(error))
        if self.current is None and self._phase in (_HEAD, _BODY):
            self._await_rest(len(data))

    def _await_rest(self, size: int) -> None:
        """A part of a request has come; `size` bytes of it just now."""
        now, limits = self._shared.now, self._shared.limits
        if self._phase == _HEAD:
            if not self._head_size:
                self.deadline = now + limits.header_timeout
            self._head_size += size
            if self._head_size > limits.header_bytes + _SLICE:
                self._refuse(_too_large(limits))
            return
        if not self._raw_body:
            self._slow_after = now + limits.body_timeout
        self._raw_body += size
        self.deadline = min(now + limits.body_timeout, self._slow_after + self._body_size / limits.body_rate)
        if self._raw_body > limits.header_bytes + _SLICE + self._body_size * _FRAMING_SLACK:
            self._refuse(Refused(413, "The body has too much chunk framing."))

    def _dispatch(self, exchange: ServerExchange) -> None:
        self.current = exchange
        self.deadline = math.inf
        try:
            self._shared.handler(exchange)
        except Exception:
            log.exception("the request handler failed")
            exchange.fail(*self._shared.error_body(500, "Internal server error."))

    def _pump(self) -> None:
        """Take up what waits, in order, until a request is in progress."""
        if self._pumping:
            return
        self._pumping = True
        while self.current is None and not self.write_paused:
            if self._ready:
                self._dispatch(self._ready.pop(0))
            elif self._refusal is not None:
                self._send_refusal(self._refusal)
            elif self._continue_owed:
                self._continue()
            elif self._held:
                piece = self._held.pop(0)
                self._held_size -= len(piece)
                self._parse(piece)
            else:
                break
        self._pumping = False
        if self._held_size <= self._shared.limits.pipeline_bytes:
            self.transport.resume_reading()
        if self.current is None and self._phase in (_HEAD, _BODY):
            self._await_rest(0)

    def _continue(self) -> None:
        self._continue_owed = False
        self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _ignore_upgrade(self, rest: memoryview) -> None:
        """Read a request that asks for an upgrade as one that does not.

        llhttp ends such a message at its head and would take a body for the new protocol. So a fresh parser gets the
        head again without the upgrade field, and then `rest`, what came behind the head.
        """
        fields = b"".join([b"%b: %b\r\n" % field for field in self._headers if field[0] != b"upgrade"])
        version = b"1.0" if self._legacy else b"1.1"
        head = b"%b %b HTTP/%b\r\n%b\r\n" % (self._method, self._target, version, fields)
        self._renew_parser()
        if rest:
            self._held.insert(0, rest)
            self._held_size += len(rest)
        self._parse(head)
        self._pump()

    def _refuse(self, refused: Refused) -> None:
        """Answer `refused` once everything before it is answered, and take nothing further."""
        self._deaf = True
        self._phase = _IDLE
        self._body = b""
        self._continue_owed = False
        self._drop_held()
        if self.current is None and not self._ready and not self.write_paused:
            self._send_refusal(refused)
        else:
            self._refusal = refused

    def _send_refusal(self, refused: Refused) -> None:
        self.transport.write(refusal_bytes(refused, self._shared.error_body))
        self._close()

    def _close(self) -> None:
        """Close after the last answer, gently where the transport allows it."""
        self._leave()
        transport = self.transport
        if not transport.can_write_eof():  # TLS
            transport.close()
            return
        transport.resume_reading()
        try:
            transport.write_eof()
        except OSError:  # the client was faster
            transport.abort()

    def _leave(self) -> None:
        """Take nothing further, forget what waits, and tell the exchange in progress that its client has gone."""
        self._phase = _CLOSING
        self._deaf = True
        self._continue_owed = False
        self._refusal = None
        self._body = b""
        self._ready.clear()
        self._drop_held()
        self.deadline = self._shared.now + _LINGER
        exchange, self.current = self.current, None
        if exchange is not None:
            exchange.gone()

    def _drop_held(self) -> None:
        self._held.clear()
        self._held_size = 0


def _too_large(limits: Limits) -> Refused:
    return Refused(431, f"The request head is larger than {limits.header_bytes} bytes.")


def _refusal_for(error: HttpParserError) -> Refused:
    """The answer to what the parser, or one of its callbacks, refused."""
    cause = error.__context__
    if isinstance(cause, Refused):
        return cause
    if isinstance(error, HttpParserCallbackError) and cause is not None:
        raise cause
    log.debug("malformed request: %s", error)
    if str(error) == "Invalid HTTP version":
        return Refused(505, "Only HTTP/1.1 and HTTP/1.0 are spoken here.")
    return Refused(400, "The request is not valid HTTP/1.1.")


def _reset(transport: asyncio.Transport) -> None:
    """Close with a TCP reset: the only way to show that an answer without length or chunks is not whole."""
    sock = transport.get_extra_info("socket")
    if sock is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
