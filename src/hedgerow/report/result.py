"""What the report says, as data: `hedgerow report --format json` prints it as it is. docs/experiment.md explains it.

Times are seconds or Unix seconds, money nano-dollars, shares in [0, 1]. None is null: not known, or without bound.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

SCHEMA = 1
"""Raised when a field changes its meaning or goes; new ones may come any time."""


class Range(msgspec.Struct, frozen=True):
    """A 95 % confidence interval; None where it has no bound."""

    low: float | None
    high: float | None


class Estimated(msgspec.Struct, frozen=True):
    """A value with its interval; without one where the data are too few for it."""

    value: float
    interval: Range | None = None


class Percentile(msgspec.Struct, frozen=True, kw_only=True):
    """One percentile on both sides. `percentile` is 99 for p99.

    `modelled`: that of what the hedged would have taken, by the latency model. `difference`: hedged less held out,
    in seconds; `change`: as a share of those held out. `more_holdout`: how many more of them an interval takes.
    """

    percentile: float
    hedged: float | None
    holdout: float | None = None
    modelled: float | None = None
    difference: Estimated | None = None
    change: Estimated | None = None
    more_holdout: int = 0


class Arm(msgspec.Struct, frozen=True, kw_only=True):
    """One side: how many requests, and what became of those without an answer."""

    requests: int
    failed: int
    failed_share: Estimated
    refused: int
    left: int
    hedges: int
    hedge_wins: int
    failovers: int
    skipped: Mapping[str, int]


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Of the hedged side. `extra`: what hedging added, by certainty (`added_by_hedging`). `share`: extra, to the rest.

    `seconds_saved` and `per_second` come from the latency model; the `measured` ones compare the sides, by request:
    `measured_nanousd` is what a hedged one costs more than one held out, dearer winners included, and
    `measured_change` is that as a share.
    """

    nanousd: int
    extra: Mapping[str, int]
    extra_least: int
    extra_most: int | None
    share: float | None
    unpriced_attempts: int
    seconds_saved: float | None
    per_second: float | None
    measured_seconds: Estimated | None = None
    measured_nanousd: Estimated | None = None
    measured_change: Estimated | None = None
    measured_per_second: Estimated | None = None


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What one target did on the route; percentiles are those of the attempts that had a first token."""

    name: str
    attempts: Mapping[str, int]
    outcomes: Mapping[str, int]
    hedges_won: int
    first_token_p50: float | None
    first_token_p99: float | None
    nanousd: int
    nanousd_lost: int


class Moment(msgspec.Struct, frozen=True):
    """The hedged side from `at` on, until the next. `win_rate` None: no hedges."""

    at: float
    requests: int
    hedge_rate: float
    win_rate: float | None


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """What it comes to. `more_requests`: of the route, until it can be told, if things stay as they are."""

    word: Literal["pays", "does_not_pay", "not_enough_data", "no_verdict"]
    text: str
    more_requests: int | None = None


class Advice(msgspec.Struct, frozen=True):
    """Something to look at; `name` is stable."""

    name: str
    text: str


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One route. `holdout_share`: as configured, None where no configuration was given."""

    name: str
    verdict: Verdict
    advice: Sequence[Advice]
    since: float
    until: float
    holdout_share: float | None
    mismatch: float | None
    hedged: Arm
    holdout: Arm | None
    not_taking_part: int
    first_token: Sequence[Percentile]
    total: Sequence[Percentile]
    hedge_rate: float
    win_rate: float | None
    cost: Cost
    targets: Sequence[Target]
    timeline: Sequence[Moment]


class Pooled(msgspec.Struct, frozen=True, kw_only=True):
    """All routes that run an experiment: the mean of their changes, each counting by its requests."""

    routes: Sequence[str]
    first_token: Mapping[str, Estimated]
    total: Mapping[str, Estimated]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Everything."""

    schema: int
    hedgerow: str
    seed: int
    level: float
    since: float | None
    until: float | None
    routes: Sequence[Route]
    pooled: Pooled | None
