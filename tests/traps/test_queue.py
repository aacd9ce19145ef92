"""A self-hosted fleet at 60 % load: hedges that nobody cancels make others wait, who are then hedged in turn.

Ten servers with a queue each, drawn by chance; the work takes 100 ms on average and is exponential. Known from a model
of the same kind: hedging at a delay that few requests reach can end with nearly all of them hedged, and a p99 hundreds
of times as long.
"""

from __future__ import annotations

from functools import cache
from random import Random
from typing import NamedTuple

import pytest
from bench.eval_queue import Fleet
from bench.eval_replay import Replay, places, policy
from bench.eval_told import Told
from bench.streams import quantile

from hedgerow.policy.budget import HEDGES
from hedgerow.policy.settings import Policy
from hedgerow.testing import VirtualLoop, run_virtual

MEAN, SERVERS, LOAD = 0.1, 10, 0.6
REQUESTS, WARM = 12_000, 2_000


class Seen(NamedTuple):
    p99: float
    hedged: float
    load: float
    told: Told


@cache
def fleet(policy: Policy, *, cancels: bool, requests: int = REQUESTS) -> Seen:
    async def main(loop: VirtualLoop) -> Seen:
        servers = Fleet(loop, Random(3), lambda random: random.expovariate(1.0 / MEAN), cancels=cancels)
        route = Replay(loop, servers, policy, Random(4), at=places(), rate=LOAD * SERVERS / MEAN)
        told = await route.run([500] * requests)
        late = sorted(told.took[WARM:])
        hedged = sum(told.hedges[WARM:]) / (requests - WARM)
        return Seen(quantile(late, 0.99), hedged, servers.busy / SERVERS / loop.time(), told)

    return run_virtual(main)


ALONE = policy(None, delay="off")
UNBOUNDED = policy(None, delay=0.5, throttle=None)
"""Half a second, which one request in ten or so takes."""


def test_without_hedging_it_does_what_theory_says() -> None:
    """Each queue is M/M/1, where times in system are exponential with mean 1 / (1/0.1 - 6) = 250 ms: p99 1.15 s."""
    seen = fleet(ALONE, cancels=False)
    assert seen.p99 == pytest.approx(1.15, rel=0.1)
    assert seen.load == pytest.approx(LOAD, abs=0.02)


def test_without_a_budget_it_runs_away() -> None:
    """The contrast: the trap is there."""
    seen = fleet(UNBOUNDED, cancels=False)
    assert seen.hedged > 0.9
    assert seen.load > 0.9
    assert seen.p99 > 10.0


@pytest.mark.parametrize("delay", [0.5, "p95", "auto"])
def test_with_the_default_budget_it_does_not(delay: float | str) -> None:
    seen = fleet(policy(0.1, delay=delay), cancels=False)
    assert seen.hedged <= 0.1
    assert seen.load < 0.67
    assert seen.p99 < 1.25 * 1.15  # what theory says of no hedges, and a quarter
    assert seen.told.most <= HEDGES.burst + 1e-9


def test_where_losers_are_really_cancelled_hedging_makes_it_shorter() -> None:
    alone, hedged = fleet(ALONE, cancels=False), fleet(policy(0.1), cancels=True)
    assert hedged.p99 < 0.85 * alone.p99
    assert hedged.load == pytest.approx(LOAD, abs=0.02)
