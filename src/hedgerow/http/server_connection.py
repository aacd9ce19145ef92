"""One client connection: its requests in order to the handler, timeouts, back-pressure, the close.

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
from typing import Final, cast

from hedgerow.http.server_exchange import ServerExchange
from hedgerow.http.server_head import Refused, refusal_bytes
from hedgerow.http.server_reader import IN_HEAD, SLICE, RequestReader
from hedgerow.http.server_shared import Shared

log = logging.getLogger("hedgerow.http")

_LINGER: Final = 1.0
"""Seconds a connection we have closed for writing still drops what the client sends.

Closing at once would answer such bytes with a TCP reset, which can destroy our last answer before it is read.
"""


class Connection(asyncio.Protocol):
    """See the module's docstring. It is the `Channel` of its exchanges."""

    __slots__ = (
        "_closing",
        "_deaf",
        "_held",
        "_held_size",
        "_pumping",
        "_reader",
        "_reading_paused",
        "_reading_since",
        "_ready",
        "_refusal",
        "_unsent",
        "current",
        "deadline",
        "peer",
        "shared",
        "transport",
        "write_paused",
    )

    transport: asyncio.Transport

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self._ready: list[ServerExchange] = []  # read, waiting for their turn
        self._held: list[memoryview] = []  # not read yet
        self._held_size = 0
        self._reader = RequestReader(self, shared.limits, self._ready)
        self._reading_since: float | None = None  # a head or a body
        self._reading_paused = False
        self._refusal: Refused | None = None  # the last answer, waiting for its turn
        self._deaf = False  # takes no further request
        self._closing = False
        self._pumping = False
        self._unsent = 0
        self.current: ServerExchange | None = None
        """The exchange in progress."""
        self.write_paused = False
        self.deadline = math.inf
        """When `expire` is due."""
        self.peer = ""

    # What the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected (and the TLS handshake is done)."""
        shared = self.shared
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
        if self._deaf:
            return
        if self.current is None and not self.write_paused and len(data) <= SLICE:
            self._read(data)
        else:
            view = memoryview(data)
            self._held.extend([view[i : i + SLICE] for i in range(0, len(data), SLICE)])
            self._held_size += len(data)
        self._pump()

    def eof_received(self) -> None:
        """The client has closed its sending side; the transport flushes and closes after this."""
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is no more."""
        self._leave()
        self._reader.release()
        shared = self.shared
        shared.connections.discard(self)
        if not shared.connections:
            shared.empty.set()

    def pause_writing(self) -> None:
        """The client reads too slowly."""
        self.write_paused = True
        self._unsent = self.transport.get_write_buffer_size()
        self.deadline = self.shared.now + self.shared.limits.write_timeout
        if self.current is not None:
            self.current.paused()

    def resume_writing(self) -> None:
        """The client has caught up."""
        self.write_paused = False
        self._unsent = 0
        if self.current is not None:
            self.deadline = math.inf
            self.current.resumed()
        else:
            self.deadline = self.shared.now + (_LINGER if self._closing else self.shared.idle_timeout)
            self._pump()

    # What an exchange tells

    def must_close(self) -> bool:
        """Asked while draining: close after the last answer for which there is a request."""
        return not (self._ready or self._held or self._reader.phase)

    def answered(self, close: bool) -> None:
        """The exchange in progress has ended whole."""
        self.current = None
        if close:
            self._close()
        elif not self.write_paused:
            self.deadline = self.shared.now + self.shared.idle_timeout
        if self._ready or self._held or self._refusal is not None or self._reader.phase or self._reading_paused:
            self._pump()

    def broken_off(self, reset: bool) -> None:
        """The exchange in progress has ended short."""
        self.current = None
        self._leave()
        if reset:
            self.transport.abort()
        else:
            self.transport.close()

    def call_soon(self, exchange: ServerExchange) -> None:
        """Call `exchange.catch_up()` from the loop."""
        self.shared.loop.call_soon(exchange.catch_up)

    # What the server asks and tells

    @property
    def busy(self) -> bool:
        """Whether closing now would lose a request or a part of an answer."""
        waiting = self._ready or self._held or self._refusal or self._reader.phase
        return self.current is not None or bool(waiting) or self.transport.get_write_buffer_size() > 0

    @property
    def idle(self) -> bool:
        """Whether the connection only waits for its client's next request."""
        return not self._closing and not self.busy

    def expire(self) -> None:
        """The deadline has passed."""
        unsent = self.transport.get_write_buffer_size()
        if unsent and not 0 < self._unsent <= unsent:
            # The client still takes bytes.
            self._unsent = unsent
            self.deadline = self.shared.now + self.shared.limits.write_timeout
        elif unsent or self._closing:
            self.deadline = math.inf
            self.transport.abort()
        elif self._reader.phase:
            part = "head" if self._reader.phase == IN_HEAD else "body"
            self._refuse(Refused(408, f"The request {part} did not arrive in time."))
            self._pump()
        else:
            self._leave()
            self.transport.close()

    # Helpers

    def _read(self, data: bytes | memoryview) -> None:
        reader = self._reader
        try:
            again = reader.feed(data)
        except Refused as refused:
            if not reader.ended:  # else it is nobody's what follows the last request
                self._refuse(refused)
        else:
            if again:
                self._held.insert(0, again)
                self._held_size += len(again)
        if reader.ended:
            self._deaf = True
            reader.stop()
            self._drop_held()

    def _pump(self) -> None:
        """Take up what waits, in order, until a request is in progress or nothing is left."""
        if self._pumping:
            return
        self._pumping = True
        while self.current is None and not self.write_paused:
            if self._ready:
                self._dispatch(self._ready.pop(0))
            elif self._held:
                piece = self._held.pop(0)
                self._held_size -= len(piece)
                self._read(piece)
            elif self._refusal is not None:
                self.transport.write(refusal_bytes(self._refusal, self.shared.error_body))
                self._close()
            elif self._reader.continue_owed:
                self._reader.continue_owed = False
                self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            else:
                self._settle()
                break
        self._pumping = False
        full = self._held_size > self.shared.limits.pipeline_bytes
        if full != self._reading_paused:
            self._reading_paused = full
            if full:
                self.transport.pause_reading()
            elif not self.transport.is_closing():
                self.transport.resume_reading()

    def _settle(self) -> None:
        """Nothing more can be done until the client sends: set the time for the head or body being read."""
        if not self._reader.phase:
            self._reading_since = None
            return
        now = self.shared.now
        if self._reading_since is None:
            self._reading_since = now
        self.deadline = self._reader.time_allowed(self._reading_since, now)

    def _dispatch(self, exchange: ServerExchange) -> None:
        self.current = exchange
        self.deadline = math.inf
        self._reading_since = None
        try:
            self.shared.handler(exchange)
        except Exception:
            log.exception("the request handler failed")
            exchange.fail(*self.shared.error_body(500, "Internal server error."))

    def _refuse(self, refused: Refused) -> None:
        """Take nothing further; `refused` is answered once everything before it is."""
        self._deaf = True
        self._refusal = refused
        self._reader.stop()
        self._drop_held()

    def _close(self) -> None:
        """Close after the last answer, gently where the transport allows it."""
        self._leave()
        transport = self.transport
        if not transport.can_write_eof():  # TLS
            transport.close()
            return
        try:
            transport.write_eof()
        except OSError:  # the client was faster
            transport.abort()

    def _leave(self) -> None:
        """Take nothing further, forget what waits, and tell the exchange in progress that its client has gone."""
        self._closing = self._deaf = True
        self._refusal = None
        self._reader.stop()
        self._ready.clear()
        self._drop_held()
        if not self.write_paused:  # else the client has its time to take what is unsent
            self.deadline = self.shared.now + _LINGER
        exchange, self.current = self.current, None
        if exchange is not None:
            exchange.gone()

    def _drop_held(self) -> None:
        self._held.clear()
        self._held_size = 0
