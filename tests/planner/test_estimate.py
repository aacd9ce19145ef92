"""What arithmetic says of hedging, and what statistics must be. Reference values: `test_external_laws`."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from math import inf, isnan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.planner.estimate import at_quantile, best, hedged, oracle
from hedgerow.planner.log import Floats, Log
from hedgerow.planner.statistics import pairings, statistics_of
from hedgerow.planner.world import independent, neighbours

N = 100_000


def pareto(generator: np.random.Generator) -> Floats:
    return 2.0 * (1.0 - generator.random(N)) ** (-1 / 1.1)


def lognormal(generator: np.random.Generator) -> Floats:
    return generator.lognormal(1.0, 1.0, N)


def test_a_budget_that_helps_nobody_hedges_nothing() -> None:
    steady = np.ones(1_000)
    assert best(steady, steady, 0.05).delay == inf


def test_who_knows_the_slow_ones_does_better_than_who_waits() -> None:
    generator = np.random.default_rng(2)
    first, second = lognormal(generator), lognormal(generator)
    assert oracle(first, second, N // 20) < best(first, second, 0.05).p99 < at_quantile(first, 0.99)


@given(
    times=st.lists(st.tuples(st.integers(0, 6), st.one_of(st.integers(0, 6), st.just(inf))), min_size=1, max_size=7),
    most=st.integers(0, 7),
    p=st.sampled_from([0.25, 0.5, 0.75, 0.9, 0.99]),
)
def test_who_knows_all_times_finds_the_best_of_all_ways_to_spend_hedges(
    times: list[tuple[float, float]], most: int, p: float
) -> None:
    first, second = (np.array(each, dtype=float) for each in zip(*times, strict=True))
    ways = combinations(range(len(times)), min(most, len(times)))
    hedging = (np.where(np.isin(range(len(times)), way), np.minimum(first, second), first) for way in ways)
    assert oracle(first, second, most, p) == min(at_quantile(taken, p) for taken in hedging)


def test_of_no_requests_nothing_is_known() -> None:
    assert isnan(oracle(np.empty(0), np.empty(0), 3))


def test_a_hedge_never_makes_a_request_slower() -> None:
    generator = np.random.default_rng(3)
    first, second = pareto(generator), pareto(generator)
    assert (hedged(first, second, 3.0) <= first).all()


def log_of(ttft: Floats, *, target: np.ndarray | None = None, tokens: np.ndarray | None = None) -> Log:
    n = len(ttft)
    return Log(
        at=np.arange(n, dtype=float),
        ttft=np.where(np.isfinite(ttft), ttft, np.nan),
        failed=~np.isfinite(ttft),
        input_tokens=np.zeros(n, dtype=np.int64) if tokens is None else tokens,
        target=np.zeros(n, dtype=np.int64) if target is None else target,
        request=np.full(n, -1),
        targets=["a", "b"],
        timed=True,
        of_first_token=True,
    )


def test_neighbours_share_slow_times_and_independent_draws_do_not() -> None:
    generator = np.random.default_rng(4)
    spells = np.repeat(generator.random(200) < 0.1, 50)
    log = log_of(np.where(spells, 10.0, 1.0) * generator.lognormal(0.0, 0.2, 10_000))
    near, far = neighbours(log, log, 0, generator).taken, independent(log, log, 0, generator).taken
    assert np.corrcoef(log.ttft, near)[0, 1] > 0.8
    assert abs(np.corrcoef(log.ttft, far)[0, 1]) < 0.05
    assert (near != log.ttft).mean() > 0.99  # never a request's own record


@pytest.mark.parametrize("count", [40, 41, 1_000])
@pytest.mark.parametrize("every", [1, 8, 10_000])
def test_no_record_stands_for_its_own_hedge(count: int, every: int) -> None:
    """Not at the ends of a log either, nor where many, or all, came at the same time."""
    generator = np.random.default_rng(18)
    log = log_of(np.arange(1.0, count + 1), tokens=generator.choice([10, 1_000, 1_001], count))
    log = replace(log, at=log.at // every)
    for _ in range(50):
        near = neighbours(log, log, 0, generator)
        assert (near.taken != log.ttft).all()
        assert np.array_equal(near.apart, np.abs(log.at[near.taken.astype(int) - 1] - log.at))


def test_statistics_find_what_was_put_in() -> None:
    generator = np.random.default_rng(5)
    tokens = generator.choice([100, 10_000, 100_000], 5_000)
    ttft = np.sqrt(tokens) * generator.lognormal(0.0, 0.3, 5_000)
    ttft[2_000:2_040] = inf
    found = statistics_of(log_of(ttft, tokens=tokens))[0]
    assert (found.n, found.failed) == (4_960, 40)
    assert found.explained == pytest.approx(0.97, abs=0.02)
    assert abs(found.autocorrelation) < 0.05
    assert [(each.start, each.end, each.failed) for each in found.outages] == [(2_000.0, 2_039.0, 40)]
    assert [(size.least, size.n + size.failed) for size in found.by_size] == [
        (least, int((tokens == kind).sum())) for least, kind in ((0, 100), (4_000, 10_000), (64_000, 100_000))
    ]
    for size, kind in zip(found.by_size, (100, 10_000, 100_000), strict=True):
        assert size.quantiles[0].low < np.sqrt(kind) < size.quantiles[0].high


def test_targets_that_are_slow_together_are_found() -> None:
    generator = np.random.default_rng(7)
    shared = np.repeat(generator.lognormal(0.0, 1.0, 500), 2)
    log = log_of(shared * generator.lognormal(0.0, 0.1, 1_000), target=np.tile([0, 1], 500))
    log = replace(log, at=np.repeat(np.arange(500.0), 2))
    (pair,) = pairings(log)
    assert pair.correlation > 0.9


def test_a_target_with_one_attempt_goes_together_with_none() -> None:
    log = log_of(np.random.default_rng(8).lognormal(0.0, 1.0, 100), target=np.arange(100) // 99)
    assert pairings(replace(log, at=log.at / 100)) == []


def test_where_length_explains_times_a_hedge_is_as_long() -> None:
    generator = np.random.default_rng(9)
    tokens = generator.lognormal(6.5, 1.0, 6_000).astype(np.int64)
    log = log_of(0.2 + tokens / 1_500 * generator.lognormal(0.0, 0.1, 6_000), tokens=tokens)
    near = neighbours(log, log, 0, generator).taken
    slow = log.ttft > np.quantile(log.ttft, 0.98)  # as rare as the longest prompts
    assert np.median(near[slow] / log.ttft[slow]) == pytest.approx(1.0, abs=0.1)
    assert np.corrcoef(np.log(log.ttft), np.log(near))[0, 1] > 0.95


def test_where_it_does_not_a_hedge_is_near_in_time_whatever_its_length() -> None:
    """Spells of 15 requests are short for those who look for the like of each in length."""
    generator = np.random.default_rng(10)
    spells = np.repeat(generator.random(400) < 0.05, 15)
    log = log_of(np.where(spells, 12.0, 1.0), tokens=generator.lognormal(6.5, 1.0, 6_000).astype(np.int64))
    near = neighbours(log, log, 0, generator).taken
    assert (near[spells] == 12.0).mean() > 0.85


def whole_answers(generator: np.random.Generator, count: int = 6_000) -> tuple[Log, Floats]:
    """A log of whole answers, and what second attempts at the same prompts, with as long answers, truly take."""
    prompts, answers = (generator.lognormal(mean, 1.0, count).astype(np.int64) + 1 for mean in (6.5, 5.5))
    usual = 0.5 + prompts / 5_000 + answers / 60
    first, second = (usual * generator.lognormal(0.0, 0.15, count) for _ in range(2))
    first[generator.random(count) < 0.02] *= 4.0
    return replace(log_of(first, tokens=prompts), of_first_token=False, output_tokens=answers), second


def test_a_hedge_of_a_long_answer_is_about_as_long() -> None:
    log, truth = whole_answers(np.random.default_rng(12))
    near = neighbours(log, log, 0, np.random.default_rng(13)).taken
    slow = log.ttft > np.quantile(log.ttft, 0.98)
    assert np.median(near[slow] / truth[slow]) == pytest.approx(1.0, abs=0.1)
    promised, real = (best(log.ttft, second, 0.05).p99 for second in (near, truth))
    assert promised == pytest.approx(real, rel=0.03)
    unknown = neighbours(replace(log, output_tokens=None), log, 0, np.random.default_rng(13)).taken
    assert best(log.ttft, unknown, 0.05).p99 < 0.8 * real  # what it would promise without


def test_the_length_of_an_answer_does_not_matter_where_first_tokens_are_timed() -> None:
    log, _ = whole_answers(np.random.default_rng(14))
    streamed, unknown = (replace(log, of_first_token=True, output_tokens=of) for of in (log.output_tokens, None))
    near, same = (neighbours(each, each, 0, np.random.default_rng(15)).taken for each in (streamed, unknown))
    assert np.array_equal(near, same)
    assert statistics_of(streamed)[0].explained_with_answers is None


def test_how_much_the_lengths_of_prompts_and_answers_explain_together() -> None:
    log, _ = whole_answers(np.random.default_rng(16))
    assert log.output_tokens is not None
    some = log.output_tokens * (np.arange(len(log)) % 4 > 0)  # of a fourth it is not known
    found, partly = (statistics_of(replace(log, output_tokens=of))[0] for of in (log.output_tokens, some))
    assert found.explained == pytest.approx(0.01, abs=0.01)
    assert found.explained_with_answers == found.long == pytest.approx(0.9, abs=0.05)
    assert partly.explained_with_answers == pytest.approx(0.75 * 0.9, abs=0.05)


def test_a_backup_that_knows_prompt_sizes_stands_in_for_a_primary_that_does_not() -> None:
    """A request of unknown size may be of any, not of the smallest."""
    generator = np.random.default_rng(17)
    tokens = np.where(np.arange(8_000) % 2, generator.lognormal(6.5, 1.0, 8_000), 0).astype(np.int64)
    log = log_of(np.maximum(tokens, 100) / 1_000, tokens=tokens, target=np.arange(8_000) % 2)
    near = neighbours(log, log.of(log.target == 0), 1, generator).taken
    assert np.median(near) == pytest.approx(float(np.median(log.ttft[1::2])), rel=0.1)


def test_failures_without_a_length_are_drawn_as_often_as_they_are() -> None:
    generator = np.random.default_rng(11)
    tokens = generator.lognormal(6.5, 1.0, 6_000).astype(np.int64)
    failed = generator.random(6_000) < 0.1
    log = log_of(np.where(failed, inf, tokens / 1_500), tokens=np.where(failed, 0, tokens))
    assert np.isinf(neighbours(log, log, 0, generator).taken).mean() == pytest.approx(failed.mean(), abs=0.02)
