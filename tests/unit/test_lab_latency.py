"""The lab's times: they meet their percentiles, can be repeated, and are tied between providers as asked."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist, correlation, fmean

import pytest

from hedgerow.errors import ConfigError
from hedgerow.lab.latency import EVEN, HeavyTail, LatencyModel, Pace, Resampled, Shape, Stragglers, upper
from hedgerow.lab.presets import PRESETS, preset
from hedgerow.lab.regimes import SlowRegimes, SlowSpec

DRAWS = 20_000
score_of = NormalDist().inv_cdf


def model(provider: str = "a", *, seed: int = 7, rho: float = 0.0, shape: Shape | None = None) -> LatencyModel:
    return LatencyModel(provider=provider, seed=seed, shape=shape or HeavyTail(1.0, 4.0, 9.0), rho=rho)


def draws(of: LatencyModel, count: int = DRAWS) -> list[float]:
    return [of.ttft(f"r{i}", 0, prompt_tokens=0, nth=i, elapsed=0.0) for i in range(count)]


def ranks(values: list[float]) -> list[float]:
    order = sorted(range(len(values)), key=values.__getitem__)
    rank = [0.0] * len(values)
    for place, index in enumerate(order):
        rank[index] = float(place)
    return rank


@pytest.mark.parametrize("name", [name for name, made in PRESETS.items() if isinstance(made.shape, HeavyTail)])
def test_a_preset_has_exactly_its_three_percentiles(name: str) -> None:
    shape = PRESETS[name].shape
    assert isinstance(shape, HeavyTail)
    assert [shape.at(score_of(p)) for p in (0.5, 0.95, 0.99)] == pytest.approx([shape.p50, shape.p95, shape.p99])


@pytest.mark.parametrize("name", ["openai", "groq", "stragglers"])
@pytest.mark.parametrize("quantile", [0.5, 0.9, 0.95, 0.99])
def test_draws_fall_below_a_quantile_as_often_as_a_binomial_allows(name: str, quantile: float) -> None:
    shape = PRESETS[name].shape
    limit = shape.at(score_of(quantile))
    below = sum(time <= limit for time in draws(model(shape=shape)))
    spread = math.sqrt(DRAWS * quantile * (1 - quantile))
    assert abs(below - DRAWS * quantile) < 4 * spread


def test_the_published_figures_of_openai_are_as_quoted() -> None:
    assert preset("openai").shape == HeavyTail(1.072, 5.991, 13.393)


def test_an_unknown_preset_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no 'opnai'; there are fast, steady, stragglers, openai, azure"):
        preset("opnai")


def test_the_tail_is_pareto_with_the_index_asked_for() -> None:
    shape = HeavyTail(1.0, 4.0, tail=2.0)
    assert shape.at(score_of(0.95 + 0.05 * 0.75)) == pytest.approx(4.0 * 4 ** (1 / 2.0))
    assert shape.index == 2.0


def test_without_p99_the_usual_tail_index_applies() -> None:
    assert HeavyTail(1.0, 4.0).at(score_of(0.99)) == pytest.approx(4.0 * 5 ** (1 / 2.4))


def test_the_far_tail_is_finite_and_still_rising() -> None:
    times = [HeavyTail(1.0, 4.0, 9.0).at(score) for score in (5.0, 6.0, 7.0, 8.2)]
    assert all(math.isfinite(time) for time in times)
    assert all(low < high for low, high in pairwise(times))


@pytest.mark.parametrize("given", [(0.0, 1.0, 2.0), (2.0, 1.0, 3.0), (1.0, 2.0, 2.0)])
def test_percentiles_out_of_order_are_refused(given: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigError, match="need 0 < p50 <= p95 < p99"):
        HeavyTail(*given)


def test_stragglers_are_the_share_asked_for_and_so_many_times_slower() -> None:
    shape = Stragglers(0.2, sigma=0.1, share=0.05, factor=10.0)
    times = draws(model(shape=shape))
    slow = [time for time in times if time > 1.0]
    assert abs(len(slow) - 0.05 * DRAWS) < 4 * math.sqrt(DRAWS * 0.05 * 0.95)
    ratio = fmean(slow) / fmean(time for time in times if time <= 1.0)
    assert ratio == pytest.approx(10.0, rel=4 * 0.1 / math.sqrt(len(slow)))


def test_every_recorded_time_is_equally_likely() -> None:
    recorded = Resampled([3.0, 1.0, 2.0, 4.0])
    assert [recorded.at(score_of(p)) for p in (0.01, 0.24, 0.26, 0.51, 0.74, 0.76, 0.99)] == [1, 1, 2, 3, 3, 4, 4]
    assert (recorded.at(-9.0), recorded.at(9.0)) == (1.0, 4.0)


def test_equal_seeds_names_and_keys_give_equal_times() -> None:
    assert draws(model(), 100) == draws(model(), 100)


@pytest.mark.parametrize("other", [model("b"), model(seed=8)], ids=["name", "seed"])
def test_another_name_or_seed_gives_unrelated_times(other: LatencyModel) -> None:
    tie = correlation(ranks(draws(model())), ranks(draws(other)))
    assert abs(tie) < 4 / math.sqrt(DRAWS)


def test_a_key_seen_again_gets_a_fresh_draw() -> None:
    assert len({model().score("r", seen) for seen in range(10)}) == 10


@pytest.mark.parametrize("rho", [0.3, 0.6, 0.9])
def test_rank_correlation_between_providers_is_that_of_the_gaussian_copula(rho: float) -> None:
    tie = correlation(ranks(draws(model("a", rho=rho))), ranks(draws(model("b", rho=rho))))
    assert tie == pytest.approx(6 / math.pi * math.asin(rho / 2), abs=4 / math.sqrt(DRAWS))


def test_with_full_correlation_both_providers_take_the_same_time() -> None:
    assert draws(model("a", rho=1.0), 50) == pytest.approx(draws(model("b", rho=1.0), 50))


def test_correlation_leaves_each_providers_own_distribution_alone() -> None:
    below = sum(time <= 4.0 for time in draws(model(rho=0.6)))
    assert abs(below - 0.95 * DRAWS) < 4 * math.sqrt(DRAWS * 0.95 * 0.05)


def test_prompt_tokens_add_prefill_time() -> None:
    slow = LatencyModel(provider="a", seed=7, shape=HeavyTail(1.0, 4.0), prefill=0.02)
    short, long = (slow.ttft("r", 0, prompt_tokens=n, nth=0, elapsed=0.0) for n in (0, 5000))
    assert long - short == pytest.approx(0.1)


def test_a_sequence_is_walked_in_order_and_round_again() -> None:
    replay = LatencyModel(provider="a", seed=7, shape=EVEN_SHAPE, sequence=(0.3, 0.1, 0.2))
    times = [replay.ttft("r", 0, prompt_tokens=0, nth=n, elapsed=0.0) for n in range(4)]
    assert times == [0.3, 0.1, 0.2, 0.3]


EVEN_SHAPE = Resampled([1.0])


def test_slow_regimes_take_their_share_of_the_time() -> None:
    spec = SlowSpec(factor=3.0, share=0.1, seconds=10.0)
    regimes = SlowRegimes(spec, seed=5)
    horizon = 200_000
    slow = fmean(regimes.factor_at(float(t)) == 3.0 for t in range(horizon))
    # Share of an alternating renewal process: sd = sqrt(2 s (1-s) tau / T), tau = 1 / (1/mean slow + 1/mean fast).
    spread = math.sqrt(2 * 0.1 * 0.9 * (1 / (1 / 10 + 1 / 90)) / horizon)
    assert abs(slow - 0.1) < 4 * spread


def test_slow_regimes_multiply_times_and_can_be_asked_in_any_order() -> None:
    spec = SlowSpec.parse("3:0.5:10")
    forth = SlowRegimes(spec, seed=5)
    factors = [forth.factor_at(float(t)) for t in range(100)]
    back = SlowRegimes(spec, seed=5)
    assert [back.factor_at(float(t)) for t in reversed(range(100))] == factors[::-1]
    assert set(factors) == {1.0, 3.0}
    slow = LatencyModel(provider="a", seed=7, shape=EVEN_SHAPE, slow=forth)
    assert [slow.ttft("r", 0, prompt_tokens=0, nth=0, elapsed=float(t)) for t in range(100)] == factors


@pytest.mark.parametrize("text", ["", "3", "3:0.1", "3:0.1:x", "0:0.1:5", "3:0:5", "3:1:5", "3:0.1:0", "3:nan:5"])
def test_a_bad_slow_regime_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"slow: expected FACTOR:SHARE:SECONDS .* e\.g\. 3:0\.1:20; got "):
        SlowSpec.parse(text)


def test_without_jitter_all_gaps_are_equal() -> None:
    assert {EVEN.gap(12345, token) for token in range(1, 300)} == {1.0}
    assert EVEN.total(12345, 1000) == pytest.approx(999)


def test_the_gaps_between_tokens_add_up_to_the_total_in_every_order() -> None:
    pace = Pace(0.5)
    for walk in (0, 1, 2**63 + 12345, 2**64 - 1):
        for tokens in (0, 1, 2, 40, 257, 700):
            assert pace.total(walk, tokens) == pytest.approx(sum(pace.gap(walk, t) for t in range(1, tokens)))
        assert len({pace.gap(walk, token) for token in range(1, 257)}) == 256


def test_the_chance_above_a_score_is_exact_in_the_far_tail() -> None:
    assert upper(0.0) == 0.5
    assert upper(10.0) == pytest.approx(7.62e-24, rel=1e-3)
