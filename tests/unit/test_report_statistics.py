"""The report's statistics: intervals that hold what they are to hold as often as they say."""

from __future__ import annotations

from math import comb, inf, nan
from statistics import NormalDist

import numpy as np
import pytest

from hedgerow.report import statistics as stats
from hedgerow.report.statistics import Interval


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(("n", "q", "expected"), [(1, 0.99, 1), (100, 0.99, 99), (101, 0.99, 100), (10, 0.5, 5)])
def test_a_quantile_is_the_shortest_value_that_the_share_does_not_exceed(n: int, q: float, expected: int) -> None:
    assert stats.rank(n, q) == expected
    assert stats.quantile(np.arange(1.0, n + 1.0), q) == expected


def test_resampling_is_what_drawing_all_values_anew_would_be() -> None:
    """A resample's quantile is at most the j-th value where k or more of n draws are among the first j."""
    n, q = 12, 0.75
    k, draws = (
        stats.rank(n, q),
        np.concatenate([stats.resampled(np.arange(n, dtype=np.float64), q, rng(i)) for i in range(20)]),
    )
    for j in range(n):
        p = (j + 1) / n
        exact = sum(comb(n, m) * p**m * (1 - p) ** (n - m) for m in range(k, n + 1))
        assert (draws <= j).mean() == pytest.approx(exact, abs=0.006)  # 4.5 standard errors of 80,000 draws


def test_a_failure_is_slower_than_any_answer() -> None:
    values = np.array([*range(98), inf, inf], float)
    assert stats.quantile(values, 0.98) == 97.0
    assert stats.quantile(values, 0.99) == inf
    apart = stats.resampled(values, 0.98, rng()) - 1.0
    assert stats.interval(apart).high == inf


def test_what_is_no_number_may_be_anything() -> None:
    replicates = np.array([nan] * 4 + [1.0] * 96)
    assert stats.interval(replicates) == Interval(-inf, inf)
    assert stats.interval(np.array([nan] * 2 + [1.0] * 98)) == Interval(1.0, 1.0)


@pytest.mark.parametrize(("n", "q", "enough"), [(999, 0.99, False), (1000, 0.99, True), (10_000, 0.999, True)])
def test_an_interval_takes_ten_values_beyond_it(n: int, q: float, enough: bool) -> None:
    assert stats.knows(n, q) is enough


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_the_interval_of_a_difference_holds_it_nearly_as_often_as_it_says(q: float) -> None:
    """One side of a thousand, heavy-tailed, where p99 has just the ten values beyond it that are asked for."""
    random, held, runs = rng(7), 0, 600
    true = float(np.exp(NormalDist().inv_cdf(q))) / float(np.exp(0.8 * NormalDist().inv_cdf(q)))
    for _ in range(runs):
        own = np.sort(random.lognormal(0.0, 0.8, 9_000))
        other = np.sort(random.lognormal(0.0, 1.0, 1_000))
        ratio = stats.resampled(other, q, random) / stats.resampled(own, q, random)
        held += stats.interval(ratio).holds(true)
    assert 0.92 <= held / runs <= 0.98  # of 0.95, three standard errors of 0.009


def test_means_are_resampled_around_theirs() -> None:
    values = rng().exponential(2.0, 5_000)
    found = stats.interval(stats.mean_of(values, rng()))
    error = float(values.std(ddof=1)) / 5_000**0.5
    assert found.low == pytest.approx(values.mean() - stats.Z * error, abs=0.2 * error)
    assert found.high == pytest.approx(values.mean() + stats.Z * error, abs=0.2 * error)


def test_chi_square_of_one_degree() -> None:
    assert stats.mismatch((950, 50), 0.05) == pytest.approx(1.0)
    # chi2 = 20²/950 + 20²/50 = 8.421; P(chi2(1) > 8.421) = 0.00371
    assert stats.mismatch((930, 70), 0.05) == pytest.approx(0.00371, abs=1e-5)
    assert stats.mismatch((10, 1), 0.0) == 0.0
    assert stats.mismatch((10, 0), 0.0) == 1.0


def test_wilsons_interval() -> None:
    # Newcombe (1998), table I: 81/263 and 15/148 and 0/20, by Wilson's score method
    assert tuple(round(end, 4) for end in astuple(stats.wilson(81, 263))) == (0.2553, 0.3662)
    assert tuple(round(end, 4) for end in astuple(stats.wilson(15, 148))) == (0.0624, 0.1605)
    assert tuple(round(end, 4) for end in astuple(stats.wilson(0, 20))) == (0.0, 0.1611)
    assert stats.wilson(0, 0) == Interval(0.0, 1.0)


def astuple(interval: Interval) -> tuple[float, float]:
    return interval.low, interval.high
