"""The best possible, found by search, against what is known of it; and the scores that are measured with it."""

from __future__ import annotations

from math import exp
from random import Random

import msgspec
import pytest
from bench.eval_offline import best
from bench.eval_replay import policy, replay_stream
from bench.eval_score import Score, Times, score, simple_rule
from bench.streams import Stream, quantile
from bench.streams_made import MEDIAN, alike

from hedgerow.planner.simulation.cap import Cap
from hedgerow.policy.budget import Share
from hedgerow.policy.latency.distribution import Distribution
from hedgerow.policy.reissue import single_r


def exponential(count: int, seed: int = 1) -> tuple[list[float], list[float]]:
    random = Random(seed)
    return [random.expovariate(1.0) for _ in range(count)], [random.expovariate(1.0) for _ in range(count)]


def test_a_fixed_delay_for_exponential_times_is_what_the_formula_says() -> None:
    """P(T > t) = e^-t * e^-(t - d) with e^-d = 0.1: the p99 is (ln 100 + ln 10) / 2 = 3.45, without hedges 4.61."""
    found = best(*exponential(200_000), budget=0.1)
    assert found.probability == 1.0
    assert exp(-found.delay) == pytest.approx(0.1, rel=0.03)
    assert found.quantile == pytest.approx(3.454, rel=0.01)
    assert found.extra == pytest.approx(0.1, abs=0.001)


@pytest.mark.parametrize("budget", [0.02, 0.05, 0.1, 0.2])
def test_it_agrees_with_the_optimiser_on_the_whole_sample(budget: float) -> None:
    stream = alike(MEDIAN, 50_000, Random(2))
    laws = Distribution.of(stream.primary), Distribution.of(stream.backup)
    found = best(stream.primary, stream.backup, budget)
    assert found.quantile == pytest.approx(single_r(*laws, target=0.99, budget=budget).quantile, rel=0.015)


def test_no_other_delay_and_probability_is_better() -> None:
    first, second = exponential(400, seed=3)
    found = best(first, second, 0.1, target=0.9)
    for step in range(1, 100):
        delay = step / 20.0
        hedged = sum(each > delay for each in first) / len(first)
        probability = min(1.0, 0.1 / hedged) if hedged else 0.0
        late = [
            (1.0 - probability) * (x > found.quantile * 0.999)
            + probability * (min(x, delay + y) > found.quantile * 0.999)
            if x > delay
            else float(x > found.quantile * 0.999)
            for x, y in zip(first, second, strict=True)
        ]
        assert sum(late) > 0.1 * len(first) - 1.0


def test_where_hedges_are_as_slow_as_what_they_are_for_it_does_not_hedge() -> None:
    first, _ = exponential(5_000)
    found = best(first, first, 0.1)
    assert found.probability == 0.0
    assert found.quantile == quantile(sorted(first), 0.99)


def test_the_cap_counts_the_worst_stretch() -> None:
    cap = Cap(Share(0.5, 2.0, per_minute=1.0))
    cap.attempt(0.0)
    cap.request(0.0)
    cap.attempt(0.0)
    assert cap.most == 1.5
    cap.request(60.0)  # a minute and a request give 1.5 back
    cap.attempt(60.0)
    assert cap.most == 1.5
    cap.attempt(60.0)
    assert cap.most == 2.0


def test_a_replay_of_numbers_is_exact_and_repeats_itself() -> None:
    stream = Stream("made", "pairs", 3, [500] * 3, [1.0, 9.0, 5.0], [0.5, 2.0, 9.0])
    told = replay_stream(stream, policy(None, delay=3.0, throttle=None))
    assert [round(took, 9) for took in told.took] == [1.0, 5.0, 5.0]
    assert told.hedges == [0, 1, 1]
    assert replay_stream(stream, policy(None, delay=3.0, throttle=None)) == told


def test_the_simple_rule_hedges_what_its_bucket_allows() -> None:
    first, second = exponential(5_000)
    took, hedged = simple_rule(Stream("made", "independent", 5_000, [500] * 5_000, first, second), 0.1, 10.0)
    assert sum(hedged) <= 0.1 * 5_000 + 10
    assert all(t == x if not h else t <= x for t, x, h in zip(took, first, hedged, strict=True))
    assert quantile(sorted(took), 0.99) < 0.85 * quantile(sorted(first), 0.99)


SHORT = "short of the possible"
GOOD = Score(
    "made", "a stream", "independent", 1_000, True, 0.05, Times(1.0, 5.0, 10.0), 5.0, 3.0, 1.0, Times(1.0, 3.0, 5.2),
    0.05, 10.0, {}, Times(1.0, 3.0, 6.0), 0.05,
)  # fmt: skip


def test_a_score_tells_what_falls_short() -> None:
    worse = Times(1.0, 3.0, 5.3)
    assert GOOD.faults() == []
    assert GOOD.reached == pytest.approx(0.96)
    assert msgspec.structs.replace(GOOD, hedged=worse).faults() == [SHORT]
    assert msgspec.structs.replace(GOOD, hedged=worse, samples=499).faults() == []
    assert msgspec.structs.replace(GOOD, extra=0.0449).faults() == []  # as good with fewer
    assert msgspec.structs.replace(GOOD, extra=0.0449, hedged=worse).faults() == ["off the budget", SHORT]
    assert msgspec.structs.replace(GOOD, extra=0.0551).faults() == ["off the budget"]
    assert msgspec.structs.replace(GOOD, beyond=50.1).faults() == ["over the cap"]
    changing = msgspec.structs.replace(GOOD, stationary=False)
    assert msgspec.structs.replace(changing, hedged=Times(1.0, 3.0, 6.1)).faults() == ["behind the simple rule"]
    assert msgspec.structs.replace(changing, hedged=Times(1.0, 3.0, 5.9)).faults() == []


def test_a_stream_is_scored_without_its_beginning() -> None:
    found = score("made", alike(MEDIAN, 6_000, Random(4)), 0.05)
    assert found.alone.p99 == pytest.approx(7.4, rel=0.15)
    assert 0.2 < found.cut <= found.possible_cut + 0.01
    assert found.extra == pytest.approx(0.05, abs=0.01)
