"""Figures that papers give, or that follow from their models, by the planner's arithmetic and through its engine."""

from __future__ import annotations

from math import exp
from random import Random
from typing import Protocol

import numpy as np
import pytest
from bench.eval_queue import Fleet
from bench.eval_replay import Replay as OnALoop
from bench.eval_replay import places

from hedgerow.planner.choices import plain
from hedgerow.planner.estimate import at_quantile, best
from hedgerow.planner.log import Floats
from hedgerow.policy.account import UNLIMITED, Limits
from hedgerow.policy.budget import Share
from hedgerow.policy.settings import Policy
from hedgerow.testing import VirtualLoop, run_virtual
from tests.planner.published import Flown, Queues, even, flown, hedged, poisson, rules, unlike
from tests.unit.test_reissue import CLOSED_FORM, HALF_SHARED, name

N = 20_000


class Law(Protocol):
    def quantile(self, p: float, /) -> float: ...


def times(law: Law, shares: Floats) -> Floats:
    return np.array([law.quantile(share) for share in shares.tolist()])


@pytest.mark.parametrize(
    ("law", "target", "budget", "fixed", "_fixed_delay", "quantile", "_delay", "_probability"), CLOSED_FORM, ids=name
)
def test_the_estimator_finds_the_best_single_reissue_policies(
    law: Law, target: float, budget: float, fixed: float, _fixed_delay: float, quantile: float, _delay: float,
    _probability: float,
) -> None:  # fmt: skip
    """Kaler, He and Elnikety, SPAA 2017: SingleR and SingleD in closed form, within 1 %.

    Pareto(1.1, 2), LogNormal(1, 1) and Exp(0.1), the backup independent; target quantile and budget are in the table.
    """
    first, second = times(law, even(N)), times(law, unlike(N))
    found = best(first, second, budget, target)
    assert found.p99 == pytest.approx(quantile, rel=0.01)
    assert found.extra <= budget + 1e-9
    assert plain(first, second, budget, target).p99 == pytest.approx(fixed, rel=0.01)


@pytest.mark.parametrize(("law", "target", "base", "budget", "quantile"), HALF_SHARED, ids=name)
def test_the_estimator_sees_that_attempts_share_half(
    law: Law, target: float, base: float, budget: float, quantile: float
) -> None:
    """The same laws where the backup takes Y = X / 2 + Z, Z a draw of its own; the simulated ratios, within 2 %."""
    first = times(law, even(N))
    second = first / 2.0 + times(law, unlike(N))
    ratio = best(first, second, budget, target).p99 / at_quantile(first, target)
    assert ratio == pytest.approx(quantile / base, rel=0.02)


def test_a_hundred_leaves_of_which_each_is_rarely_slow() -> None:
    """Dean and Barroso, The Tail at Scale (CACM 2013): where 1 % of a server's answers take over a second, 63 % of
    requests to 100 servers do. With a hedge after 10 ms, to a server that is slow as rarely, nearly none do.
    """
    slow = np.array([0.005] * 99 + [1.5])
    first, second = (np.random.default_rng(seed).permutation(np.tile(slow, 500)) for seed in (1, 2))

    def late(delay: float | None) -> float:
        return float((hedged(first, second, delay).took.reshape(-1, 100).max(axis=1) > 1.0).mean())

    assert late(None) == pytest.approx(1.0 - 0.99**100, abs=0.065)  # 500 requests: three standard errors
    assert late(0.010) < 0.03  # 1 - (1 - 0.01 ** 2) ** 100 is 1 %


def test_bigtable_with_a_hedge_after_ten_milliseconds() -> None:
    """The same paper: 1,000 keys from 100 servers; p99.9 of all falls from 1,800 to 74 ms for 2 % more requests.

    The servers' law is not published. This one fits: 2 % take over 10 ms, 0.31 % over 64 to 74 ms, one in 100,000 over
    1.8 s, evenly in the logarithm between. So it is a check of what hedging does to such a law, not of the law. Each
    of 60 slices of primaries over 10 ms meets each of 60 slices of hedges, and counts as often as it comes.
    """
    survival = np.array([1.0, 0.02, 0.0031, 0.0031 - 1e-9, 1e-5])
    seconds = np.array([0.001, 0.010, 0.064, 0.074, 1.8])
    edges = np.concatenate(
        ([1.0], np.concatenate((np.geomspace(0.02, 0.0031, 30), np.geomspace(0.0031, 1e-7, 31)[1:])))
    )
    weight = np.append(-np.diff(edges), edges[-1])
    middle = np.append(np.sqrt(edges[1:] * edges[:-1]), edges[-1])
    taken = np.exp(np.interp(np.log(middle), np.log(survival[::-1]), np.log(seconds[::-1])))
    first, second = np.repeat(taken, len(taken)), np.tile(taken, len(taken))
    counts = np.outer(weight, weight).ravel()
    share = 0.999**0.01  # of a server's answers, so that of 100 all come in 99.9 of 100 cases

    def p999(took: Floats) -> float:
        order = np.argsort(took, kind="stable")
        return float(took[order][np.searchsorted(np.cumsum(counts[order]), share)])

    after = hedged(first, second, 0.010)
    assert p999(hedged(first, second, None).took) == pytest.approx(1.8, rel=0.05)
    assert p999(after.took) == pytest.approx(0.074, rel=0.05)
    assert counts[first > 0.010].sum() == pytest.approx(0.02, abs=1e-4)


RACE = Policy(delay=0.0, width=2)


def doubled(load: float, servers: int, *, even_work: bool) -> float:
    """How many times as long requests take on average when each goes to two servers, beside what theory says of one."""
    alone = 1.0 / (1.0 - load) if not even_work else 1.0 + load / (2.0 * (1.0 - load))  # M/M/1 and M/D/1

    def service(random: Random) -> float:
        return 1.0 if even_work else random.expovariate(1.0)

    queues = Queues(servers, service, seed=3)
    took = flown(queues, RACE, poisson(load * servers, 8_000, seed=4), warm=800).took
    return float(took.mean()) / alone


@pytest.mark.parametrize(
    ("even_work", "low", "high", "threshold"), [(False, 0.30, 0.37, 0.333), (True, 0.22, 0.30, 0.258)]
)
def test_the_load_above_which_asking_twice_makes_it_slower(
    even_work: bool, low: float, high: float, threshold: float
) -> None:
    """Vulimiri et al., Low Latency via Redundancy (CoNEXT 2013): 1/3 for exponential work, about 0.26 for even work.

    100 servers with a queue each, Poisson arrivals, every request to two of them, both do it to the end; the load at
    which the mean is that of one copy, on a line between two loads, within 0.02. 8,000 requests at each.
    """
    below, above = doubled(low, 100, even_work=even_work), doubled(high, 100, even_work=even_work)
    assert below < 1.0 < above
    assert low + (high - low) * (1.0 - below) / (above - below) == pytest.approx(threshold, abs=0.02)


def test_with_four_servers_the_load_is_lower() -> None:
    """The threshold depends on their number: of four it is below 0.25, since copies meet each other's queues."""
    assert doubled(0.25, 4, even_work=True) > 1.0


P95 = 76.8
"""Of ten M/M/1 queues at 60 % load with work of 10 on average: -ln(0.05) x 10 / 0.4 is 74.9; simulated 76.8."""


def exponential(random: Random) -> float:
    return random.expovariate(0.1)


def ten(
    limits: Limits = UNLIMITED, *, delay: float | None = P95, count: int = 60_000, seed: int = 3
) -> tuple[float, float, float]:
    """p99, hedges per request, and the load of ten such queues."""
    queues = Queues(10, exponential, seed=seed)
    at = poisson(0.6, count, seed=seed)
    found = flown(queues, rules(delay, limits), at, warm=2_000)
    return found.at(0.99), found.extra, queues.work / 10 / at[-1]


def test_ten_servers_run_away_from_hedges_that_nobody_bounds() -> None:
    """Ten FIFO servers drawn by chance, exponential work of 10, load 60 %, a hedge after the p95 (76.8), losers go on.

    In 150,000 requests hedges went from 5 % to 96 %, and the p99 from 120 to 47,300; a cap of 10 % kept it at 110, with
    5.6 % hedges and a load of 64 %. When it runs away is chance; with seed 43 it is within 25,000 requests.
    """
    p99, extra, _ = ten(delay=None)
    assert p99 == pytest.approx(120.0, rel=0.1)
    assert extra == 0.0
    p99, extra, load = ten(count=25_000, seed=43)
    assert min(extra / 0.4, load / 0.8, p99 / 2_000.0) > 1.0
    p99, extra, load = ten(Limits(hedges=Share(0.1, 50.0)))
    assert p99 == pytest.approx(110.0, rel=0.1)
    assert extra == pytest.approx(0.056, abs=0.015)
    assert load == pytest.approx(0.64, abs=0.01)


def test_where_ten_servers_really_stop_hedges_cost_next_to_nothing() -> None:
    """The same fleet where a loser is cancelled: p99 87.5 for 3.1 % hedges, at the load it had."""

    async def main(loop: VirtualLoop) -> tuple[float, float]:
        fleet = Fleet(loop, Random(3), exponential, cancels=True)
        told = await OnALoop(loop, fleet, rules(P95), Random(4), at=places(), rate=0.6).run([100] * 12_000)
        return float(np.quantile(told.took[1_000:], 0.99)), sum(told.hedges[1_000:]) / 11_000

    p99, extra = run_virtual(main)
    assert p99 == pytest.approx(87.5, rel=0.1)
    assert extra == pytest.approx(0.031, abs=0.006)


def test_a_lightly_loaded_fleet_gains_even_from_losers_that_go_on() -> None:
    """LogNormal(1, 1) work at 30 % load, a hedge after the p95 without hedges: p99 48.2 becomes 31.1 for 5.3 % hedges.

    Within 10 %: of 20,000 requests, where that figure comes from 150,000.
    """
    at = poisson(0.3 * 10 / exp(1.5), 20_000, seed=6)

    def run(delay: float | None) -> Flown:
        return flown(Queues(10, lambda random: random.lognormvariate(1.0, 1.0), seed=6), rules(delay), at, warm=1_000)

    alone = run(None)
    after = run(alone.at(0.95))
    assert [alone.at(0.99), after.at(0.99)] == pytest.approx([48.2, 31.1], rel=0.1)
    assert after.extra == pytest.approx(0.053, abs=0.005)
