"""`GET /metrics`: what Prometheus scrapes (docs/metrics.md)."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hedgerow.errors import RequestError
from hedgerow.events import Headers, Listener
from hedgerow.gateway.access import Access
from hedgerow.gateway.answers import refuse
from hedgerow.gateway.metrics_gauges import gauges
from hedgerow.http.exchange import Exchange, Handler
from hedgerow.telemetry.exposition import Fields, render
from hedgerow.telemetry.families import Samples
from hedgerow.telemetry.metrics import Metrics
from hedgerow.wire import lookup

if TYPE_CHECKING:
    from asyncio import Future

    from hedgerow.gateway.core import Gateway

log = logging.getLogger("hedgerow.gateway")
_CLOCK = time.perf_counter  # noqa: TID251  # for people; nothing is decided by it


class MetricsPage:
    """Answers scrapes: counts are taken on the loop, and written out in a thread, so that no request waits for it."""

    def __init__(self, gateway: Gateway, metrics: Metrics) -> None:
        self._loop = gateway.loop
        self._metrics = metrics
        self._access: Access | None = None
        metrics.asked = partial(gauges, gateway, metrics.epoch)

    @classmethod
    def of(cls, gateway: Gateway, listeners: Iterable[Listener]) -> MetricsPage | None:
        """The page of who counts among the listeners, if anybody does."""
        return next((cls(gateway, each) for each in listeners if isinstance(each, Metrics)), None)

    def install(self, tokens: Sequence[str] | None) -> None:
        """Who may scrape from now on: who presents one of these; None: whoever can connect."""
        self._access = None if tokens is None else Access(tokens)

    def timing(self, handler: Handler, clock: Callable[[], float] = _CLOCK) -> Handler:
        """The same handler, of whose requests it is counted how long each is worked on; `clock` gives seconds.

        The loop's own clock stands still meanwhile.
        """
        add = self._metrics.overhead.add

        def handle(exchange: Exchange) -> None:
            posted, began = exchange.method == b"POST", clock()
            handler(exchange)
            if posted:
                add(clock() - began)

        return handle

    def answer(self, exchange: Exchange) -> None:
        """Answer a scrape."""
        if self._access is not None:
            try:
                self._access.check(_field(exchange.headers, b"authorization"))
            except RequestError as error:
                refuse(exchange, lookup(exchange.method, exchange.target), RequestError(401, _WHO, code=error.code))
                return
        accept, encodings = (
            (_field(exchange.headers, name) or b"").decode("latin-1") for name in (b"accept", b"accept-encoding")
        )
        samples = self._metrics.samples()
        work = partial(self._write, samples, self._metrics.taken, accept, encodings)
        self._loop.run_in_executor(None, work).add_done_callback(partial(_respond, exchange))

    def _write(self, samples: Samples, number: int, accept: str, encodings: str) -> tuple[Fields, bytes]:
        pids: Sequence[int] = ()
        if (shared := self._metrics.shared) is not None:
            shared.write(samples, number)
            samples, pids = shared.read()
        return render(samples, pids, accept=accept, encodings=encodings)


def _respond(exchange: Exchange, work: Future[tuple[Fields, bytes]]) -> None:
    if work.cancelled():
        exchange.respond(503, (), b"")
    elif (error := work.exception()) is not None:
        log.error("hedgerow itself failed to write its metrics; please report it", exc_info=error)
        exchange.respond(500, (), b"")
    else:
        fields, body = work.result()
        exchange.respond(200, fields, body)


def _field(headers: Headers, name: bytes) -> bytes | None:
    return next((value for field, value in headers if field == name), None)


_WHO = (
    "Metrics are for who has a key for them: send 'Authorization: Bearer <key>' with server.metrics.token or, without "
    "one, the admin token or one of the gateway's API keys."
)
