"""Where OpenTelemetry spans go."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, SecretStr, model_validator

from hedgerow import units
from hedgerow.config.base import Model
from hedgerow.config.fields import Leaf, expected, problem, reference, text
from hedgerow.config.network import COLLECTOR, HEADERS
from hedgerow.extras import install


def _parse_sample(value: object, _: Path) -> float | None:
    if value is None:
        return None
    share = units.parse_percent(value)
    if share is None or not 0.0 <= share <= 1.0:
        raise expected("a percentage between 0% and 100%; a number needs its %")
    return share


SAMPLE = Leaf(
    _parse_sample,
    "percentage",
    {"anyOf": [{"type": "string", "pattern": units.PERCENT_PATTERN}, reference(), {"type": "null"}]},
    lambda share: "null" if share is None else units.show_percent(share),
)


class Traces(Model):
    """OpenTelemetry spans of requests and attempts, see [traces and logs](traces-and-logs.md). Left out, none are \
made; `{}` sends them where the standard `OTEL_EXPORTER_OTLP_*` variables say. Needs `hedgerow[otel]`."""

    endpoint: Annotated[str | None, COLLECTOR] = None
    """The collector's URL for OTLP over HTTP, such as `http://127.0.0.1:4318`; without a path, `/v1/traces` is added. \
Left out, it is `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `OTEL_EXPORTER_OTLP_ENDPOINT` or `http://localhost:4318`."""
    headers: Annotated[dict[str, SecretStr], HEADERS] = Field(default={}, repr=False)
    """Headers for the collector, such as a key; beside those of `OTEL_EXPORTER_OTLP_HEADERS`."""
    service_name: Annotated[str | None, text()] = None
    """What spans name as their `service.name`. Left out, it is `OTEL_SERVICE_NAME`, or `hedgerow`."""
    sample: Annotated[float | None, SAMPLE] = None
    """The share of traces that are recorded, of those that begin here: where a client says that it has recorded its \
part of a trace or has not, so do we. Left out, `OTEL_TRACES_SAMPLER` decides, by default for all."""

    @model_validator(mode="before")
    @classmethod
    def _has_its_packages(cls, data: Any) -> Any:
        for module in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
            try:
                found = importlib.util.find_spec(module)
            except ImportError:
                found = None
            if found is None:
                raise problem(f"needs the packages of OpenTelemetry: {install('otel')}")
        return data
