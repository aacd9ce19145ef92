"""Counts what happens, for Prometheus: a listener that adds whole numbers, as it runs in every request.

It knows nothing of how they are shown (`telemetry.exposition`) or shared (`telemetry.shared_metrics`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from hedgerow.cost import added_by_hedging
from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AnswerRescued,
    AttemptEnded,
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
    WonAlone,
)
from hedgerow.telemetry.families import LAG, OVERHEAD, Labels, Samples, add
from hedgerow.telemetry.metrics_cells import YES_NO, Alone, Attempts, Bins, Requests, Sample
from hedgerow.telemetry.shared_metrics import SharedMetrics


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
        self._requests: defaultdict[tuple[Any, ...], Requests] = defaultdict(Requests)
        self._attempts: defaultdict[tuple[str, Role, Outcome, UsageSource | None], Attempts] = defaultdict(Attempts)
        self._alone: dict[tuple[Any, ...], Alone] = {}
        self._costs: defaultdict[Labels, int] = defaultdict(int)
        self._unhedged: defaultdict[tuple[str, bool], Bins] = defaultdict(Bins)
        self._counts: defaultdict[tuple[str, Labels], float] = defaultdict(int)  # the rest, by family and labels
        self._cancel_fails: dict[str, bool] = {}
        self.lag = Bins(LAG)
        """How late timers were."""
        self.overhead = Bins(OVERHEAD)
        """How long requests were worked on until their first attempt was under way."""
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
        self._counts[f"hedgerow_{name}_total", labels] += more

    def tally(self, won: WonAlone) -> None:
        """Count what its three events would; most requests come here."""
        key = won.route, won.protocol, won.stream, won.target, won.status, won.arm
        cell = self._alone.get(key)
        if cell is None:
            cell = self._alone[key] = Alone()
        cell.tally(won)

    def _ended(self, event: AttemptEnded) -> None:
        usage, launched_at = event.usage, event.launched_at
        attempts = self._attempts[event.target, event.role, event.outcome, None if usage is None else usage.source]
        attempts.count += 1
        for bins, at in (
            (attempts.sent, event.sent_at),
            (attempts.headers, event.headers_at),
            (attempts.first, event.first_token_at),
        ):
            if at is not None:
                bins.add(at - launched_at)
        if usage is not None:
            attempts.add(usage)
        if event.failure is not None:
            self._count("attempt_failures", event.target, event.failure.kind)

    def _finished(self, event: RequestFinished) -> None:
        route, hedges, started_at = event.route, event.hedges, event.started_at
        hundreds = 0 if event.status is None else event.status // 100
        hedged = hedges != ()
        requests = self._requests[route, event.protocol, event.stream, event.outcome, hundreds, event.arm, hedged]
        requests.count += 1
        requests.took.add(event.ended_at - started_at)
        if event.first_token_at is not None:
            requests.first.add(event.first_token_at - started_at)
        if event.unhedged_at is not None:
            self._unhedged[route, event.stream].add(event.unhedged_at - started_at)
            if event.first_token_at is not None and event.unhedged_at > event.first_token_at:
                self._count("saved_seconds", route, more=event.unhedged_at - event.first_token_at)
        if hedged:
            self._count("hedged_requests", route)
            self._count("hedges_launched", route, more=len(hedges))
            self._count("hedges_won", route, more=int(event.winner in hedges))

    def _billed(self, event: RequestBilled) -> None:
        for bill in event.bills:
            if bill.nanousd is None:
                if bill.least is None:  # else nobody counts its tokens: it is only handed through
                    self._count("unpriced_attempts", bill.target)
            else:
                self._costs[event.route, bill.target, bill.role, bill.certainty] += bill.nanousd
        for bill in added_by_hedging(event.bills):
            if bill.nanousd is not None:
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

    def _all(self) -> Iterable[Sample]:
        for (route, protocol, stream, target, status, arm), alone in self._alone.items():
            yield from alone.of_requests(
                route, protocol, YES_NO[stream], target, f"{status // 100}xx", str(arm or "none")
            )
        for (route, protocol, stream, outcome, hundreds, arm, hedged), those in self._requests.items():
            status = f"{hundreds}xx" if hundreds else "none"
            yield "hedgerow_requests_total", (route, protocol, str(outcome), status), those.count
            sides = route, YES_NO[stream], YES_NO[hedged], str(arm or "none")
            yield "hedgerow_request_duration_seconds", sides, those.took.value
            yield "hedgerow_first_token_seconds", sides, those.first.value
        for (route, stream), bins in self._unhedged.items():
            yield "hedgerow_unhedged_first_token_seconds", (route, YES_NO[stream]), bins.value
        for (target, role, outcome, source), cell in self._attempts.items():
            yield from cell.samples(target, str(role), str(outcome), str(source or ""))
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
        yield "hedgerow_overhead_seconds", (), self.overhead.value
