"""A collector that takes spans as the OpenTelemetry exporter sends them: OTLP over HTTP, protobuf."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.e2e.upstream import Received, Upstream, always, whole

TAKEN = whole(ExportTraceServiceResponse().SerializeToString(), kind="application/x-protobuf")


class Collector(Upstream):
    """Listens on loopback. A context manager."""

    def __init__(self) -> None:
        super().__init__(always(TAKEN))

    @property
    def url(self) -> str:
        """The address that exporters take as their endpoint, without a path."""
        return f"http://127.0.0.1:{self.port}"

    def _decoded(self) -> Iterator[tuple[Received, ExportTraceServiceRequest]]:
        for received in tuple(self.requests):
            body = received.body
            if received.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            yield received, ExportTraceServiceRequest.FromString(body)

    @property
    def spans(self) -> list[Span]:
        """All that has come."""
        return [
            span
            for _, request in self._decoded()
            for of_resource in request.resource_spans
            for of_scope in of_resource.scope_spans
            for span in of_scope.spans
        ]

    @property
    def resource(self) -> dict[str, Any]:
        """What the first spans say of who made them."""
        _, first = next(self._decoded())
        return attributes(first.resource_spans[0].resource.attributes)

    @property
    def text(self) -> str:
        """Everything that has come, for whoever looks for what must not be there."""
        return "".join(f"{received.headers}{request}" for received, request in self._decoded())


def attributes(listed: Any) -> dict[str, Any]:
    """Attributes by their names."""
    return {each.key: _value(each.value) for each in listed}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(each) for each in value.array_value.values]
    return getattr(value, kind)
