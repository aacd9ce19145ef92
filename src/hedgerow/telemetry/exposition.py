"""Samples as Prometheus reads them: text, or OpenMetrics for who prefers that.

prometheus_client is imported here only, at the first scrape: a process that nobody scrapes does without it.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from hedgerow.telemetry.families import FAMILIES, Family, Labels, Samples, Value

if TYPE_CHECKING:
    from prometheus_client import Metric

Fields = list[tuple[bytes, bytes]]
_TEXT: Final = b"text/plain; version=0.0.4; charset=utf-8"
_OPENMETRICS: Final = b"application/openmetrics-text; version=1.0.0; charset=utf-8"
_COMPRESSION: Final = 4
"""Of nine: half the work of the usual six."""


def render(samples: Samples, pids: Sequence[int], *, accept: str, encodings: str) -> tuple[Fields, bytes]:
    """Header fields and body for a scrape with these `Accept` and `Accept-Encoding`.

    `pids` are the processes that the samples are of, where there may be several. What Linux says of each is told as
    `process_*`, with a label `pid`; without `pids` it is told of this process, without a label.
    """
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.openmetrics import exposition as openmetrics

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Collector(samples, pids))
    if "application/openmetrics-text" in accept:
        content_type, body = _OPENMETRICS, openmetrics.generate_latest(registry)  # type: ignore[no-untyped-call]
    else:
        content_type, body = _TEXT, generate_latest(registry)
    fields = [(b"content-type", content_type), (b"cache-control", b"no-store"), (b"vary", b"accept-encoding")]
    if "gzip" in {each.partition(";")[0].strip().lower() for each in encodings.split(",")}:
        fields.append((b"content-encoding", b"gzip"))
        body = gzip.compress(body, _COMPRESSION, mtime=0)
    return fields, body


class _Collector:
    """What prometheus_client asks for the metrics."""

    def __init__(self, samples: Samples, pids: Sequence[int]) -> None:
        self._samples = samples
        self._pids = pids

    def collect(self) -> Iterable[Metric]:
        """Every family, with its samples if there are any."""
        for family in FAMILIES.values():
            yield _metric(family, self._samples.get(family.name, {}))
        yield from _of_processes(self._pids)


def _metric(family: Family, series: Mapping[Labels, Value]) -> Metric:
    from prometheus_client import Metric

    metric = Metric(family.name.removesuffix("_total"), family.help, family.kind.value)
    for values, value in series.items():
        labels = dict(zip(family.labels, values, strict=True))
        if not isinstance(value, list):
            metric.add_sample(family.name, labels, value if family.unit == 1.0 else value * family.unit)
            continue
        *counts, total = value
        for bound, count in zip((*family.bounds, float("inf")), accumulate(counts), strict=True):
            metric.add_sample(f"{family.name}_bucket", {**labels, "le": _bound(bound)}, count)
        metric.add_sample(f"{family.name}_count", labels, sum(counts))
        metric.add_sample(f"{family.name}_sum", labels, total)
    return metric


def _bound(value: float) -> str:
    return "+Inf" if value == float("inf") else str(value)


def _of_processes(pids: Sequence[int]) -> Iterable[Metric]:
    from prometheus_client import ProcessCollector

    if not pids:
        return ProcessCollector(registry=None).collect()
    metrics: dict[str, Metric] = {}
    for pid in pids:
        for metric in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():  # type: ignore[misc]
            (sample,) = metric.samples
            metric.samples = []
            metrics.setdefault(metric.name, metric).add_sample(sample.name, {"pid": str(pid)}, sample.value)
    return metrics.values()
