"""One request under way, and what it and its connection report to their pool."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from hedgerow.errors import UpstreamError
from hedgerow.http.upstream import Sink

if TYPE_CHECKING:
    from hedgerow.http.client_connection import ClientConnection

logger = logging.getLogger("hedgerow.http")


class Owner(Protocol):
    """What a connection asks of its pool."""

    name: str

    def lost(self, connection: ClientConnection) -> None:
        """It will carry no further request. May be told more than once."""

    def closed(self, connection: ClientConnection) -> None:
        """Its socket is closed."""

    def free(self, connection: ClientConnection) -> None:
        """Its answer was whole and it can carry the next request."""

    def resend(self, call: ClientCall) -> None:
        """`call` met a connection that had gone stale: send it once more, on a fresh one."""

    def leave(self, call: ClientCall) -> None:
        """`call` was cancelled before it had a connection."""

    def queues(self, call: ClientCall) -> bool:
        """Whether `call` waits, and no connection is being made for it."""

    def cancelled(self, connection: ClientConnection) -> None:
        """`connection` was aborted by a cancel."""


class ClientCall:
    """One request under way (`upstream.Call`). `sink` is None once it is over."""

    __slots__ = (
        "body",
        "connection",
        "fresh",
        "head",
        "is_head",
        "owner",
        "paused",
        "resend",
        "sent_at",
        "since",
        "sink",
    )

    def __init__(self, owner: Owner, sink: Sink, head: bytes, body: bytes, is_head: bool, resend: bool) -> None:
        self.owner = owner
        self.sink: Sink | None = sink
        self.head = head
        self.body = body
        self.is_head = is_head
        self.resend = resend
        self.fresh = False
        """Wait for a connection that has carried nothing yet."""
        self.paused = False
        self.since = 0.0
        """When it began to wait for a connection."""
        self.sent_at: float | None = None
        self.connection: ClientConnection | None = None

    def cancel(self) -> None:
        if self.sink is None:
            return
        connection = self.connection
        self.over()
        if connection is None:
            self.owner.leave(self)
        else:
            connection.abandon()

    def deliver_to(self, on_data: Callable[[bytes], object]) -> None:
        if self.connection is not None:
            self.connection.deliver_to(on_data)

    def pause(self) -> None:
        if not self.paused and self.sink is not None:
            self.paused = True
            connection = self.connection
            if connection is not None and not connection.transport.is_closing():
                connection.transport.pause_reading()

    def resume(self) -> None:
        if self.paused:
            self.paused = False
            connection = self.connection
            if connection is not None and not connection.transport.is_closing():
                connection.transport.resume_reading()

    @property
    def queued(self) -> bool:
        """Whether it waits for the connection of another to come free."""
        return self.connection is None and self.owner.queues(self)

    def over(self) -> None:
        """Nothing more will be told; let go of what it held."""
        self.sink = self.connection = None
        self.head = self.body = b""

    def fail(self, error: UpstreamError) -> None:
        """End with `error`, unless it is over."""
        sink = self.sink
        if sink is not None:
            self.over()
            try:
                sink.on_error(error)
            except Exception:
                logger.exception("a receiver failed in on_error")
