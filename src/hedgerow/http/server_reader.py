"""Bytes to requests: llhttp, the judgement of heads, and the bounds on size."""

from __future__ import annotations

import logging
from typing import Final

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from hedgerow.events import Headers
from hedgerow.http.limits import Limits
from hedgerow.http.server_exchange import Channel, ServerExchange
from hedgerow.http.server_head import (
    HAS_CONNECTION,
    HAS_UPGRADE,
    PLAIN,
    WANTS_CONTINUE,
    Refused,
    head_bytes,
    judge_head,
    judge_version,
)

log = logging.getLogger("hedgerow.http")

SLICE: Final = 16 * 1024
"""Most bytes the reader is fed at once: bounds how many pipelined requests are parsed before their turn."""

IDLE: Final = 0
IN_HEAD: Final = 1
IN_BODY: Final = 2

_FRAMING_SLACK: Final = 8
"""Bytes of chunk framing allowed for each byte of body, so that extensions and trailers cannot go on for ever."""


class RequestReader:
    """Turns one connection's bytes into exchanges, appended to `ready` as soon as their body is complete."""

    __slots__ = (
        "_body",
        "_body_size",
        "_channel",
        "_exchange",
        "_fed",
        "_feed",
        "_flags",
        "_head_size",
        "_headers",
        "_limits",
        "_parser",
        "_raw_body",
        "_ready",
        "_target",
        "continue_owed",
        "ended",
        "phase",
    )

    def __init__(self, channel: Channel, limits: Limits, ready: list[ServerExchange]) -> None:
        self._channel = channel
        self._limits = limits
        self._ready = ready
        self.phase = IDLE
        """What is being read: nothing yet, a head or a body."""
        self.continue_owed = False
        """The client waits for `100 Continue`."""
        self.ended = False
        """The last request this connection may bring has been read."""
        self._exchange: ServerExchange | None = None  # whose body is being read
        self._body: bytes | bytearray = b""
        self._renew_parser()

    def feed(self, data: bytes | memoryview) -> memoryview | None:
        """Read at most `SLICE` bytes; raise `Refused`, or return what must be fed again (after an upgrade request)."""
        self._fed = len(data)
        try:
            self._feed(data)
        except HttpParserUpgrade as upgrade:
            self._ignore_upgrade()
            return memoryview(data)[upgrade.args[0] :]
        except HttpParserError as error:
            raise _refusal_for(error) from None
        if self.phase:
            self._count()
        return None

    def time_allowed(self, since: float, now: float) -> float:
        """The time by which more of the head or body that began at `since` must have come."""
        limits = self._limits
        if self.phase == IN_HEAD:
            return since + limits.header_timeout
        return min(now, since + self._body_size / limits.body_rate) + limits.body_timeout

    def stop(self) -> None:
        """Forget the request being read; nothing may be fed after this."""
        self.phase = IDLE
        self.continue_owed = False
        self._exchange = None
        self._body = b""

    def release(self) -> None:
        """Break the reference cycles with the parser and the connection."""
        del self._parser, self._feed, self._channel

    # llhttp's callbacks

    def on_message_begin(self) -> None:
        """First byte of a request."""
        self.phase = IN_HEAD
        self._target = b""
        self._headers: Headers = []
        self._head_size = 0

    def on_url(self, url: bytes) -> None:
        """The request target or a part of it."""
        self._target = self._target + url if self._target else url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One field of the head, or of the trailers, which are dropped."""
        self._headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        """End of the head: refuse it or prepare for its body."""
        parser, limits = self._parser, self._limits
        # A bound first: what it clears need not be counted field by field.
        if self._head_size + self._fed > limits.header_bytes < head_bytes(self._target, self._headers):
            raise self._head_too_large()
        method, last, headers = parser.get_method(), not parser.should_keep_alive(), self._headers
        flags = judge_head(method, headers, limits.body_bytes)
        self._exchange = exchange = ServerExchange(self._channel, method, self._target, headers, last)
        if flags or last:
            flags = self._judge_rarities(exchange, flags)
        self._flags = flags
        self._headers = []  # for the trailers
        self._body_size = self._raw_body = 0
        self.phase = IN_BODY

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        self._body_size += len(data)
        if self._body_size > self._limits.body_bytes:
            raise Refused(413, f"The body is larger than {self._limits.body_bytes} bytes.")
        if not self._body:
            self._body = data
        elif isinstance(self._body, bytearray):
            self._body += data
        else:
            self._body = bytearray(self._body) + data

    def on_message_complete(self) -> None:
        """A whole request."""
        exchange, body = self._exchange, self._body
        if exchange is None or self._flags:  # an upgrade: see _ignore_upgrade
            return
        self._exchange = None
        exchange.body = body if isinstance(body, bytes) else bytes(body)
        self._ready.append(exchange)
        if exchange.is_last:
            self.ended = True
        self.phase = IDLE
        self.continue_owed = False
        self._body = b""

    # Helpers

    def _judge_rarities(self, exchange: ServerExchange, flags: int) -> int:
        # A connection kept open without a word about it is HTTP/1.1, and asking for the version is slow.
        if exchange.is_last or flags & HAS_CONNECTION:
            version = self._parser.get_http_version()
            exchange.legacy = version == "1.0"
        else:
            version = "1.1"
        flags = judge_version(version, flags)
        if flags & HAS_UPGRADE and self._parser.should_upgrade():
            return flags
        self.continue_owed = bool(flags & WANTS_CONTINUE)
        return PLAIN

    def _count(self) -> None:
        """A part of a message has been fed: bound what cannot be counted exactly before its end."""
        if self.phase == IN_HEAD:
            self._head_size += self._fed
            if self._head_size > self._limits.header_bytes + SLICE:
                raise self._head_too_large()
        else:
            self._raw_body += self._fed
            if self._raw_body > self._limits.header_bytes + SLICE + self._body_size * _FRAMING_SLACK:
                raise Refused(413, "The body has too much chunk framing.")

    def _renew_parser(self) -> None:
        self._parser = HttpRequestParser(self)
        self._feed = self._parser.feed_data

    def _ignore_upgrade(self) -> None:
        """Read a request that asks for an upgrade as one that does not, but for the field itself.

        llhttp ends such a message at its head and takes a body for the new protocol. So a fresh parser gets the head
        again without the upgrade field; what came behind the head is fed again after it.
        """
        exchange = self._exchange
        if exchange is None:
            return
        fields = b"".join([b"%b: %b\r\n" % field for field in exchange.headers if field[0] != b"upgrade"])
        version = b"1.0" if exchange.legacy else b"1.1"
        self._renew_parser()
        self._feed(b"%b %b HTTP/%b\r\n%b\r\n" % (exchange.method, exchange.target, version, fields))
        again = self._exchange or self._ready[-1]
        again.headers += [field for field in exchange.headers if field[0] == b"upgrade"]

    def _head_too_large(self) -> Refused:
        return Refused(431, f"The request head is larger than {self._limits.header_bytes} bytes.")


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
