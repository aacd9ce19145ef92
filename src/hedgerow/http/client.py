"""The upstream pool: HTTP/1.1 connections to one origin, kept alive, capped, replaced.

Callbacks only: `Pool.send` on a warm connection is a list pop and a write. Coroutines are used to connect and to close.

Choosing a connection. The warmest idle connection is taken (last in, first out), so that surplus ones grow old and
expire. Without one the request waits in a single queue and a dial is started, up to the cap; the queue is served in
order by whichever comes first, a new connection or one set free. A failed dial fails the oldest waiter it was for.

Stale connections. A server may close a kept-alive connection just as a request is written to it (RFC 9112 section
9.3.1). Such a request is sent once more, on a fresh connection, if all of this holds: the connection had carried an
answer before or had waited idle, not one byte of this answer has come, and it is the first time. A server that closes
an idle connection has not looked at the request, and one that did work on it answers or closes later than this; what is
left is a crash between reading and answering, where a repeated completion costs tokens but breaks nothing. Callers for
whom it would break something pass `resend=False`.

Cancelling. HTTP/1.1 can only be cancelled by closing the connection. With `redial` the pool opens a replacement in the
background, and a dial whose only request was cancelled runs on, so that a cancelled hedge does not cost the next
request a handshake. It is one for one: demand alone makes a pool grow, and idle expiry lets it shrink, so it never
holds more than was in use together within the last `idle_timeout`.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from itertools import islice

from hedgerow.errors import ConnectFailed, PoolExhausted, UpstreamClosed, UpstreamError
from hedgerow.http.client_call import ClientCall
from hedgerow.http.client_connection import ClientConnection
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.http.connect import Connector
from hedgerow.http.head import absolute_form
from hedgerow.http.upstream import Call, Sink

__all__ = ["Origin", "Pool", "PoolSettings"]

logger = logging.getLogger("hedgerow.http")


class Pool:
    """Connections to `origin`. Belongs to one event loop; `close` it before the loop ends.

    Raises `ConfigError` if `settings.proxy` or `settings.ca_file` is not usable.
    """

    def __init__(
        self,
        origin: Origin,
        settings: PoolSettings = PoolSettings(),  # noqa: B008 - frozen, so it can be shared
        *,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.origin = origin
        self.name = origin.authority
        self.settings = settings
        self._loop = loop or asyncio.get_running_loop()
        self._now = self._loop.time
        self._idle_timeout = settings.idle_timeout
        self._connector = Connector(origin, settings, loop=self._loop)
        self._idle: deque[ClientConnection] = deque()  # oldest first
        self._waiting: deque[ClientCall] = deque()
        self._dials: dict[asyncio.Task[None], None] = {}  # in order of their start
        self._tasks: set[asyncio.Task[None]] = set()  # the dials and those cancelled but not yet over
        self._sockets: set[ClientConnection] = set()  # whatever a dial has yielded and is not closed yet
        self._open = 0
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._queue_timer: asyncio.TimerHandle | None = None
        self._all_closed: asyncio.Event | None = None
        self._absolute: bytes | None = None
        proxy = self._connector.proxy
        if proxy is not None and origin.scheme == "http":
            self._absolute = b"http://" + origin.host_header
        self._proxy_authorization = proxy.authorization if proxy else None

    # --- requests ----------------------------------------------------------------------------------------------------

    def send(self, sink: Sink, head: bytes, body: bytes, *, method: bytes = b"POST", resend: bool = True) -> Call:
        """Send one request: `head` complete and ending in an empty line (`head.request_head`), then `body`.

        Never raises for reasons of the network, and calls nothing of `sink` before it has returned. `method` must be
        the one in `head`. `resend=False` forbids the second try on a stale connection (see the module's text).
        """
        if self._absolute is not None:
            head = absolute_form(head, self._absolute, self._proxy_authorization)
        call = ClientCall(self, sink, head, body, method == b"HEAD", resend)
        idle = self._idle
        if idle:
            now = self._now()
            oldest = now - self._idle_timeout
            while idle:
                connection = idle.pop()
                connection.resting = False
                if connection.idle_since > oldest and not connection.transport.is_closing():
                    connection.start(call, now)
                    return call
                connection.retire()
        self._enqueue(call)
        return call

    def _enqueue(self, call: ClientCall) -> None:
        if self._all_closed is not None:
            self._loop.call_soon(call.fail, UpstreamClosed(f"the pool for {self.name} is closed"))
            return
        call.since = self._now()
        self._waiting.append(call)
        self._top_up()
        if len(self._waiting) - len(self._dials) > self.settings.max_waiting:
            self._waiting.pop()
            self._loop.call_soon(call.fail, self._exhausted("and the queue is full"))

    def _exhausted(self, what: str) -> PoolExhausted:
        s = self.settings
        return PoolExhausted(
            f"all {s.max_connections} connections to {self.name} are busy {what}: raise connections.max"
            f" (now {s.max_connections}), connections.queue ({s.max_waiting}) or connections.queue_timeout"
            f" ({s.queue_timeout:g} s), or add targets"
        )

    def _expire_waiting(self) -> None:
        """Fail whoever has waited too long and has no dial under way for them."""
        self._queue_timer = None
        timeout = self.settings.queue_timeout
        oldest = self._now() - timeout
        uncovered = islice(self._waiting, len(self._dials), None)
        expired = [call for call in uncovered if call.since <= oldest]
        for call in expired:
            self._waiting.remove(call)
        self._top_up()
        for call in expired:
            call.fail(self._exhausted(f"and none came free within {timeout:g} s"))

    # --- what connections and calls report (client_connection.Owner) -------------------------------------------------

    def free(self, connection: ClientConnection) -> None:
        if self._waiting:
            for call in self._waiting:
                if not call.fresh:
                    self._waiting.remove(call)
                    connection.start(call, self._now())
                    return
        connection.resting = True
        connection.idle_since = self._now()
        self._idle.append(connection)
        if self._sweep_timer is None:
            self._sweep_timer = self._loop.call_later(self._idle_timeout, self._sweep)

    def lost(self, connection: ClientConnection) -> None:
        if connection.counted:
            connection.counted = False
            self._open -= 1
            if connection.resting:
                connection.resting = False
                self._idle.remove(connection)
            self._top_up()

    def closed(self, connection: ClientConnection) -> None:
        self._sockets.discard(connection)
        if self._all_closed is not None and not self._sockets:
            self._all_closed.set()

    def resend(self, call: ClientCall) -> None:
        call.fresh = True
        call.since = self._now()
        self._waiting.appendleft(call)

    def leave(self, call: ClientCall) -> None:
        with suppress(ValueError):  # not there when its error is about to be told
            self._waiting.remove(call)
        if not self.settings.redial and len(self._dials) > len(self._waiting):
            task, _ = self._dials.popitem()
            task.cancel()

    def queues(self, call: ClientCall) -> bool:
        return call in islice(self._waiting, len(self._dials), None)

    def cancelled(self, connection: ClientConnection) -> None:
        self.lost(connection)
        if self.settings.redial and self._open + len(self._dials) < self.settings.max_connections:
            self._dial()

    # --- dialling ----------------------------------------------------------------------------------------------------

    def _top_up(self) -> None:
        """A dial for every waiter, within the cap; the others get a time limit."""
        waiting, dials = self._waiting, self._dials
        if len(waiting) <= len(dials) or self._all_closed is not None:
            return
        room = self.settings.max_connections - self._open - len(dials)
        for _ in range(min(room, len(waiting) - len(dials))):
            self._dial()
        if len(waiting) > len(dials) and self._queue_timer is None:
            expiry = waiting[len(dials)].since + self.settings.queue_timeout
            self._queue_timer = self._loop.call_at(expiry, self._expire_waiting)

    def _dial(self) -> None:
        if self._all_closed is None:
            task = self._loop.create_task(self._connect(), name=f"connect {self.name}")
            self._dials[task] = None
            self._tasks.add(task)
            task.add_done_callback(self._dialled)

    async def _connect(self) -> None:
        connection = await self._connector.connect(lambda: ClientConnection(self))
        if connection.transport.is_closing():
            raise ConnectFailed(f"cannot connect to {self.name}: it closed the connection at once")
        self._sockets.add(connection)
        connection.counted = True
        self._open += 1
        # Until the done callback runs, next in line, this is counted twice: as a dial and as open. That errs on the
        # safe side, and the callback tops up again.
        if self._waiting:
            connection.start(self._waiting.popleft(), self._now())
        else:
            connection.used = True  # by its first request it may have gone stale like any other
            self.free(connection)

    def _dialled(self, task: asyncio.Task[None]) -> None:
        self._dials.pop(task, None)
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            if not isinstance(error, UpstreamError):
                logger.error("connecting to %s failed unexpectedly", self.name, exc_info=error)
                error = ConnectFailed(f"cannot connect to {self.name}: {type(error).__name__}")
            if len(self._waiting) > len(self._dials):
                self._waiting.popleft().fail(error)
            else:
                logger.debug("a spare connection could not be opened: %s", error)
        self._top_up()

    # --- idle connections --------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        """Close the idle connections whose time is up; come back when the next one's is."""
        self._sweep_timer = None
        oldest = self._now() - self._idle_timeout
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle[0].retire()
        if self._idle:
            expiry = self._idle[0].idle_since + self._idle_timeout
            self._sweep_timer = self._loop.call_at(expiry, self._sweep)

    # --- counters and the end ----------------------------------------------------------------------------------------

    @property
    def open(self) -> int:
        """Connections that are up."""
        return self._open

    @property
    def idle(self) -> int:
        """Connections ready for a request."""
        return len(self._idle)

    @property
    def busy(self) -> int:
        """Connections with a request under way."""
        return self._open - len(self._idle)

    @property
    def connecting(self) -> int:
        """Dials under way."""
        return len(self._dials)

    @property
    def waiting(self) -> int:
        """Requests without a connection yet."""
        return len(self._waiting)

    async def close(self) -> None:
        """End every call with `UpstreamClosed`, close every connection and wait until they are closed."""
        if self._all_closed is None:
            self._all_closed = asyncio.Event()
        for timer in (self._sweep_timer, self._queue_timer):
            if timer is not None:
                timer.cancel()
        error = UpstreamClosed(f"the pool for {self.name} was closed")
        while self._waiting:
            self._waiting.popleft().fail(error)
        for task in self._tasks:
            task.cancel()
        self._connector.close()
        for connection in list(self._sockets):
            connection.fail(error)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._sockets:
            await self._all_closed.wait()
