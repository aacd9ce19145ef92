"""Distributions: equal to Kaplan and Meier's product, worked out in fractions from its definition."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.policy.latency.distribution import Distribution, straggles

seconds = st.integers(0, 30).map(lambda tenth: tenth / 10)  # few of them, so that there are ties
samples = st.lists(seconds, max_size=40)
shares = st.integers(0, 1000).map(lambda thousandth: thousandth / 1000)


def survival(values: list[float], censored: list[float], t: float) -> Fraction:
    """The definition, one factor for each value."""
    product = Fraction(1)
    for x in {value for value in values if value <= t}:
        at_risk = sum(value >= x for value in values) + sum(value >= x for value in censored)
        product *= 1 - Fraction(values.count(x), at_risk)
    return product


@given(values=samples, censored=samples, t=st.floats(-1, 4))
def test_survival_is_the_product_of_kaplan_and_meier(values: list[float], censored: list[float], t: float) -> None:
    made = Distribution.of(values, censored)
    for moment in (t, *values):
        assert made.survival(moment) == pytest.approx(float(survival(values, censored, moment)), abs=1e-12)
        assert made.cdf(moment) == pytest.approx(1 - made.survival(moment), abs=1e-15)
    assert (made.n, made.events) == (len(values) + len(censored), len(values))


@given(values=samples, censored=samples, p=shares)
def test_a_quantile_is_the_shortest_value_that_reaches_its_share(
    values: list[float], censored: list[float], p: float
) -> None:
    reach = [x for x in sorted(values) if 1 - survival(values, censored, x) >= Fraction(p).limit_denominator(1000)]
    assert Distribution.of(values, censored).quantile(p) == (reach[0] if reach else inf)


@given(values=st.lists(seconds, min_size=1, max_size=40))
def test_without_at_leasts_quantiles_are_order_statistics(values: list[float]) -> None:
    made = Distribution.of(values)
    for rank, value in enumerate(sorted(values), start=1):
        assert made.quantile(rank / len(values)) == value
    assert made.quantile(0.0) == min(values)


def test_a_textbook_case() -> None:
    """Weeks in remission of the leukaemia patients under 6-MP (Freireich et al. 1963), the usual first example."""
    values = [6.0, 6, 6, 7, 10, 13, 16, 22, 23]
    made = Distribution.of(values, censored=[6.0, 9, 10, 11, 17, 19, 20, 25, 32, 32, 34, 35])
    published = {6.0: 0.8571, 7: 0.8067, 10: 0.7529, 13: 0.6902, 16: 0.6275, 22: 0.5378, 23: 0.4482}
    assert {week: round(made.survival(week), 4) for week in published} == published
    assert made.quantile(0.5) == 23
    assert made.quantile(0.6) == inf


def test_where_all_are_at_leasts_nothing_is_ever_reached() -> None:
    made = Distribution.of([], censored=[1.0, 2.0])
    assert made.survival(1e9) == 1.0
    assert made.quantile(0.0) == made.quantile(0.5) == inf
    assert Distribution.of([]).quantile(0.5) == inf


@pytest.mark.parametrize("value", [-0.1, inf, nan])
def test_samples_are_finite_and_not_negative(value: float) -> None:
    with pytest.raises(ValueError, match="finite number of seconds"):
        Distribution.of([1.0, value])
    with pytest.raises(ValueError, match="finite number of seconds"):
        Distribution.of([1.0], censored=[value])


@pytest.mark.parametrize("p", [-0.001, 1.001, nan])
def test_a_share_is_between_0_and_1(p: float) -> None:
    with pytest.raises(ValueError, match="must be in"):
        Distribution.of([1.0]).quantile(p)


parts = st.lists(st.tuples(st.integers(0, 5), samples, samples), min_size=1, max_size=4).filter(
    lambda parts: any(weight for weight, _, _ in parts)
)


@given(parts=parts, t=seconds)
def test_a_mixture_is_the_weighted_mean_of_its_parts(
    parts: list[tuple[int, list[float], list[float]]], t: float
) -> None:
    made = [(float(weight), Distribution.of(values, censored)) for weight, values, censored in parts]
    mixed = Distribution.mixed(made)
    mean = sum(weight * part.cdf(t) for weight, part in made) / sum(weight for weight, _ in made)
    assert mixed.cdf(t) == pytest.approx(mean, abs=1e-12)
    assert all(earlier <= later for earlier, later in pairwise((*mixed.shares, 1.0)))
    assert mixed.n == sum(part.n for weight, part in made if weight)
    assert mixed.events == sum(part.events for weight, part in made if weight)


def test_a_mixture_reaches_the_end_of_its_longest_part() -> None:
    thirds = [(1 / 3, Distribution.of([0.1 * part + 0.01 * i for i in range(1, 8)])) for part in range(3)]
    assert Distribution.mixed(thirds).quantile(1.0) == pytest.approx(0.27)


@pytest.mark.parametrize("weights", [(), (0.0,), (1.0, -1.0), (nan,), (inf, 1.0)])
def test_weights_are_finite_not_negative_and_not_all_zero(weights: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="weights must be finite"):
        Distribution.mixed((weight, Distribution.of([1.0])) for weight in weights)


def test_a_target_straggles_when_more_than_the_rest_takes_longer_than_the_limit() -> None:
    even = Distribution.of([float(second) for second in range(1, 101)])
    assert not straggles(even, 0.95, 95.0)
    assert straggles(even, 0.95, 94.9)


def test_a_target_straggles_without_any_limit_when_nobody_knows_how_long() -> None:
    hanging = Distribution.of([1.0] * 90, censored=[2.0] * 10)
    assert not straggles(hanging, 0.9, 1.0)
    assert straggles(hanging, 0.95, 1e9)
    assert straggles(hanging, 0.95, inf)


@pytest.mark.parametrize(
    ("values", "at_least", "mostly"),
    [
        ([], [], 0.0),
        ([3.0], [], 3.0),
        ([1.0, 2.0], [], 1.0),
        ([1.0, 2.0, 3.0], [], 2.0),
        ([], [0.1] * 1000, 0.1),
        ([8.0] * 3, [0.1] * 1000, 0.1),  # three that were seen to answer late say nothing of those cut short
        ([0.1] * 2, [60.0] * 3, 60.0),
    ],
)
def test_more_than_half_take_mostly_or_longer(values: list[float], at_least: list[float], mostly: float) -> None:
    law = Distribution.of(values, at_least)
    assert law.mostly == mostly
    assert law.mostly <= law.quantile(0.5)


def beyond(values: list[float], censored: list[float], t: float, most: float) -> Fraction | None:
    """The definition: the area under the survival of those beyond `t`, up to the longest sample; None without any."""
    longest = max([*values, *censored, t])
    steps = [t, *sorted({value for value in values if value > t}), longest]
    left = survival(values, censored, t)
    if not left:
        return None
    area = sum(
        (Fraction(min(b, most)) - Fraction(min(a, most))) * survival(values, censored, a) for a, b in pairwise(steps)
    )
    return Fraction(t) + area / left


@given(values=samples, censored=samples, t=seconds, more=seconds)
def test_who_is_silent_for_long_takes_on_average_what_those_take_that_are(
    values: list[float], censored: list[float], t: float, more: float
) -> None:
    expected = beyond(values, censored, t, t + more)
    found = Distribution.of(values, censored).beyond(t, t + more)
    assert found == pytest.approx(float(t if expected is None else expected), abs=1e-9)


def test_of_an_empirical_distribution_that_is_the_mean_of_the_longer_values() -> None:
    law = Distribution.of([1.0, 2.0, 3.0, 4.0, 10.0])
    assert [law.beyond(t) for t in (0.0, 1.0, 2.5, 4.0)] == pytest.approx([4.0, 4.75, 17 / 3, 10.0])
    assert (law.beyond(2.5, 5.0), law.beyond(10.0), law.beyond(12.0)) == pytest.approx((4.0, 10.0, 12.0))


def test_who_was_broken_off_counts_with_what_is_known_of_it() -> None:
    law = Distribution.of([1.0, 2.0], [3.0, 6.0])  # two of four were still silent after 3 s and 6 s
    assert (law.beyond(1.0), law.beyond(2.0), law.beyond(4.0)) == pytest.approx(((2.0 + 2 * 6.0) / 3, 6.0, 6.0))


@given(parts=st.lists(st.tuples(samples, samples), min_size=1, max_size=3))
def test_the_longest_sample_is_known(parts: list[tuple[list[float], list[float]]]) -> None:
    laws = [Distribution.of(*part) for part in parts]
    assert [law.longest for law in laws] == [max([*values, *censored], default=0.0) for values, censored in parts]
    assert Distribution.mixed([(1.0, law) for law in laws]).longest == max(law.longest for law in laws)
