"""The interval of a quantile holds the truth as often as it says, also where slow requests come together."""

from __future__ import annotations

from math import exp, inf, sqrt
from statistics import NormalDist

import numpy as np
import pytest

from hedgerow.planner.log import Floats
from hedgerow.planner.quantiles import Quantile, errors, quantile
from hedgerow.planner.trial import Flown, outcome_of

RUNS = 400


def alike(count: int, correlation: float, seed: int) -> Floats:
    """Lognormal latencies, many logs of them: a logarithm has so much to do with the one before (AR(1))."""
    noise = np.random.default_rng(seed).standard_normal((count, RUNS))
    for at in range(1, count):
        noise[at] = correlation * noise[at - 1] + sqrt(1.0 - correlation**2) * noise[at]
    return np.exp(noise.T)


def covered(found: list[Quantile], truth: float) -> float:
    return sum(each.low <= truth <= each.high for each in found) / len(found)


@pytest.mark.parametrize("p", [0.5, 0.95, 0.99])
@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_nineteen_of_twenty_intervals_hold_the_truth(correlation: float, p: float) -> None:
    logs = alike(4_000, correlation, 6)
    found = [quantile(each, p) for each in logs]
    share = covered(found, exp(NormalDist().inv_cdf(p)))
    assert (0.88 if correlation else 0.93) <= share <= 0.99


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_a_log_gone_through_three_times_says_no_more_than_once(correlation: float) -> None:
    outcomes = [outcome_of([_flown(each)] * 3, 0.95) for each in alike(4_000, correlation, 6)]
    drawn = [next(each for each in one.quantiles if each.p == 0.95) for one in outcomes]
    assert 0.9 <= covered(drawn, exp(NormalDist().inv_cdf(0.95))) <= 0.98


def _flown(took: Floats) -> Flown:
    none = np.zeros(len(took), dtype=np.int64)
    return Flown(took, none, none, none, ())


def test_independent_logs_keep_their_intervals() -> None:
    found = [errors((each > 5.0).astype(np.float64), float((each <= 5.0).mean())) for each in alike(4_000, 0.0, 7)]
    assert found.count(1.96) >= 0.95 * RUNS


def test_what_is_worth_a_thirtieth_of_its_length_is_taken_as_that() -> None:
    """Thirty stretches, in each of which all are slow or none is: as sure as of thirty requests."""
    slow = np.repeat(np.arange(30) % 3 == 0, 100).astype(np.float64)
    of_thirty = 2.045 * sqrt(100 * 30 / 29)  # a variance of thirty values has 29 degrees of freedom
    assert errors(slow, 2 / 3) == pytest.approx(of_thirty)
    assert errors(slow[:59], 0.95) == 1.96  # blocks of one are none


def test_failures_have_no_part_in_it_and_nothing_has_no_quantile() -> None:
    took = np.arange(1.0, 101.0)
    gone = np.insert(took, 50, [np.nan] * 10)
    whole, holed = (outcome_of([_flown(each)], 0.99) for each in (took, gone))
    assert whole.quantiles == holed.quantiles
    assert holed.failed == pytest.approx(10 / 110)
    nothing = quantile(took[:0], 0.5)
    assert np.isnan([nothing.value, nothing.low, nothing.high]).all()
    assert quantile(took[:2], 0.99).high == inf
