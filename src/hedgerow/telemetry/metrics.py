"""Counts what happens, for Prometheus: a listener that adds whole numbers, as it runs in every request.

It knows nothing of how they are shown (`telemetry.exposition`) or shared (`telemetry.shared_metrics`).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AnswerRescued,
    AttemptEnded,
    Bill,
    BreakerChanged,
    BreakerState,
    CancelFailed,
    ControlsChanged,
    Event,
    HedgeSkipped,
    Outcome,
    RequestBilled,
    RequestFinished,
    RequestRepeated,
    Role,
    TargetTakenOut,
    UsageSource,
)
from hedgerow.telemetry.families import LAG, LATENCY, SENDING, WHOLE, Labels, Samples, Value, add
from hedgerow.telemetry.shared_metrics import SharedMetrics

_ANSWERS: Final = (Outcome.WON, Outcome.FAILED_AFTER_COMMIT)
_YES_NO: Final = ("no", "yes")


class Bins:
    """A histogram: how many values are up to each bound and above the one before it, and their sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """One more. What runs for every request does this itself: a call takes twice the time."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def value(self) -> Value:
        """As a sample."""
        return [*self.counts, self.total]


class _Requests:
    """Those of one route, protocol, outcome and so on."""

    __slots__ = ("count", "first", "took")

    def __init__(self) -> None:
        self.count = 0
        self.first = Bins(LATENCY)
        self.took = Bins(WHOLE)


class _Attempts:
    """Those of one target, role, outcome and source of usage."""

    __slots__ = ("cached", "count", "first", "headers", "input", "output", "reasoning", "sent", "written")

    def __init__(self) -> None:
        self.count = 0
        self.sent = Bins(SENDING)
        self.headers = Bins(LATENCY)
        self.first = Bins(LATENCY)
        self.input = self.cached = self.written = self.output = self.reasoning = 0


class Sink(Protocol):
    """What writes down what happens: records that wait, and that were ever written and lost."""

    @property
    def queued(self) -> int: ...
    @property
    def written(self) -> int: ...
    @property
    def lost(self) -> int: ...


class Metrics:
    """A listener. Times are seconds, money whole nano-dollars.

    `epoch` is the Unix time when the loop's clock showed 0; `sinks` are there to be shown.
    """

    def __init__(
        self, epoch: float = 0.0, shared: SharedMetrics | None = None, sinks: Mapping[str, Sink] | None = None
    ) -> None:
        self.epoch = epoch
        self._sinks = sinks or {}
        self.shared = shared
        """Where other processes' numbers are; None where this one is alone."""
        self.asked: Callable[[], Samples] = dict
        """What holds now, to be told with what was counted."""
        self.taken = 0
        """How often `samples` was called."""
        self._requests: dict[tuple[Any, ...], _Requests] = {}
        self._attempts: dict[tuple[str, Role, Outcome, UsageSource | None], _Attempts] = {}
        self._costs: dict[Labels, int] = {}
        self._unhedged: dict[tuple[str, bool], Bins] = {}
        self._counts: dict[tuple[str, Labels], float] = {}  # the rest, by family and labels
        self._cancel_fails: dict[str, bool] = {}
        self.lag = Bins(LAG)
        """How late timers were."""
        self.ears: dict[type[Event], Callable[[Any], None]] = {
            AttemptEnded: self._ended,
            RequestFinished: self._finished,
            RequestBilled: self._billed,
            HedgeSkipped: lambda one: self._count("hedges_suppressed", one.route, one.role, one.reason),
            AnswerRejected: lambda one: self._count("answers_rejected", one.route, one.target, one.gate),
            AnswerNotJudged: lambda one: self._count("answers_not_judged", one.route),
            AnswerRescued: lambda one: self._count("answers_rescued", one.route),
            RequestRepeated: lambda one: self._count("requests_repeated", one.route),
            TargetTakenOut: lambda one: self._count("target_taken_out", one.target, one.kind),
            BreakerChanged: self._breaker,
            CancelFailed: self._cancel_failed,
            ControlsChanged: lambda one: self._count("controls_changed", more=len(one.changes)),
        }
        self.kinds = tuple(self.ears)

    def __call__(self, event: Event) -> None:
        self.ears[type(event)](event)

    def _count(self, name: str, *labels: str, more: float = 1) -> None:
        key = f"hedgerow_{name}_total", labels
        self._counts[key] = self._counts.get(key, 0) + more

    def _ended(self, event: AttemptEnded) -> None:
        usage, launched_at = event.usage, event.launched_at
        key = event.target, event.role, event.outcome, None if usage is None else usage.source
        cell = self._attempts.get(key)
        if cell is None:
            cell = self._attempts[key] = _Attempts()
        cell.count += 1
        if (at := event.sent_at) is not None:
            bins, took = cell.sent, at - launched_at
            bins.counts[bisect_left(SENDING, took)] += 1
            bins.total += took
        if (at := event.headers_at) is not None:
            bins, took = cell.headers, at - launched_at
            bins.counts[bisect_left(LATENCY, took)] += 1
            bins.total += took
        if (at := event.first_token_at) is not None:
            bins, took = cell.first, at - launched_at
            bins.counts[bisect_left(LATENCY, took)] += 1
            bins.total += took
        if usage is not None:
            cell.input += usage.input_tokens or 0
            cell.output += usage.output_tokens or 0
            cell.cached += usage.cached_input_tokens or 0
            cell.written += usage.cache_write_tokens or 0
            cell.reasoning += usage.reasoning_tokens or 0
        if event.failure is not None:
            self._count("attempt_failures", event.target, event.failure.kind)

    def _finished(self, event: RequestFinished) -> None:
        started_at, status, hedges = event.started_at, event.status, event.hedges
        hundreds = 0 if status is None else status // 100
        key = event.route, event.protocol, event.stream, event.outcome, hundreds, event.arm, hedges != ()
        cell = self._requests.get(key)
        if cell is None:
            cell = self._requests[key] = _Requests()
        cell.count += 1
        bins, took = cell.took, event.ended_at - started_at
        bins.counts[bisect_left(WHOLE, took)] += 1
        bins.total += took
        if (at := event.first_token_at) is not None:
            bins, took = cell.first, at - started_at
            bins.counts[bisect_left(LATENCY, took)] += 1
            bins.total += took
        if event.unhedged_at is not None:
            self._compare(event, event.unhedged_at)
        if hedges:
            self._count("hedged_requests", event.route)
            self._count("hedges_launched", event.route, more=len(hedges))
            self._count("hedges_won", event.route, more=int(event.winner in hedges))

    def _compare(self, event: RequestFinished, unhedged_at: float) -> None:
        key = event.route, event.stream
        bins = self._unhedged.get(key)
        if bins is None:
            bins = self._unhedged[key] = Bins(LATENCY)
        bins.add(unhedged_at - event.started_at)
        if event.first_token_at is not None and unhedged_at > event.first_token_at:
            self._count("saved_seconds", event.route, more=unhedged_at - event.first_token_at)

    def _billed(self, event: RequestBilled) -> None:
        bills, costs = event.bills, self._costs
        for bill in bills:
            if (nanousd := bill.nanousd) is None:
                self._count("unpriced_attempts", bill.target)
            else:
                key = event.route, bill.target, bill.role, bill.certainty
                costs[key] = costs.get(key, 0) + nanousd
        if len(bills) > 1:
            answer = _answer(bills)
            for bill in bills:
                if bill is not answer and bill.nanousd is not None:
                    self._count("extra_cost_dollars", event.route, bill.target, bill.outcome, more=bill.nanousd)

    def _breaker(self, event: BreakerChanged) -> None:
        if event.state is BreakerState.OPEN:
            self._count("breaker_opened", event.target)

    def _cancel_failed(self, event: CancelFailed) -> None:
        self._cancel_fails[event.target] = event.fails
        if event.fails:
            self._count("target_cancel_failures", event.target)

    def samples(self) -> Samples:
        """All that was counted, and what holds now."""
        self.taken += 1
        samples = self.asked()
        for name, labels, value in self._all():
            add(samples.setdefault(name, {}), labels, value)
        return samples

    def _all(self) -> Iterable[tuple[str, Labels, Value]]:
        for (route, protocol, stream, outcome, hundreds, arm, hedged), those in self._requests.items():
            status = f"{hundreds}xx" if hundreds else "none"
            yield "hedgerow_requests_total", (route, protocol, str(outcome), status), those.count
            sides = route, _YES_NO[stream], _YES_NO[hedged], str(arm or "none")
            yield "hedgerow_request_duration_seconds", sides, those.took.value
            yield "hedgerow_first_token_seconds", sides, those.first.value
        for (route, stream), bins in self._unhedged.items():
            yield "hedgerow_unhedged_first_token_seconds", (route, _YES_NO[stream]), bins.value
        for (target, role, outcome, source), cell in self._attempts.items():
            yield "hedgerow_attempts_total", (target, str(role), str(outcome)), cell.count
            yield "hedgerow_attempt_sent_seconds", (target,), cell.sent.value
            yield "hedgerow_attempt_headers_seconds", (target,), cell.headers.value
            yield "hedgerow_attempt_first_token_seconds", (target,), cell.first.value
            if source is not None:
                for kind, count in _by_kind(cell):
                    yield "hedgerow_tokens_total", (target, kind, str(source)), count
        for labels, nanousd in self._costs.items():
            yield "hedgerow_cost_dollars_total", tuple(map(str, labels)), nanousd
        for (name, labels), sum_of in self._counts.items():
            yield name, tuple(map(str, labels)), sum_of
        for target, fails in self._cancel_fails.items():
            yield "hedgerow_target_cancel_fails", (target,), int(fails)
        for name, sink in self._sinks.items():
            yield "hedgerow_events_queued", (name,), sink.queued
            yield "hedgerow_events_written_total", (name,), sink.written
            yield "hedgerow_events_lost_total", (name,), sink.lost
        yield "hedgerow_loop_lag_seconds", (), self.lag.value


def _by_kind(cell: _Attempts) -> Iterable[tuple[str, int]]:
    yield "input", cell.input
    yield "cached_input", cell.cached
    yield "cache_write", cell.written
    yield "output", cell.output
    yield "reasoning", cell.reasoning


def _answer(bills: tuple[Bill, ...]) -> Bill:
    """What the client was given; without such a thing the first attempt, which would have cost the same alone."""
    return next((bill for bill in bills if bill.outcome in _ANSWERS), bills[0])
