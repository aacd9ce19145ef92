"""A line of the log for every request that is over: what was asked, by whom, who answered it, and how long it took.

It wraps the handler of exchanges and listens to events: nothing of it is there unless `server.access_log` is on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hedgerow.events import (
    AttemptEnded,
    AttemptLaunched,
    Event,
    FirstToken,
    Outcome,
    RequestFinished,
    RequestStarted,
    Role,
)
from hedgerow.gateway.watched import WatchedExchange
from hedgerow.http.exchange import Exchange, Handler
from hedgerow.telemetry.log_lines import ACCESS

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway

log = logging.getLogger(ACCESS)


def handler_of(gateway: Gateway) -> Handler:
    """What to hand exchanges to, so that each is counted and has a line, where anybody wants that."""
    handler: Handler = gateway.__call__  # as a method: CPython is slower to call an object
    if gateway.metrics is not None:
        handler = gateway.metrics.timing(handler)
    access = next((each for each in gateway.listeners if isinstance(each, AccessLog)), None)
    return handler if access is None else access.watching(handler)


class _Request:
    """A request that has a route, until it is over."""

    __slots__ = ("bytes", "exchange", "hedged", "launched", "started", "target")

    def __init__(self, started: RequestStarted, exchange: WatchedExchange | None) -> None:
        self.started = started
        self.exchange = exchange
        self.target: str | None = None
        self.hedged = False
        self.bytes = 0


class AccessLog:
    """A listener. `time` is the loop's clock."""

    kinds = (RequestStarted, AttemptLaunched, FirstToken, AttemptEnded, RequestFinished)

    def __init__(self, time: Callable[[], float]) -> None:
        self._time = time
        self._under_way: WatchedExchange | None = None
        self._open: dict[str, _Request] = {}
        log.setLevel(logging.INFO)  # whatever the level of the rest: it was asked for

    def watching(self, handler: Handler) -> Handler:
        """The same handler, each of whose exchanges has a line."""

        def handle(exchange: Exchange) -> None:
            self._under_way = watched = WatchedExchange(exchange, self._time(), self._answered)
            try:
                handler(watched)
            finally:
                self._under_way = None

        return handle

    def __call__(self, event: Event) -> None:
        if isinstance(event, RequestStarted):
            # A request starts while its exchange is handled.
            exchange, self._under_way = self._under_way, None
            if exchange is not None:
                exchange.flies = True
            self._open[event.request_id] = _Request(event, exchange)
            return
        request = self._open.get(getattr(event, "request_id", ""))
        if request is None:
            return
        match event:
            case AttemptLaunched():
                request.hedged = request.hedged or event.role in (Role.HEDGE, Role.RACER)
            case FirstToken():
                request.target = event.target
            case AttemptEnded():
                if event.outcome in (Outcome.WON, Outcome.FAILED_AFTER_COMMIT, Outcome.CLIENT_GONE):
                    request.bytes += event.received_bytes
            case RequestFinished():
                del self._open[event.request_id]
                self._say(request, event)

    def _say(self, request: _Request, event: RequestFinished) -> None:
        started, exchange, usage = request.started, request.exchange, event.usage
        line = {} if exchange is None else exchange.asked()
        first = event.first_token_at
        _log(
            **line,
            status=event.status,
            outcome=event.outcome.value,
            total_ms=_ms(event.ended_at - event.started_at),
            first_token_ms=None if first is None else _ms(first - event.started_at),
            request_id=event.request_id,
            route=event.route,
            model=started.model,
            target=request.target,
            attempts=event.attempts,
            hedged=request.hedged,
            stream=event.stream,
            bytes=request.bytes,
            input_tokens=None if usage is None else usage.input_tokens,
            output_tokens=None if usage is None else usage.output_tokens,
            tenant=started.tenant or None,
        )

    def _answered(self, exchange: WatchedExchange, status: int | None, request_id: str | None) -> None:
        """An exchange is over that had no attempt of its own: a page, a refusal, an answer given again."""
        took = _ms(self._time() - exchange.at)
        _log(**exchange.asked(), status=status, total_ms=took, request_id=request_id)


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _log(**fields: Any) -> None:
    """One line; what is None is left out."""
    said = {name: value for name, value in fields.items() if value is not None}
    log.info("%s %s %s", said.get("method", "-"), said.get("path", "-"), said.get("status", "-"), extra=said)
