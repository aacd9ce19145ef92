"""What all connections of one server share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hedgerow.http.exchange import Handler
from hedgerow.http.limits import Limits
from hedgerow.http.server_head import ErrorBody

if TYPE_CHECKING:
    from hedgerow.http.server_connection import Connection


class Shared:
    """Settings, the coarse clock and the open connections."""

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
