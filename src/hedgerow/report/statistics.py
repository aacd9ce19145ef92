"""The few statistics of the report, each as plain as it can be. docs/experiment.md says why these, with sources.

Times may be `inf`: of a request that never had what is measured. So a failure is slower than any answer.
"""

from __future__ import annotations

from math import ceil, erf, inf, sqrt
from statistics import NormalDist

import msgspec
import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

LEVEL = 0.95
"""How often intervals hold what they are to hold."""
REPLICATES = 4_000
"""How often is resampled: the ends of an interval are then off by about a fiftieth of its length."""
TAIL = 10
"""A quantile has an interval only where so many values are expected beyond it. With fewer the longest value seen is
too often no bound, and no resampling can know of a longer one."""
Z = NormalDist().inv_cdf(0.5 + LEVEL / 2.0)
POWER = NormalDist().inv_cdf(0.8)
"""To find an effect in four of five experiments, it must be so many standard errors further than `Z`."""


class Interval(msgspec.Struct, frozen=True):
    """From `low` to `high`; either may be infinite."""

    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether it holds the value."""
        return self.low <= value <= self.high


def rank(n: int, q: float) -> int:
    """Which of `n` values in order, from 1, is their quantile: the shortest that the share `q` does not exceed."""
    return min(max(ceil(q * n - 1e-9), 1), n)


def quantile(ordered: Numbers, q: float) -> float:
    """Of at least one value."""
    return float(ordered[rank(len(ordered), q) - 1])


def knows(n: int, q: float) -> bool:
    """Whether `n` values are enough for an interval of this quantile."""
    return n * (1.0 - q) >= TAIL - 1e-9 and n * q >= TAIL - 1e-9


def resampled(ordered: Numbers, q: float, rng: np.random.Generator) -> Numbers:
    """The quantile of so many resamples with replacement, without drawing them.

    A resample's k-th of n values is the value at the k-th of n uniform draws, and that has a beta distribution.
    """
    n = len(ordered)
    k = rank(n, q)
    places = np.floor(rng.beta(k, n - k + 1, REPLICATES) * n).astype(np.int64)
    found: Numbers = ordered[np.minimum(places, n - 1)]
    return found


def interval(replicates: Numbers) -> Interval:
    """What the middle `LEVEL` of the replicates spans; those that are not numbers (inf - inf) may be anything."""
    unknown = np.isnan(replicates)
    low, high = (np.sort(np.where(unknown, end, replicates)) for end in (-inf, inf))
    out = (1.0 - LEVEL) / 2.0
    return Interval(quantile(low, out), quantile(high, 1.0 - out))


def mean_of(values: Numbers, rng: np.random.Generator) -> Numbers:
    """Means of resamples of at least two finite values: normal around theirs, as means of so many are."""
    return rng.normal(float(values.mean()), float(values.std(ddof=1)) / sqrt(len(values)), REPLICATES)


def mismatch(counts: tuple[int, int], share: float) -> float:
    """How likely counts so far from `share` (of the second) are by chance: chi-square with one degree of freedom."""
    total = sum(counts)
    expected = total * (1.0 - share), total * share
    if not all(expected):
        return 1.0 if counts[1] == expected[1] else 0.0
    chi2 = sum((count - each) ** 2 / each for count, each in zip(counts, expected, strict=True))
    return 1.0 - erf(sqrt(chi2 / 2.0))


def wilson(count: int, of: int) -> Interval:
    """Of a share, where `count` of so many were counted (Wilson's score interval)."""
    if of == 0:
        return Interval(0.0, 1.0)
    p, z2 = count / of, Z * Z / of
    middle, half = p + z2 / 2.0, Z * sqrt(p * (1.0 - p) / of + z2 / (4.0 * of))
    return Interval(max((middle - half) / (1.0 + z2), 0.0), min((middle + half) / (1.0 + z2), 1.0))
