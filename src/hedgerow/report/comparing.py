"""Both sides of a route beside each other: percentiles, with intervals for their difference and ratio, and costs."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, inf, isfinite
from zlib import crc32

import numpy as np

from hedgerow.report import statistics as stats
from hedgerow.report.gathering import Side
from hedgerow.report.result import Cost, Estimated, Percentile, Range
from hedgerow.report.statistics import Numbers

QUANTILES = (0.5, 0.9, 0.95, 0.99, 0.999)
MEANS = 30
"""With fewer requests on either side their means are not compared."""
UNPRICED = 0.01
"""Nor are costs, where there are more attempts without a price than this for each request: what lacks is not chance."""


class Dice:
    """Random numbers that depend on the seed and on what they are for, and on nothing that was drawn before."""

    def __init__(self, seed: int, route: str) -> None:
        self._seed = seed, crc32(route.encode())

    def of(self, what: str) -> np.random.Generator:
        """For one comparison."""
        return np.random.default_rng((*self._seed, crc32(what.encode())))


def percentiles(what: str, hedged: Side, holdout: Side | None, dice: Dice) -> Sequence[Percentile]:
    """Of `first_token` or `total`."""
    own: Numbers = getattr(hedged, what)
    other = None if holdout is None else getattr(holdout, what)
    # What the total would have been nobody models: how long an answer goes on once it has begun.
    modelled = hedged.unhedged if what == "first_token" and hedged.estimated else None
    return [_percentile(q, own, other, modelled, dice.of(f"{what} {q}")) for q in QUANTILES]


def _percentile(
    q: float, own: Numbers, other: Numbers | None, modelled: Numbers | None, rng: np.random.Generator
) -> Percentile:
    told = Percentile(
        percentile=_hundred(q),
        hedged=_quantile(own, q),
        holdout=None if other is None else _quantile(other, q),
        modelled=None if modelled is None else _quantile(modelled, q),
    )
    if other is None or told.hedged is None or not told.holdout:
        return told
    difference, change = told.hedged - told.holdout, told.hedged / told.holdout - 1.0
    if not (stats.knows(len(own), q) and stats.knows(len(other), q)):
        lacking = ceil(stats.TAIL / min(q, 1.0 - q) - 1e-6) - len(other)
        values = Estimated(difference), Estimated(change)
        return _with(told, *values, max(lacking, 0))
    with np.errstate(invalid="ignore", divide="ignore"):
        with_it, without = stats.resampled(own, q, rng), stats.resampled(other, q, rng)
        apart, ratio = stats.interval(with_it - without), stats.interval(with_it / without - 1.0)
    return _with(told, Estimated(difference, shown(apart)), Estimated(change, shown(ratio)), 0)


def _with(told: Percentile, difference: Estimated, change: Estimated, more: int) -> Percentile:
    return Percentile(
        percentile=told.percentile,
        hedged=told.hedged,
        holdout=told.holdout,
        modelled=told.modelled,
        difference=difference,
        change=change,
        more_holdout=more,
    )


def replicates(what: str, q: float, hedged: Side, holdout: Side, dice: Dice) -> Numbers:
    """Changes of a percentile in so many resamples, the very ones that its interval comes from."""
    rng = dice.of(f"{what} {q}")
    own, other = getattr(hedged, what), getattr(holdout, what)
    with np.errstate(invalid="ignore", divide="ignore"):
        with_it, without = stats.resampled(own, q, rng), stats.resampled(other, q, rng)
        found: Numbers = with_it / without - 1.0
    return found


def cost(hedged: Side, holdout: Side | None, dice: Dice) -> Cost:
    """What hedging has cost and saved."""
    extra = sum(hedged.by_certainty.values())
    rest = hedged.nanousd - extra
    saved = hedged.saved if hedged.estimated else None
    measured = {} if holdout is None else _measured(hedged, holdout, dice)
    return Cost(
        nanousd=hedged.nanousd,
        extra=dict(sorted(hedged.by_certainty.items())),
        extra_least=hedged.least,
        extra_most=None if hedged.unbounded else hedged.most,
        share=extra / rest if rest else None,
        unpriced_attempts=hedged.unpriced,
        seconds_saved=saved,
        per_second=extra / saved if saved and saved > 0.0 and hedged.nanousd else None,
        **measured,
    )


def _measured(hedged: Side, holdout: Side, dice: Dice) -> dict[str, Estimated]:
    """Per request: seconds to the first token saved, and what it costs more, whoever won; and the price of a second."""
    found: dict[str, Estimated] = {}
    rng = dice.of("means")
    times = [each[np.isfinite(each)] for each in (hedged.first_token, holdout.first_token)]
    saved = None
    if min(map(len, times)) >= MEANS:
        own, other = (stats.mean_of(each, rng) for each in times)
        gained = other - own
        saved = found["measured_seconds"] = _estimated(float(times[1].mean() - times[0].mean()), gained)
    if not _priced(hedged) or not _priced(holdout):
        return found
    costs = hedged.cost_nanousd, holdout.cost_nanousd
    own, other = (stats.mean_of(each, rng) for each in costs)
    more, before = float(costs[0].mean() - costs[1].mean()), float(costs[1].mean())
    found["measured_nanousd"] = _estimated(more, own - other)
    found["measured_change"] = _estimated(more / before, own / other - 1.0)
    if saved is not None and saved.interval is not None and (saved.interval.low or 0.0) > 0.0:
        # Where nothing is saved for certain a price would mean nothing.
        found["measured_per_second"] = _estimated(more / saved.value, (own - other) / gained)
    return found


def _priced(side: Side) -> bool:
    """Whether there are enough requests, and what they cost is known."""
    return side.requests >= MEANS and side.nanousd > 0 and side.unpriced <= UNPRICED * side.requests


def _estimated(value: float, replicates: Numbers) -> Estimated:
    return Estimated(value, shown(stats.interval(replicates)))


def shown(interval: stats.Interval) -> Range:
    """As it is told: without bound where there is none."""
    return Range(*(end if isfinite(end) else None for end in (interval.low, interval.high)))


def _quantile(ordered: Numbers, q: float) -> float | None:
    found = stats.quantile(ordered, q) if len(ordered) else inf
    return found if isfinite(found) else None


def _hundred(q: float) -> float:
    return round(q * 100.0, 6)
