"""Who hears what happens in a serving gateway: the log, and the event log and the ledger where they are asked for."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from hedgerow.events import (
    BreakerChanged,
    BreakerState,
    CancelFailed,
    ControlsChanged,
    DelayRuleChanged,
    Event,
    FailureClass,
    HedgeSkipped,
    HedgingThrottled,
    Listener,
    TargetTakenOut,
)
from hedgerow.gateway.access_log import AccessLog
from hedgerow.gateway.blueprint import ServerBlueprint
from hedgerow.gateway.question import LEAVE
from hedgerow.gateway.rescue import CONTINUES
from hedgerow.gateway.tracing import spans_for
from hedgerow.ledger.feed import Feed
from hedgerow.telemetry.event_log import EventLog
from hedgerow.telemetry.metrics import Metrics, Sink
from hedgerow.telemetry.pulse import Pulse
from hedgerow.telemetry.shared_metrics import SharedMetrics

log = logging.getLogger("hedgerow.gateway")


Closing = Callable[[], Awaitable[None]]
"""What a listener wants to be called when no more events will come."""


class Hearing(NamedTuple):
    """The listeners, what to wait for before requests come, and what to call when no more events will come."""

    listeners: Sequence[Listener]
    ready: Callable[[], Awaitable[None]]
    close: Closing


def listeners_of(settings: ServerBlueprint, loop: asyncio.AbstractEventLoop) -> Hearing:
    """Who hears what happens.

    Raises `OSError` when the event log cannot be opened, or the folder of shared metrics.
    """
    listeners: list[Listener] = [Loudly()]
    closings: list[Closing] = []
    sinks: dict[str, Sink] = {}
    ready = _at_once
    epoch = _epoch(loop)
    if settings.event_log is not None:
        event_log = EventLog(settings.event_log, later=loop.call_later, epoch=epoch)
        listeners.append(event_log)
        sinks["event_log"] = event_log
        closings.append(_soon(event_log.close))
    if settings.ledger is not None:
        ledger = Feed(settings.ledger, loop, lambda: _epoch(loop))
        ready = ledger.ready
        listeners.append(ledger.book)
        sinks["ledger"] = ledger.backlog
        closings.append(ledger.close)
    if settings.traces is not None and (spans := spans_for(settings.traces, epoch)) is not None:
        listeners.append(spans.listener)
        sinks["traces"] = spans.sink
        closings.append(spans.close)
    if settings.metrics:
        listeners.append(metrics := Metrics(epoch, _shared(settings.metrics_shared), sinks))
        closings.append(Pulse(metrics, loop).close)
    if settings.access_log:
        listeners.append(AccessLog(loop.time))

    async def close() -> None:
        for each in closings:
            try:
                await each()
            except Exception:  # the others have something to write, too
                log.exception("hedgerow itself failed to close what listens; please report it")

    return Hearing(listeners, ready, close)


def _epoch(loop: asyncio.AbstractEventLoop) -> float:
    """The Unix time when the loop's clock showed 0, as the system's clock is set now."""
    return time.time() - loop.time()  # noqa: TID251  # for people who read the records; nothing is decided by it


async def _at_once() -> None: ...


def _shared(folder: str | None) -> SharedMetrics | None:
    """Where the processes that share a port tell each other what they have counted. Raises `OSError`."""
    return None if folder is None else SharedMetrics(folder, secrets.token_hex(8))


def _soon(close: Callable[[], None]) -> Closing:
    """Of one that need not wait for anything."""

    async def closing() -> None:
        close()

    return closing


class Loudly:
    """Logs what an operator must hear of."""

    kinds = (
        TargetTakenOut,
        HedgeSkipped,
        BreakerChanged,
        DelayRuleChanged,
        HedgingThrottled,
        CancelFailed,
        ControlsChanged,
    )

    def __init__(self) -> None:
        self._told: set[tuple[str, str]] = set()

    def __call__(self, event: Event) -> None:
        about = _about(event)
        if isinstance(event, HedgeSkipped):
            what = "not hedged" if LEAVE in event.detail else "no answer is gone on with"
            known = (event.route, event.detail) in self._told
            if not known and (LEAVE in event.detail or CONTINUES in event.detail):
                self._told.add((event.route, event.detail))
                log.warning("route %s: %s, now and in future: %s", event.route, what, event.detail, extra=about)
        elif isinstance(event, TargetTakenOut):
            level = logging.WARNING if event.kind is FailureClass.RATE_LIMITED else logging.ERROR
            which, out = f"key {event.key} of " * bool(event.key), event.until - event.at
            why = event.kind, event.message
            log.log(level, "%starget %s is out for %.0f s: %s (%s)", which, event.target, out, *why, extra=about)
        elif isinstance(event, BreakerChanged):
            level = logging.INFO if event.state is BreakerState.CLOSED else logging.WARNING
            model = f", model {event.model}" if event.model else ""
            log.log(level, "target %s%s: breaker %s: %s", event.target, model, event.state, event.why, extra=about)
        elif isinstance(event, DelayRuleChanged):
            how = "straggle" if event.straggles else "straggle no more"
            log.warning(
                "route %s: requests of target %s %s: %s", event.route, event.target, how, event.detail, extra=about
            )
        elif isinstance(event, HedgingThrottled):
            if event.throttled:
                log.warning("route %s: no hedges for now (hedge.outage): %s", event.route, event.detail, extra=about)
            else:
                log.info("route %s: hedges may start again (hedge.outage)", event.route, extra=about)
        elif isinstance(event, CancelFailed):
            if event.fails:
                told = "target %s goes on with what is cancelled there, and is paid for it: %s (on_cancel_failure: %s)"
                log.warning(told, event.target, event.detail, event.action, extra=about)
            else:
                log.info("target %s stops what is cancelled there: %s", event.target, event.detail, extra=about)
        elif isinstance(event, ControlsChanged):
            where = "all routes" if event.route is None else f"route {event.route}"
            for key, value in event.changes.items():
                log.warning("%s: %s, by %s", where, _changed(key, value), event.by, extra=about)


_ABOUT = ("request_id", "route", "target", "key", "model", "reason", "kind", "state")


def _about(event: Event) -> dict[str, object]:
    """What a line of the log is about, for machines."""
    told = ((name, getattr(event, name, None)) for name in _ABOUT)
    return {name: value for name, value in told if value}


def _changed(key: str, value: object) -> str:
    if key == "kill_switch":
        return "KILL SWITCH ON: nothing is hedged any more" if value else "KILL SWITCH OFF: hedging goes on"
    return f"{key} is as configured again" if value is None else f"{key} is now {value}"
