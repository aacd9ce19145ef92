"""What a demo run found, as a record: printed as a table or, with `--json`, as it is."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hedgerow.demo.formula import percentile
from hedgerow.demo.reply import Answer


class Spread(msgspec.Struct, frozen=True):
    """Nearest-rank percentiles of the first token, in simulated seconds."""

    p50: float
    p90: float
    p95: float
    p99: float
    max: float


class Check(msgspec.Struct, frozen=True):
    """A measured p99 beside the one the closed formula gives for the same recorded times, in simulated seconds.

    `low` and `high` hold the 95 % interval in which the p99 of that many requests falls by chance alone.
    """

    measured: float
    formula: float
    low: float
    high: float
    inside: bool


class Formula(msgspec.Struct, frozen=True):
    """The closed formula against both phases, and the share of hedges it foretells."""

    samples: int
    hedged_fraction: float
    without: Check
    hedged: Check


class CancelLatency(msgspec.Struct, frozen=True):
    """From the winner's first token to the loser's closed connection, both seen by the labs; real seconds."""

    losers: int
    p50: float
    max: float


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One run of the demo. Simulated seconds unless a name says otherwise."""

    source: str
    requests: int
    rate: float
    seed: int
    speed: float
    delay: float
    without: Spread
    hedged: Spread
    hedges: int
    extra_fraction: float
    tokens_delivered: int
    tokens_wasted: int
    cancel: CancelLatency | None
    held_back: int
    real_seconds: float
    reproduce: str
    formula: Formula | None = None
    problems: list[str] = []

    @property
    def ok(self) -> bool:
        return not self.problems


def spread(answers: Sequence[Answer], *, speed: float) -> Spread:
    """Percentiles over the whole answers of one phase, scaled back to simulated seconds."""
    ordered = sorted(one.first_token * speed for one in answers if one.problem is None) or [float("inf")]
    p50, p90, p95, p99 = (percentile(ordered, q) for q in (0.5, 0.9, 0.95, 0.99))
    return Spread(p50=p50, p90=p90, p95=p95, p99=p99, max=ordered[-1])
