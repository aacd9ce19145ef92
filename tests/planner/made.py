"""A plan made by hand, for those who show plans: two routes, one of which is not to be hedged."""

from __future__ import annotations

from math import exp, inf, nan

import numpy as np

from hedgerow.planner.plan import (
    Budget,
    Cell,
    Choice,
    Finding,
    Option,
    Outcome,
    Plan,
    Route,
    Source,
    Span,
)
from hedgerow.planner.quantiles import Quantile
from hedgerow.planner.statistics import Outage, Pairing, SizeStatistics, TargetStatistics

SOURCE = Source(
    files=("day.csv", "night.csv"),
    format="CSV",
    columns=(("at", "started_at", "a date"), ("ttft", "ttft_ms", "milliseconds"), ("target", "provider", "")),
    read=5_010,
    used=5_000,
    bad=(("a negative latency", 7), ("no latency, or none that is a number", 3)),
    notes=("times without a zone are taken to be UTC",),
    started_at=1_780_000_000.0,
    seconds=10_800.0,
    of_first_token=True,
)
SIZES = ((0, 1.5, 0.2), (1024, 2.0, 1.0), (8192, 3.5, 1.0))


def quantiles(scale: float) -> tuple[Quantile, ...]:
    return tuple(
        Quantile(p, scale * each, scale * each * 0.9, scale * each * 1.1 if p < 0.99 else inf)
        for p, each in ((0.5, 0.8), (0.9, 1.9), (0.95, 3.0), (0.99, 8.0))
    )


def outcome(scale: float, extra: float = 0.0, usd: float | None = None) -> Outcome:
    tail = 1.0 - extra * 4
    found = tuple(
        Quantile(each.p, each.value * (tail if each.p > 0.9 else 1.0), each.low * tail, each.high)
        for each in quantiles(scale)
    )
    return Outcome(
        requests=1_600, failed=0.01, quantiles=found, of_all=inf, extra=extra, failovers=0.02, usd_per_1000=usd
    )


def option(budget: Budget, share: float, delay: str, backup: str = "azure", **changes: object) -> Option:
    choice = Choice(
        primary="openai",
        backup=backup,
        relation="same target" if backup == "openai" else "other target",
        delay=delay,
        by_size=SIZES if delay == "auto" else (),
        config=(("hedge.delay", delay), ("hedge.budget", f"{share * 100:g}%"), ("timeouts.first_token", "2m")),
    )
    found = {
        "budget": budget,
        "choice": choice,
        "fitted": outcome(1.0, share, share * 9),
        "expected": outcome(1.05, share * 0.98, share * 10),
        "independent": outcome(0.9, share),
        "oracle_p99": 3.1 - share,
        "stale_p99": 7.9 - share * 4,
        "pays": share > 0.03,
        "why": "p99 8.4 s becomes 7.74 s, which is within its noise.",
    }
    return Option(**{**found, **changes})  # type: ignore[arg-type]


def statistics(target: str, scale: float, outages: tuple[Outage, ...] = ()) -> TargetStatistics:
    return TargetStatistics(
        target=target,
        n=3_960,
        failed=40,
        quantiles=quantiles(scale),
        by_size=tuple(
            SizeStatistics(least=least, n=n, failed=n // 100, quantiles=quantiles(scale * slower))
            for least, n, slower in ((0, 2_000, 0.5), (1024, 1_500, 0.9), (8192, 460, 1.6))
        ),
        explained=0.31,
        size_correlation=0.44,
        autocorrelation=0.12,
        clustering=2.4,
        outages=outages,
    )


def curve(scale: float) -> tuple[tuple[float, float], ...]:
    shares = np.geomspace(1.0, 0.0005, 120)[1:]
    return tuple((scale * exp(-0.6 * float(np.log(share))), float(share)) for share in shares)


def span(index: int) -> Span:
    failed = 30 if 20 <= index < 24 else 0
    before = 8.0 + (index % 7) if not failed else nan
    return Span(
        start=index * 180.0,
        seconds=180.0,
        requests=66,
        hedges=index % 5,
        failed=failed,
        p99_before=before,
        p99_after=6.0 + (index % 3),
    )


def route() -> Route:
    shares = (0.02, 0.05, 0.1, 0.2)
    delays = ("3.2s", "auto", "p90", "auto")
    return Route(
        primary="openai",
        requests=4_000,
        fitted_on=2_000,
        judged_on=2_000,
        without=outcome(1.05),
        options=(
            *(option(Budget(share=share), share, delay) for share, delay in zip(shares, delays, strict=True)),
            option(Budget(usd_per_1000=0.4), 0.04, "2.5s", "openai", oracle_p99=inf, stale_p99=None),
        ),
        recommended=1,
        verdict="Hedge: within 5 % of requests the p99 falls from 8.4 s to 6.75 s.",
        heat=tuple(
            Cell(delay, budget, 8.0 - budget * 20 + abs(delay - 2.0), budget * 0.9)
            for delay in (0.5, 1.0, 1.5, 2.0, 3.0, 5.0)
            for budget in (0.02, 0.05, 0.1, 0.2)
        ),
        timeline=tuple(span(index) for index in range(60)),
        curves=(("openai", curve(0.3)), ("azure", curve(0.4)), ("hedged", curve(0.2))),
    )


def plan() -> Plan:
    """Two routes."""
    findings = (
        Finding("slow_because_long", "note", "openai", "Prompt size explains 31 % of the variance of openai."),
        Finding("correlated", "warning", None, "openai and azure are slow together: a rank correlation of 0.41."),
        Finding("few_samples", "stop", "azure", "azure has 38 requests: <b>too few</b> to say anything of p99."),
    )
    quiet = Route(
        primary="azure",
        requests=38,
        fitted_on=19,
        judged_on=19,
        without=outcome(1.2),
        options=(),
        recommended=None,
        verdict="Do not hedge azure: 38 requests say nothing of its p99.",
        heat=(),
        timeline=(),
        curves=(),
    )
    return Plan(
        version="0.1.0",
        seed=7,
        target_quantile=0.99,
        source=SOURCE,
        targets=(statistics("openai", 1.0, (Outage(3_700.0, 4_300.0, 120, 130),)), statistics("azure", 1.3)),
        pairings=(Pairing("openai", "azure", 1_200, 0.41),),
        findings=findings,
        routes=(route(), quiet),
    )
