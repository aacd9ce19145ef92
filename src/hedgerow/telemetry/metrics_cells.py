"""Where the metrics of one kind of request or attempt are counted."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final

from hedgerow.events import Usage, WonAlone
from hedgerow.telemetry.families import LATENCY, SENDING, WHOLE, Labels, Value

Sample = tuple[str, Labels, Value]
YES_NO: Final = ("no", "yes")


class Bins:
    """A histogram: how many values are up to each bound and above the one before it, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...] = LATENCY) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """One more."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def value(self) -> Value:
        """As a sample."""
        return [*self.counts, self.total]


class Requests:
    """Those of one route, protocol, outcome and so on."""

    __slots__ = ("count", "first", "took")

    def __init__(self) -> None:
        self.count = 0
        self.first = Bins()
        self.took = Bins(WHOLE)


class Attempts:
    """Those of one target, role, outcome and source of usage."""

    __slots__ = ("cached", "count", "first", "headers", "input", "output", "reasoning", "sent", "written")

    def __init__(self) -> None:
        self.count = 0
        self.sent = Bins(SENDING)
        self.headers = Bins()
        self.first = Bins()
        self.input = self.cached = self.written = self.output = self.reasoning = 0

    def add(self, usage: Usage) -> None:
        """What one more has used."""
        self.input += usage.input_tokens or 0
        self.cached += usage.cached_input_tokens or 0
        self.written += usage.cache_write_tokens or 0
        self.output += usage.output_tokens or 0
        self.reasoning += usage.reasoning_tokens or 0

    def samples(self, target: str, role: str, outcome: str, source: str) -> Iterable[Sample]:
        """What is told of them; `source` is that of their usage, empty where there is none."""
        yield "hedgerow_attempts_total", (target, role, outcome), self.count
        yield "hedgerow_attempt_sent_seconds", (target,), self.sent.value
        yield "hedgerow_attempt_headers_seconds", (target,), self.headers.value
        yield "hedgerow_attempt_first_token_seconds", (target,), self.first.value
        if source:
            yield "hedgerow_tokens_total", (target, "input", source), self.input
            yield "hedgerow_tokens_total", (target, "cached_input", source), self.cached
            yield "hedgerow_tokens_total", (target, "cache_write", source), self.written
            yield "hedgerow_tokens_total", (target, "output", source), self.output
            yield "hedgerow_tokens_total", (target, "reasoning", source), self.reasoning


class Alone(Attempts):
    """Requests whose one attempt won, and those attempts: one place for both, as most requests are counted here."""

    __slots__ = ("nanousd", "took", "unpriced")

    def __init__(self) -> None:
        super().__init__()
        self.took = Bins(WHOLE)
        self.nanousd = 0
        self.unpriced = 0

    def tally(self, won: WonAlone) -> None:
        """One more. What `Bins.add` would do is done here: calls are what takes time."""
        started_at = won.started_at
        self.count += 1
        bins, took = self.first, won.first_token_at - started_at
        bins.counts[bisect_left(LATENCY, took)] += 1
        bins.total += took
        bins, took = self.took, won.ended_at - started_at
        bins.counts[bisect_left(WHOLE, took)] += 1
        bins.total += took
        if (at := won.sent_at) is not None:
            bins, took = self.sent, at - started_at
            bins.counts[bisect_left(SENDING, took)] += 1
            bins.total += took
        if (at := won.headers_at) is not None:
            bins, took = self.headers, at - started_at
            bins.counts[bisect_left(LATENCY, took)] += 1
            bins.total += took
        self.add(won.usage)
        if (nanousd := won.nanousd) is None:
            self.unpriced += 1
        else:
            self.nanousd += nanousd

    def of_requests(
        self, route: str, protocol: str, stream: str, target: str, status: str, arm: str
    ) -> Iterable[Sample]:
        """What is told of both."""
        yield from self.samples(target, "primary", "won", "reported")
        yield "hedgerow_requests_total", (route, protocol, "won", status), self.count
        yield "hedgerow_request_duration_seconds", (route, stream, "no", arm), self.took.value
        yield "hedgerow_first_token_seconds", (route, stream, "no", arm), self.first.value
        yield "hedgerow_unhedged_first_token_seconds", (route, stream), self.first.value
        if self.unpriced:
            yield "hedgerow_unpriced_attempts_total", (target,), self.unpriced
        if self.unpriced < self.count:
            yield "hedgerow_cost_dollars_total", (route, target, "primary", "exact"), self.nanousd
