"""Traces on the way through the gateway: a client's context is taken in, and each attempt is sent with its own."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from hedgerow.gateway.blueprint import TargetBlueprint, TracesBlueprint
from hedgerow.gateway.headers import Incoming, without
from hedgerow.http.client_settings import Origin
from hedgerow.http.head import fields_in
from hedgerow.telemetry.span_attributes import provider_of
from hedgerow.telemetry.trace_context import FIELDS, Peer, Tracing, parent_in

if TYPE_CHECKING:
    from hedgerow.telemetry.trace_export import Waiting
    from hedgerow.telemetry.traces import Traces

log = logging.getLogger("hedgerow.gateway")


class Spans(NamedTuple):
    """The listener that makes spans, what is told of those that are sent, and what ends both."""

    listener: Traces
    sink: Waiting
    close: Callable[[], Awaitable[None]]


def spans_for(settings: TracesBlueprint, epoch: float) -> Spans | None:
    """What makes spans; None where the environment says that nothing shall.

    Raises `ConfigError`: the environment's OTEL_* make no sense.
    """
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        log.warning("traces: off, since OTEL_SDK_DISABLED is true")
        return None
    from hedgerow.telemetry.trace_export import provider_for
    from hedgerow.telemetry.traces import Traces

    provider, sink = provider_for(
        endpoint=settings.endpoint,
        headers=dict(settings.headers),
        service_name=settings.service_name,
        sample=settings.sample,
    )
    traces = Traces(provider, epoch=epoch)

    async def close() -> None:
        traces.close()
        await asyncio.to_thread(provider.shutdown)  # it sends what is left

    return Spans(traces, sink, close)


def among(listeners: Iterable[object]) -> Tracing | None:
    """What makes spans, of those who listen."""
    return next((listener for listener in listeners if isinstance(listener, Tracing)), None)


def peers(targets: Mapping[str, TargetBlueprint]) -> dict[str, Peer]:
    """Where the targets are."""
    origins = {name: Origin.of(target.base_url) for name, target in targets.items()}
    return {name: Peer(origin.host, origin.port, provider_of(origin.host)) for name, origin in origins.items()}


def taken_in(traces: Tracing, request_id: str, incoming: Incoming) -> Incoming:
    """Tell of a request that is about to start; what its client says of its trace is not to be sent on as it is."""
    fields = [field for field in fields_in(incoming.forward) if field[0] in FIELDS]
    traces.begins(request_id, parent_in(fields))
    return msgspec.structs.replace(incoming, forward=without(incoming.forward, FIELDS)) if fields else incoming


def for_attempt(traces: Tracing, incoming: Incoming, request_id: str, attempt: int) -> Incoming:
    """With the header fields that make this attempt a part of the trace."""
    return msgspec.structs.replace(incoming, forward=incoming.forward + traces.fields(request_id, attempt))
