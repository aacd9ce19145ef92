"""Tables that other hedging libraries publish, and a replay rule, through the planner's own engine.

What its readers would measure is what the engine is told that attempts take; nothing is fitted to the tables.
"""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.planner.log import Floats
from hedgerow.policy.account import UNLIMITED, Limits
from hedgerow.policy.budget import Share
from tests.planner.published import Flown, hedged, lognormal, mixed

COUNT = 50_000
OVERHEAD = 0.35
"""Milliseconds that their HTTP client and server add to every request; see the first row of their table."""
SHARES = (0.5, 0.9, 0.95, 0.99, 0.999)


def in_milliseconds(found: Flown) -> Flown:
    return Flown(found.took * 1e3 + OVERHEAD, found.extra)


def stragglers(seed: int, count: int = COUNT) -> Floats:
    """Seconds: lognormal with mean 5 ms and deviation 2 ms, one of 20 ten times as long."""
    return mixed(
        count,
        seed,
        (0.95, lambda at: lognormal(0.005, 0.002, at)),
        (0.05, lambda at: lognormal(0.050, 0.020, at)),
    )


def streams(seed: int, count: int = COUNT) -> Floats:
    """Seconds to the first token: 80 % lognormal (15, 3) ms, 20 % (200, 25) ms."""
    return mixed(
        count,
        seed,
        (0.8, lambda at: lognormal(0.015, 0.003, at)),
        (0.2, lambda at: lognormal(0.200, 0.025, at)),
    )


def assert_near(
    found: Flown, published: tuple[float, ...], extra: float, loose: dict[float, str], *, close: float = 0.03
) -> None:
    """That close to every figure but the `loose` ones, which chance (of so many requests) must explain."""
    for p, value in zip(SHARES, published, strict=False):
        if p in loose:
            low, high = found.chance(p)
            assert low <= value <= high, (p, loose[p])
        else:
            assert found.at(p) == pytest.approx(value, rel=close), p
    assert found.extra == pytest.approx(extra, rel=close)


FLAT = "5 % are stragglers, so that nearly no request takes what is around the p95: it is anywhere from 14 to 25 ms"
FEW = "50 requests are slower, and where hedges help it hangs on few of them how much"
TABLE = [
    ("none", None, UNLIMITED, (5.0, 8.9, 17.1, 64.3, 104.5), 0.0, {0.95: FLAT}),
    ("static 10 ms", 0.010, UNLIMITED, (5.0, 8.9, 13.1, 17.4, 46.5), 0.074, {0.999: FEW}),
    ("static 50 ms", 0.050, UNLIMITED, (5.0, 8.9, 18.9, 54.7, 60.2), 0.021, {0.95: FLAT}),
]


@pytest.mark.parametrize(
    ("delay", "limits", "published", "extra", "loose"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_fixed_delays_of_the_table_of_hedge(
    delay: float | None, limits: Limits, published: tuple[float, ...], extra: float, loose: dict[float, str]
) -> None:
    """bhope/hedge README at e01be9b: p50, p90, p95, p99, p99.9 in ms and extra load, of 50,000 requests."""
    found = in_milliseconds(hedged(stragglers(1), stragglers(2), delay, limits=limits))
    assert_near(found, published, extra, loose)


def test_the_learned_delay_of_the_table_of_hedge() -> None:
    """The same, "adaptive": the p90 as it is learned, and a bucket that 20 callers in a row drain.

    Their benchmark/simulate/main.go: the bucket earns 10 % of an estimated 2,759 requests a second and holds twice as
    many. At the 3,376 that 20 callers reach that is less than the tenth of them that is slower than the p90: 8.9 %
    there, 9.2 % here, since how many a bucket by time bears hangs on how fast the callers really were.
    """
    earned = 0.1 * 20 / 0.00725
    bucket = Limits(hedges=Share(0.0, round(2 * earned), per_minute=60.0 * earned))
    found = in_milliseconds(hedged(stragglers(1), stragglers(2), "p90", limits=bucket, rate=3_376.0))
    assert_near(found, (5.0, 8.9, 12.3, 17.0), 0.089, {}, close=0.04)
    free = in_milliseconds(hedged(stragglers(1), stragglers(2), "p90", rate=3_376.0))
    assert free.at(0.999) < 59.4 < found.at(0.999)  # it hangs on which hedges the bucket refuses
    assert 20.0 / (found.took.mean() / 1e3) == pytest.approx(3_376.0, rel=0.03)


BUCKET = Limits(hedges=Share(0.0, 200.0, per_minute=6_000.0))
STREAMING = [
    ("none", None, UNLIMITED, (16.4, 199.6, 217.5, 245.6), 0.0),
    ("47 ms, its bucket exhausted", 0.047, BUCKET, (16.4, 61.6, 182.5, 224.2), 0.17),
]


@pytest.mark.parametrize(
    ("delay", "limits", "published", "extra"), [row[1:] for row in STREAMING], ids=[row[0] for row in STREAMING]
)
def test_the_streaming_table_of_hedge(
    delay: float | None, limits: Limits, published: tuple[float, ...], extra: float
) -> None:
    """bhope/hedge, benchmark/streaming/main.go, at e01be9b: p50, p90, p95, p99 in ms of 50,000 streams by 20 callers.

    Their learned p80 is 47 ms, between the two modes, and is given here. The bucket is their default of 100 hedges a
    second and 200 at once, which 20 % of 600 requests a second exhaust: hence the p95 of 182.5 ms. The p90 is within
    4 %: it is the learned delay and an answer that is not slow, and "about 47 ms" is where the delay was at the end.
    """
    found = in_milliseconds(hedged(streams(1), streams(2), delay, limits=limits, rate=600.0))
    assert_near(found, published, extra, {}, close=0.03 if delay is None else 0.04)
    if delay is not None:
        assert 20.0 / (found.took.mean() / 1e3) == pytest.approx(600.0, rel=0.05)
        full = in_milliseconds(hedged(streams(1), streams(2), delay))
        assert full.at(0.95) < 70.0  # with a bucket that holds enough


def test_a_delay_that_hedges_everything() -> None:
    """The same, "miscalibrated", 1 ms: 14.7, 19.4, 23.6 and 198.7 ms for 100 %.

    Within 3 %, but the p95, which is 5 % longer there. It is the 99th percentile of those of whom not both attempts are
    slow, and their 40 requests at once add more to it than the overhead of the first row.
    """
    found = in_milliseconds(hedged(streams(1, 20_000), streams(2, 20_000), 0.001))
    assert [found.at(p) for p in (0.5, 0.9, 0.99)] == pytest.approx([14.7, 19.4, 198.7], rel=0.03)
    assert found.at(0.95) == pytest.approx(23.6, rel=0.06)
    assert found.extra == pytest.approx(1.0, abs=0.001)


def test_the_readme_of_hedge_python() -> None:
    """PyPI hedge-python 0.3.0: 500 requests through each of httpx, aiohttp and gRPC, with the same stragglers.

    p99 without hedges, p99 with them in ms, and extra load: each within the middle 98 % of 200 such runs here, with
    0.8 ms for asyncio. Their learned delay is not published; it is what 5.73 % exceed, the mean of what they hedged.
    """
    published = np.array([(51.3, 18.8, 0.070), (52.4, 20.5, 0.046), (59.9, 20.4, 0.056)])
    first, second = (stragglers(seed, 500 * 200) for seed in (3, 4))
    delay = float(np.quantile(first, 1.0 - published[:, 2].mean()))
    alone, after = (
        np.quantile(took.reshape(200, 500) * 1e3 + 0.8, 0.99, axis=1)
        for took in (first, hedged(first, second, delay).took)
    )
    extra = (first > delay).reshape(200, 500).mean(axis=1)
    for values, runs in zip(published.T, (alone, after, extra), strict=True):
        low, high = np.quantile(runs, (0.01, 0.99))
        assert ((low <= values) & (values <= high)).all(), (values, low, high)


def test_the_replay_rule_of_gpuhedge() -> None:
    """gpuhedge 0.1.0, "fixed hedge": L(d) = R where R <= d, else min(R, d + M), to the last digit.

    On rounds made up in the shape of its traces/moss_rounds.jsonl: two thirds of the primaries are warm (6 s), the
    others start cold (up to 120 s), the backup takes 20 to 40 s; hedge after 10 s. `make eval` does it
    on the real ones (bench/eval_rounds.py).
    """
    cold = [120.1, 97.0, 66.4, 61.2, 33.0, 12.5, 10.0, 9.9]
    first = np.array([6.0, 5.8, 6.1, 6.3] * 4 + cold)
    second = np.array([20.0, 38.3, 19.4, 27.5] * 6)
    found = hedged(first, second, 10.0, rate=0.001)
    rule = np.where(first <= 10.0, first, np.minimum(first, 10.0 + second))
    assert found.took == pytest.approx(rule, abs=1e-6)
    assert round(found.extra * len(first)) == int((first > 10.0).sum()) == 6
