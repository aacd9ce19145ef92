"""One connection to an upstream: writes a request, feeds the answer to llhttp, tells the call's sink.

The life of a call on a connection is `start` .. `_finish` (the answer was whole), `fail` (it was not) or `abandon`
(cancelled). The end of an answer is acted upon only after `feed_data` has returned: the sink may send its next request
from `on_end`, and that must not meet the parser half-way through a read, nor take surplus bytes of this answer for its
own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from httptools import HttpParserError, HttpResponseParser

from hedgerow.errors import UpstreamClosed, UpstreamError, UpstreamProtocolError
from hedgerow.events import Headers
from hedgerow.http.client_call import ClientCall, Owner
from hedgerow.http.upstream import Sink

HEAD_LIMIT = 64 * 1024
"""Bytes of response head accepted, interim 1xx heads included."""
JOIN_LIMIT = 64 * 1024
"""Bodies up to this size are joined with their head into one write (one segment); larger ones are not copied."""

logger = logging.getLogger("hedgerow.http")


class _Nowhere(list[tuple[bytes, bytes]]):
    """Takes the place of the header list once it is complete: trailers are dropped."""

    def append(self, field: tuple[bytes, bytes]) -> None:
        pass


_TRAILERS = _Nowhere()


def _ignore(_data: bytes) -> None:
    """Takes the pieces that nobody waits for."""


class ClientConnection(asyncio.Protocol):
    """A connection of one pool. `call` is None while it is idle or closing."""

    __slots__ = (
        "_complete",
        "_feed",
        "_head_bytes",
        "_headers",
        "_in_head",
        "_keep",
        "_on_data",
        "_owner",
        "_parser",
        "_sink",
        "_until_close",
        "_uploading",
        "call",
        "counted",
        "idle_since",
        "resting",
        "transport",
        "used",
    )

    transport: asyncio.Transport

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self.call: ClientCall | None = None
        self._sink: Sink | None = None
        self._on_data: Callable[[bytes], object] = _ignore
        self.used = False
        """It has carried a whole answer, or waited idle, before the present call."""
        self.counted = False
        """The pool counts it among its open connections."""
        self.resting = False
        """The pool holds it among its idle connections."""
        self.idle_since = 0.0
        self._headers: Headers = []
        self._head_bytes = 0
        self._in_head = True
        self._complete = False
        self._keep = True
        self._until_close = False
        self._uploading = False
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._feed = self._parser.feed_data

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    # --- one call ----------------------------------------------------------------------------------------------------

    def start(self, call: ClientCall, now: float) -> None:
        """Send `call` on this idle connection. Calls nothing of the sink."""
        self.call = call
        call.sent_at = now
        self._sink = sink = call.sink
        if sink is not None:
            self._on_data = sink.on_data
        call.connection = self
        self._headers = []
        self._head_bytes = 0
        self._in_head = True
        self._complete = False
        body = call.body
        self._uploading = len(body) > JOIN_LIMIT
        if not self._uploading:
            self.transport.write(call.head + body)
        else:
            self.transport.write(call.head)
            self.transport.write(body)
        if call.paused:
            self.transport.pause_reading()

    def deliver_to(self, on_data: Callable[[bytes], object]) -> None:
        """Give the pieces of the present call's answer to `on_data`, unless it has been read to its end."""
        if not self._complete:
            self._on_data = on_data

    def abandon(self) -> None:
        """The call was cancelled: close at once, whatever is still to come."""
        self._leave()
        self.transport.abort()
        self._owner.cancelled(self)

    def drop(self) -> None:
        """Close at once; there is no call, or it has been told."""
        self._owner.lost(self)
        self.transport.abort()

    def retire(self) -> None:
        """Close in good order (over TLS with a close_notify): nothing is under way."""
        self._owner.lost(self)
        self.transport.close()

    def _finish(self) -> None:
        call, sink = self.call, self._sink
        if call is None or sink is None:
            return
        self.call = self._sink = None
        call.sink = call.connection = None  # as `over` does; it has let go of the rest
        if self._uploading and self.transport.get_write_buffer_size():
            self.drop()  # answered early; the rest of the body must not be waited for
        elif self._keep:
            if call.paused:
                self.transport.resume_reading()
            self.used = True
            self._owner.free(self)
        else:
            self.retire()
        try:
            sink.on_end()
        except Exception:
            logger.exception("a receiver failed in on_end")

    def fail(self, error: UpstreamError) -> None:
        """Close at once and end the call, if there is one, with `error`."""
        call = self.call
        self._leave()
        self.drop()
        if call is not None:
            call.fail(error)

    def _leave(self) -> None:
        self.call = self._sink = None
        self._on_data = _ignore

    def _sink_failed(self, error: Exception) -> None:
        logger.error("a receiver failed while an answer came in", exc_info=error)
        self.fail(UpstreamError(f"the receiver of the answer failed: {type(error).__name__}"))

    # --- transport callbacks -----------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.call is None:
            self.drop()  # bytes nobody asked for: this connection is out of step
            return
        if self._in_head:
            self._head_bytes += len(data)
        feed = self._feed  # here and below: CPython is slow to call what is in a slot without taking it out first
        try:
            feed(data)
        except HttpParserError as error:
            self._keep = False
            if not self._complete and self.call is not None:
                self.fail(UpstreamProtocolError(f"{self._owner.name} sent no valid HTTP: {error}"))
        if self._complete:
            self._finish()
        elif self._in_head and self._head_bytes > HEAD_LIMIT and self.call is not None:
            self._head_too_long()

    def eof_received(self) -> bool:
        self._gone(None)
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone(exc)
        self._owner.closed(self)
        self._parser = None  # it holds our bound methods: break the cycle
        del self._feed

    def _gone(self, error: Exception | None) -> None:
        call = self.call
        if call is None:
            self.drop()
        elif self._until_close and not self._in_head and error is None:
            self._keep = False
            self._finish()
        elif self.used and not self._head_bytes and call.resend and not call.fresh:
            self._leave()
            call.connection = None
            self._owner.resend(call)
            self.drop()
        else:
            where = "in the middle of its answer" if not self._in_head else "before its answer"
            reason = f" ({error})" if error is not None and str(error) else ""
            self.fail(UpstreamClosed(f"{self._owner.name} closed the connection {where}{reason}"))

    # --- llhttp callbacks --------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._complete:
            self._keep = False  # something follows the answer: out of step

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value.strip()))

    def on_headers_complete(self) -> None:
        call, sink, parser = self.call, self._sink, self._parser
        if call is None or sink is None or parser is None or self._complete:
            return
        status = parser.get_status_code()
        headers = self._headers
        if self._head_bytes > HEAD_LIMIT and sum(len(n) + len(v) + 4 for n, v in headers) > HEAD_LIMIT:
            self._head_too_long()
            return
        if status < 200:
            self._headers = []
            if status < 100 or status == 101:
                self.fail(UpstreamProtocolError(f"{self._owner.name} answered with status {status}"))
            return
        self._in_head = False
        self._headers = _TRAILERS
        call.head = call.body = b""  # never sent again from here on
        self._keep = keep = parser.should_keep_alive()
        self._until_close = not keep and _is_until_close(status, headers)
        if call.is_head:
            # llhttp cannot be told that no body follows, so the parser is of no use for a second answer
            self._keep, self._complete = False, True
            self._on_data = _ignore
        try:
            sink.on_head(status, headers)
        except Exception as error:
            self._sink_failed(error)

    def on_body(self, data: bytes) -> None:
        on_data = self._on_data
        try:
            on_data(data)
        except Exception as error:
            self._sink_failed(error)

    def on_message_complete(self) -> None:
        if not self._in_head:  # else it was an interim answer
            self._complete = True
            self._on_data = _ignore

    def _head_too_long(self) -> None:
        self.fail(UpstreamProtocolError(f"{self._owner.name} sent a head of more than {HEAD_LIMIT} bytes"))


def _is_until_close(status: int, headers: Headers) -> bool:
    """Whether the body ends with the connection (RFC 9112 section 6.3, points 1, 4 and 8)."""
    if status in (204, 304):
        return False
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if codings:
        return not codings[-1].lower().endswith(b"chunked")
    return all(name != b"content-length" for name, _ in headers)
