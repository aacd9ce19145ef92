"""The client's own patience: the four timeouts of httpx, for a request that several attempts are made for.

`read` is the longest silence: no attempt has sent a byte, or the reader of a stream waits for the next piece. An
attempt that has no connection after `connect` seconds has failed, and the next is launched; so has one that after
`pool` seconds still waits for one of others to come free. What is written is buffered: `write` is part of the silence.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf

from hedgerow.errors import ConnectFailed, PoolExhausted
from hedgerow.gateway.attempt import Attempt
from hedgerow.gateway.flight import Flight
from hedgerow.transports.exchange import Broken, MemoryExchange


class Watch:
    """Of one exchange. Between pieces it costs nothing: one timer runs, and looks when it is due."""

    __slots__ = ("_connect", "_exchange", "_pool", "_read", "_timer", "overdue")

    def __init__(self, exchange: MemoryExchange, timeout: Mapping[str, float | None]) -> None:
        """`timeout` as in the extensions of a request of httpx."""
        self._exchange = exchange
        self._read = _limit(timeout, "read")
        self._connect = _limit(timeout, "connect")
        self._pool = _limit(timeout, "pool")
        self.overdue: str | None = None
        """The error of the last attempt that had no connection in time."""
        self._timer = None
        if not exchange.over and (first := min(self._read, self._connect, self._pool)) < inf:
            self._timer = exchange.loop.call_later(first, self._look)
            exchange.on_over = self._end

    def _end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        exchange = self._exchange
        if exchange.over:
            return
        now = exchange.loop.time()
        due = inf
        since = now if exchange.waits_since is None else exchange.waits_since
        if not exchange.started and isinstance(exchange.listener, Flight):
            attempts = list(exchange.listener.attempts)
            heard = (max(each.headers_at, each.last_data_at) for each in attempts if each.headers_at is not None)
            since = max(since, max(heard, default=since))
            due = min((self._connecting(attempt, now) for attempt in attempts), default=inf)
            due = min(due, now + min(self._connect, self._pool))  # of those that are launched until then
        if since + self._read <= now:
            exchange.expire(Broken("ReadTimeout", f"nothing came for {self._read:g} s"))
        elif (due := min(due, since + self._read)) < inf:
            self._timer = exchange.loop.call_at(due, self._look)

    def _connecting(self, attempt: Attempt, now: float) -> float:
        """When the attempt must have a connection; it fails if that is now."""
        call = attempt.call
        if attempt.ended or call is None or call.sent_at is not None:
            return inf
        limit = self._pool if call.queued else self._connect
        if attempt.launched_at + limit > now:
            return attempt.launched_at + limit
        if call.queued:
            self.overdue = "PoolTimeout"
            error: ConnectFailed | PoolExhausted = PoolExhausted(f"no connection came free within {limit:g} s")
        else:
            self.overdue = "ConnectTimeout"
            error = ConnectFailed(f"no connection within {limit:g} s")
        attempt.cancel()
        attempt.on_error(error)
        return inf


def _limit(timeout: Mapping[str, float | None], name: str) -> float:
    seconds = timeout.get(name)
    return inf if seconds is None else seconds
