"""What is slow together stays so, though what stands for a hedge was minutes away: logs whose truth is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from hedgerow.planner.estimate import at_quantile, best, hedged
from hedgerow.planner.log import Floats, Log
from hedgerow.planner.together import after, mean, preference, preferred, slowness
from hedgerow.planner.world import neighbours

SPELL, EVERY = 120.0, 1_800.0
"""Seconds that a slow spell lasts, and from one to the next on average."""
AFTER = 3.0
"""Seconds after its request that a hedge starts."""
Times = Callable[[Floats], Floats]


def spells(chance: np.random.Generator, until: float) -> Times:
    """Attempts that take eight times as long in spells, which both targets have at the same time."""
    starts = np.sort(chance.random(chance.poisson(until / EVERY)) * until)

    def took(at: Floats) -> Floats:
        last = np.searchsorted(starts, at, side="right") - 1
        inside = (last >= 0) & (at < starts[last] + SPELL)
        usual: Floats = 0.6 * chance.lognormal(0.0, 0.35, len(at))
        return np.where(inside, 8.0 * usual, usual)

    return took


def stragglers(chance: np.random.Generator, _until: float) -> Times:
    """One in 14 attempts takes eight times as long, whenever it is made."""

    def took(at: Floats) -> Floats:
        usual: Floats = 0.6 * chance.lognormal(0.0, 0.35, len(at))
        return np.where(chance.random(len(at)) < 1 / 14, 8.0 * usual, usual)

    return took


def log_of(at: Floats, took: Floats, target: np.ndarray | None = None, tokens: np.ndarray | None = None) -> Log:
    count = len(at)
    return Log(
        at=at,
        ttft=np.where(np.isfinite(took), took, np.nan),
        failed=~np.isfinite(took),
        input_tokens=np.zeros(count, dtype=np.int64) if tokens is None else tokens,
        target=np.zeros(count, dtype=np.int64) if target is None else target,
        request=np.full(count, -1),
        targets=["one", "two"],
        timed=True,
        of_first_token=True,
    )


def kept(
    law: Callable[[np.random.Generator, float], Times], gap: float, target: int, p: float, seed: int, sized: float = 0.0
) -> float:
    """What is promised of a quantile, as a multiple of what it truly is with the same delay. `gap`: seconds between two
    requests, each to one of two targets. `sized`: the power of the prompt's tokens that times grow by.
    """
    chance = np.random.default_rng(seed)
    took = law(chance, 8_000 * gap)
    at = np.sort(chance.random(8_000) * 8_000 * gap)
    tokens = np.random.default_rng((seed, 1)).lognormal(6.5, 1.0, 8_000).astype(np.int64) + 1
    longer = (tokens / 665.0) ** sized
    log = log_of(at, took(at) * longer, chance.integers(0, 2, 8_000), tokens if sized else None)
    primary = log.of(log.target == 0)
    near = np.concatenate([neighbours(log, primary, target, chance).taken for _ in range(2)])
    truth = np.concatenate([took(primary.at + AFTER) * longer[log.target == 0] for _ in range(2)])
    own = np.tile(primary.ttft, 2)
    found = best(own, near, 0.2, p)
    lucky = chance.random(len(own)) < found.probability
    promised, came = (at_quantile(np.where(lucky, hedged(own, each, found.delay), own), p) for each in (near, truth))
    return promised / came


@pytest.mark.parametrize("target", [0, 1])
@pytest.mark.parametrize("gap", [5.0, 15.0, 30.0])
def test_spells_of_two_minutes_are_shared_by_hedges_though_requests_are_rare(gap: float, target: int) -> None:
    """With one in 30 s at either target, four of a spell, the p95 used to be promised at half of what comes."""
    for p in (0.95, 0.99):
        ratios = [kept(spells, gap, target, p, seed) for seed in range(3)]
        assert 0.85 < float(np.exp(np.mean(np.log(ratios)))) < 1.15, (p, ratios)


def test_so_they_are_where_times_grow_with_prompts_too() -> None:
    """By tokens to the power of 0.8: the p99 used to be promised at half of what comes."""
    for p in (0.95, 0.99):
        ratios = [kept(spells, 15.0, 1, p, seed, 0.8) for seed in range(3)]
        assert 0.85 < float(np.exp(np.mean(np.log(ratios)))) < 1.15, (p, ratios)


@pytest.mark.parametrize("target", [0, 1])
def test_where_slowness_is_no_matter_of_time_nothing_is_preferred(target: int) -> None:
    for p in (0.95, 0.99):
        ratios = [kept(stragglers, 15.0, target, p, seed) for seed in range(3)]
        assert float(np.exp(np.mean(np.log(ratios)))) == pytest.approx(1.0, abs=0.04), (p, ratios)


def test_nothing_is_preferred_where_the_log_has_no_times() -> None:
    chance = np.random.default_rng(7)
    at = np.arange(4_000.0) * 30.0
    log = log_of(at, spells(chance, at[-1])(at))
    timed, untimed = (
        neighbours(replace(log, timed=each), log, 0, np.random.default_rng(8)).taken for each in (True, False)
    )
    slow = log.ttft > 2.0
    assert (timed[slow] > 2.0).mean() > (untimed[slow] > 2.0).mean() + 0.1


def test_how_fast_being_slow_together_fades_is_found() -> None:
    chance = np.random.default_rng(4)
    apart = chance.exponential(60.0, 50_000)
    both = chance.random(50_000) < 0.1 + 0.6 * np.exp(-apart / 40.0)
    for seconds in (0.0, 15.0):
        found = after(seconds, apart, both.astype(float), 20.0)
        assert found == pytest.approx(0.1 + 0.6 * np.exp(-seconds / 40.0), abs=0.03)
    assert after(0.0, apart, chance.permutation(both).astype(float), 20.0) is None
    assert after(0.0, np.zeros(100), chance.random(100), 20.0) is None  # all at the same time


def test_slow_ones_are_preferred_as_much_as_it_takes_and_no_more_than_there_are() -> None:
    chances = np.tile([0.5, 0.25, 0.25], (1_000, 1))
    both = (np.random.default_rng(5).random((1_000, 3)) < 0.3).astype(float)
    usual = mean(chances, both)
    most = float(both.max(axis=1).mean())
    for goal in (usual, 0.5, 0.6):
        reached = mean(preferred(chances, both, preference(chances, both, goal)), both)
        assert reached == pytest.approx(goal, abs=1e-6)
    assert preference(chances, both, usual * 0.9) == 0.0
    assert mean(preferred(chances, both, preference(chances, both, 0.99)), both) == pytest.approx(most, abs=1e-6)


def test_the_slowest_tenth_is_slow_and_failures_are_the_slowest() -> None:
    took = np.random.default_rng(6).permutation(1_000.0 + np.arange(1_000))
    took[took > 1_980.0] = np.inf
    found = slowness(log_of(np.arange(1_000.0), took))
    assert (found > 0).sum() == 100
    assert (np.diff(found[np.argsort(took)]) >= 0.0).all()
    assert set(found[np.isinf(took)]) == {found.max()}
    assert found.max() == pytest.approx(np.log(100 / 9.5))  # they are 19, and half of them count as slower
