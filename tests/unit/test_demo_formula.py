"""The closed formula against brute force over all pairs, and the order-statistic interval against its definition."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.demo.formula import Law, binomial_at_least, percentile, rank

times = st.lists(st.floats(min_value=0.001, max_value=100.0), min_size=1, max_size=25)
levels = st.sampled_from([0.5, 0.9, 0.95, 0.99])


@given(samples=times, delay=st.floats(min_value=0.0, max_value=120.0), q=levels)
def test_hedged_quantile_equals_the_quantile_of_every_pair(samples: list[float], delay: float, q: float) -> None:
    pairs = sorted(min(x, delay + y) for x, y in itertools.product(samples, samples))
    assert Law(samples, delay=delay).quantile(q) == percentile(pairs, q)


@given(samples=times, q=levels)
def test_without_a_delay_the_law_is_the_samples_own(samples: list[float], q: float) -> None:
    assert Law(samples, delay=None).quantile(q) == percentile(sorted(samples), q)


@given(samples=times, delay=st.floats(min_value=0.0, max_value=120.0))
def test_hedged_fraction_counts_samples_beyond_the_delay(samples: list[float], delay: float) -> None:
    assert Law(samples, delay=delay).hedged_fraction() == sum(x > delay for x in samples) / len(samples)


@pytest.mark.parametrize(("n", "q", "expected"), [(100, 0.99, 99), (20, 0.95, 19), (400, 0.99, 396), (1, 0.99, 1)])
def test_rank_is_nearest_rank(n: int, q: float, expected: int) -> None:
    assert rank(n, q) == expected


@given(n=st.integers(1, 30), p=st.floats(0.0, 1.0), data=st.data())
def test_binomial_tail_equals_the_sum_of_its_terms(n: int, p: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n + 1))
    direct = sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k, n + 1))
    assert binomial_at_least(k, n, p) == pytest.approx(direct, abs=1e-9)


def test_interval_of_the_maximum_is_known_in_closed_form() -> None:
    # The largest of 100 draws from 1..1000 is at or below t with probability (t / 1000) ** 100.
    law = Law([float(i) for i in range(1, 1001)], delay=None)
    low, high = law.quantile_interval(1.0, 100)
    assert low == math.ceil(1000 * 0.025 ** (1 / 100))
    assert high == math.ceil(1000 * 0.975 ** (1 / 100))


def test_interval_covers_the_percentile_of_seeded_draws_as_often_as_it_says() -> None:
    rng = random.Random(7)
    samples = [rng.lognormvariate(0.0, 1.0) for _ in range(300)]
    law = Law(samples, delay=percentile(sorted(samples), 0.9))
    low, high = law.quantile_interval(0.95, 200)
    assert law.delay is not None
    covered = 0
    for _ in range(400):
        drawn = sorted(min(rng.choice(samples), law.delay + rng.choice(samples)) for _ in range(200))
        covered += low <= percentile(drawn, 0.95) <= high
    assert 0.93 <= covered / 400 <= 1.0


def test_more_of_something_certain_than_there_are_never_happen() -> None:
    assert binomial_at_least(2, 1, 1.0) == 0.0
    assert binomial_at_least(1, 1, 1.0) == 1.0


def test_an_empty_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="no samples"):
        Law([], delay=1.0)
    with pytest.raises(ValueError, match="no values"):
        percentile([], 0.5)
