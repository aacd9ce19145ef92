"""The copula against plain integration, and the correlation learned from pairs of which one half is always cut off."""

from __future__ import annotations

import random
from math import log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.policy.copula import STRONGEST, given_slower
from hedgerow.policy.correlation import WINDOW, Pairs, assumed
from tests.unit.law_support import NORMAL


def integrated(v: float, rank: float, r: float) -> float:
    """P(V <= v | U > rank) by the midpoints of 4,000 pieces of the primary's own law."""
    scores = [NORMAL.inv_cdf(rank + (1.0 - rank) * (k + 0.5) / 4000) for k in range(4000)]
    return sum(NORMAL.cdf((NORMAL.inv_cdf(v) - r * a) / sqrt(1.0 - r * r)) for a in scores) / len(scores)


@pytest.mark.parametrize("r", [0.05, 0.3, 0.6, 0.95])
@pytest.mark.parametrize("rank", [0.0, 0.5, 0.95, 0.999])
def test_the_law_of_the_backup_given_a_slow_primary(rank: float, r: float) -> None:
    share = given_slower(rank, r)
    for v in (0.001, 0.03, 0.2, 0.5, 0.77, 0.95, 0.999):
        assert share(v) == pytest.approx(integrated(v, rank, r), abs=0.003)


@given(rank=st.floats(0.0, 1.0), r=st.floats(0.0, STRONGEST), ranks=st.lists(st.floats(0.0, 1.0), min_size=2))
def test_it_is_a_law_whatever_the_numbers(rank: float, r: float, ranks: list[float]) -> None:
    share = given_slower(rank, r)
    shares = [share(v) for v in sorted(ranks)]
    assert shares == sorted(shares)
    assert all(0.0 <= value <= 1.0 for value in shares)
    assert (share(0.0), share(1.0)) == (0.0, 1.0)


def test_without_correlation_it_is_the_backups_own_law() -> None:
    share = given_slower(0.99, 0.0)
    assert [share(v) for v in (-0.1, 0.0, 0.3, 1.0)] == [0.0, 0.0, 0.3, 1.0]


def rank(elapsed: float) -> float:
    """Both attempts' law is LogNormal(0, 1) here."""
    return NORMAL.cdf(log(elapsed)) if elapsed > 0.0 else 0.0


def hedge(pairs: Pairs, r: float, count: int, *, seed: int, delay: float = 2.5, both: bool = False) -> None:
    """Run `count` hedges: of requests that took longer than `delay`, and the loser cancelled unless `both` are read."""
    rng = random.Random(seed)
    while count:
        a = rng.gauss(0.0, 1.0)
        x = 2.718281828459045**a
        if x <= delay:
            continue
        count -= 1
        y = 2.718281828459045 ** (r * a + sqrt(1.0 - r * r) * rng.gauss(0.0, 1.0))
        if both:
            pairs.observe(rank(x), rank(y), primary_done=True, hedge_done=True)
        elif x <= delay + y:
            pairs.observe(rank(x), rank(x - delay), primary_done=True, hedge_done=False)
        else:
            pairs.observe(rank(delay + y), rank(y), primary_done=False, hedge_done=True)


@pytest.mark.parametrize("prior", [0.15, 0.3])
@pytest.mark.parametrize("r", [0.0, 0.15, 0.3, 0.6, 0.9])
def test_it_finds_the_correlation_of_simulated_pairs(r: float, prior: float) -> None:
    errors = []
    for seed in range(5):
        pairs = Pairs(prior)
        hedge(pairs, r, 1000, seed=seed)
        errors.append(pairs.estimate() - r)
    assert max(map(abs, errors)) < 0.1
    assert abs(sum(errors)) / len(errors) < 0.04


@pytest.mark.parametrize("delay", [1.0, 5.0])
def test_when_hedges_are_launched_does_not_matter(delay: float) -> None:
    pairs = Pairs(0.15)
    hedge(pairs, 0.5, 1000, seed=1, delay=delay)
    assert pairs.estimate() == pytest.approx(0.5, abs=0.1)


def test_losers_that_were_read_to_their_token_tell_more() -> None:
    pairs = Pairs(0.15)
    hedge(pairs, 0.5, 1000, seed=1, both=True)
    assert pairs.estimate() == pytest.approx(0.5, abs=0.06)


@pytest.mark.parametrize("prior", [0.0, 0.15, 0.3, 0.33, 0.95])
def test_without_pairs_it_is_the_prior(prior: float) -> None:
    assert Pairs(prior).estimate() == pytest.approx(prior)


def test_few_pairs_move_it_little_and_many_move_it_all_the_way() -> None:
    estimates = []
    for count in (0, 5, 30, 200, 1000):
        pairs = Pairs(0.3)
        hedge(pairs, 0.9, count, seed=3)
        estimates.append(pairs.estimate())
    assert estimates == sorted(estimates)
    assert estimates[1] < 0.6
    assert estimates[-1] > 0.85


def test_it_forgets_what_was() -> None:
    pairs = Pairs(0.3, window=200.0)
    hedge(pairs, 0.9, 1000, seed=1)
    hedge(pairs, 0.1, 1000, seed=2)
    assert pairs.estimate() < 0.25
    assert pairs.count == pytest.approx(200.0, rel=0.05)


def test_pairs_that_tell_nothing_do_not_count() -> None:
    pairs = Pairs(0.3)
    told = [
        pairs.observe(0.99, 0.5, primary_done=False, hedge_done=False),  # the client went away
        pairs.observe(0.99, 0.01, primary_done=True, hedge_done=False),  # the hedge had hardly begun
        pairs.observe(float("nan"), 0.5, primary_done=True, hedge_done=False),
        pairs.observe(0.5, 1.5, primary_done=True, hedge_done=False),
    ]
    assert told == [False] * 4
    assert pairs.count == 0.0
    assert pairs.estimate() == pytest.approx(0.3)
    assert pairs.observe(0.99, 0.02, primary_done=True, hedge_done=False)
    assert pairs.count == 1.0


def test_one_pair_that_nothing_explains_weighs_little() -> None:
    pairs = Pairs(0.3)
    hedge(pairs, 0.6, 500, seed=1)
    before = pairs.estimate()
    for _ in range(5):
        pairs.observe(1.0, 0.0, primary_done=True, hedge_done=True)
        pairs.observe(1.0, 1e-12, primary_done=False, hedge_done=True)
    assert pairs.estimate() == pytest.approx(before, abs=0.05)


@given(
    seen=st.lists(st.tuples(st.floats(0.0, 1.0), st.floats(0.0, 1.0), st.booleans(), st.booleans()), max_size=30),
    prior=st.floats(0.0, STRONGEST),
)
def test_it_stays_in_bounds_whatever_comes(seen: list[tuple[float, float, bool, bool]], prior: float) -> None:
    pairs = Pairs(prior, window=10.0)
    for primary, backup, primary_done, hedge_done in seen:
        pairs.observe(primary, backup, primary_done=primary_done, hedge_done=hedge_done)
        assert 0.0 <= pairs.estimate() <= STRONGEST


def test_attempts_at_one_provider_are_assumed_to_be_more_alike() -> None:
    assert (assumed(same_provider=True), assumed(same_provider=False)) == (0.3, 0.15)


@pytest.mark.parametrize(("prior", "window"), [(-0.1, WINDOW), (0.96, WINDOW), (0.3, 0.5), (0.3, float("nan"))])
def test_priors_and_windows_that_mean_nothing_are_refused(prior: float, window: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        Pairs(prior, window)


def test_the_least_correlation_is_none_until_pairs_speak_against_it() -> None:
    pairs = Pairs(0.3)
    assert pairs.least() == 0.0
    hedge(pairs, 0.6, 30, seed=1)
    little = pairs.least()
    hedge(pairs, 0.6, 400, seed=2)
    assert 0.0 <= little <= pairs.least() <= pairs.estimate()
    assert pairs.least() > 0.3
