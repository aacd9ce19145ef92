"""Sends spans to an OpenTelemetry collector (OTLP over HTTP, protobuf), in a thread of its own.

No request waits for it. What cannot be sent, or finds no room to wait in, is counted, and said once.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping, Sequence

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.environment_variables import OTEL_BSP_MAX_QUEUE_SIZE
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

from hedgerow import __version__
from hedgerow.errors import ConfigError

log = logging.getLogger("hedgerow.telemetry")

FLUSH = 5.0
"""Seconds that the last spans may take to be sent when the gateway stops."""
ROOM = 2048
"""Spans that may wait to be sent, unless OTEL_BSP_MAX_QUEUE_SIZE says otherwise."""
_WORDS = 300
"""Characters of a reason that are logged."""


class Sending(SpanExporter):
    """An exporter that counts what it could not send, and says so once, and once when it can again."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._closed = False
        self._thread: int | None = None
        self._why = ""
        self._failing = False
        self.taken = 0
        """Spans that were taken out of the queue."""
        self.lost = 0
        """Spans that could not be sent, or found no room to wait in."""
        self.sent = 0
        logging.getLogger(type(exporter).__module__).addFilter(self._overhear)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.taken += len(spans)
        self._thread = threading.get_ident()
        self._why = ""
        try:
            result = self._exporter.export(spans)
        except Exception as error:
            self._why = self._why or repr(error)
            result = SpanExportResult.FAILURE
        finally:
            self._thread = None
        if result is not SpanExportResult.SUCCESS:
            self.lost += len(spans)
            self.trouble(self._why or "no reason is known")
            return result
        self.sent += len(spans)
        if self._failing:
            self._failing = False
            log.warning("traces: spans are sent again; %d were lost", self.lost)
        return result

    def no_room(self, room: int) -> None:
        """A span found no room to wait in."""
        self.lost += 1
        last = f"; the last try: {self._why}" if self._why else ""
        self.trouble(f"{room} of them wait already (OTEL_BSP_MAX_QUEUE_SIZE){last}")

    def trouble(self, why: str) -> None:
        """Say that spans are being lost, unless that was said."""
        if not self._failing:
            self._failing = True
            log.error("traces: spans cannot be sent and are being lost: %s (said once)", why[:_WORDS])

    def _overhear(self, record: logging.LogRecord) -> bool:
        """Take what the exporter says of each of its failures for the reason, and keep it from the log."""
        if record.thread != self._thread:
            return True
        self._why = self._why or record.getMessage()
        return False

    def shutdown(self) -> None:
        if not self._closed:
            self._closed = True
            self._exporter.shutdown()


class Waiting(SpanProcessor):
    """Spans wait here for the exporter's thread; when so many wait, further ones are lost, and counted."""

    def __init__(self, sending: Sending, room: int) -> None:
        self._sending = sending
        self._room = room
        self._batches = BatchSpanProcessor(sending, max_queue_size=room)
        self._ended = 0
        self._handed = 0

    def on_end(self, span: ReadableSpan) -> None:
        self._ended += 1
        if self.queued < self._room:
            self._handed += 1
            self._batches.on_end(span)
        else:
            self._sending.no_room(self._room)

    @property
    def queued(self) -> int:
        """Spans that wait."""
        return self._handed - self._sending.taken

    @property
    def written(self) -> int:
        """Spans that a collector took."""
        return self._sending.sent

    @property
    def lost(self) -> int:
        """Spans that could not be sent, or found no room to wait in."""
        return self._sending.lost

    def shutdown(self) -> None:
        """Send what waits, for `FLUSH` seconds at most."""
        last = threading.Thread(target=self._batches.shutdown, name="hedgerow-traces-end", daemon=True)
        last.start()
        last.join(FLUSH)
        if last.is_alive():
            self._sending.shutdown()  # it sleeps between two tries: this wakes it up to give in
            last.join(1.0)
        if lost := self._ended - self._sending.sent:
            log.error("traces: %d spans were lost", lost)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._batches.force_flush(timeout_millis)


def provider_for(
    *,
    endpoint: str | None,
    headers: Mapping[str, str],
    service_name: str | None,
    sample: float | None,
) -> tuple[TracerProvider, Waiting]:
    """What makes spans, and where they wait to be sent.

    What is None is as the environment's OTEL_* say, or OpenTelemetry's default.
    Raises `ConfigError`: what the environment says makes no sense.
    """
    resource = Resource.create({SERVICE_VERSION: __version__})  # OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME
    if service_name is not None or str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: service_name or "hedgerow"}))
    try:
        exporter = OTLPSpanExporter(endpoint=endpoint, headers=dict(headers) or None)
        waiting = Waiting(Sending(exporter), int(os.environ.get(OTEL_BSP_MAX_QUEUE_SIZE) or ROOM))
    except ValueError as error:
        raise ConfigError([f"server.traces: the environment's OTEL_* cannot be used: {error}"]) from None
    sampler = None if sample is None else ParentBased(TraceIdRatioBased(sample))
    provider = TracerProvider(sampler, resource, shutdown_on_exit=False)
    provider.add_span_processor(waiting)
    return provider, waiting
