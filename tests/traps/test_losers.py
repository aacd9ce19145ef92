"""A loser is broken off before it answers. What is done with that decides how many requests are hedged."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from random import Random

import pytest
from bench.eval_replay import Recorded, Replay, places, policy
from bench.eval_told import Told

from hedgerow.events import AttemptEnded, Event, Outcome
from hedgerow.policy.budget import HEDGES
from hedgerow.testing import VirtualLoop, run_virtual

REQUESTS, WARM = 12_000, 2_000


def play(budget: float | None, delay: str, hanging: float, *, told_of_losers: bool = True) -> Told:
    random = Random(6)
    first = [inf if random.random() < hanging else random.lognormvariate(0.0, 1.0) for _ in range(REQUESTS)]
    second = [random.lognormvariate(0.0, 1.0) for _ in range(REQUESTS)]

    async def main(loop: VirtualLoop) -> Told:
        settings = policy(budget, delay=delay, throttle=None, total=60.0)
        route = Replay(loop, Recorded(loop, first, second), settings, Random(7), at=places())
        if not told_of_losers:
            route.tell = without_losers(route.tell)
        return await route.run([500] * REQUESTS)

    return run_virtual(main)


def without_losers(tell: Callable[[Event], None]) -> Callable[[Event], None]:
    def heard(event: Event) -> None:
        if not isinstance(event, AttemptEnded) or event.outcome is not Outcome.SUPERSEDED:
            tell(event)

    return heard


def hedged(told: Told) -> float:
    return sum(told.hedges[WARM:]) / (REQUESTS - WARM)


@pytest.mark.parametrize("hanging", [0.0, 0.02])
@pytest.mark.parametrize("delay", ["p95", "ema(p95)"])
def test_a_setting_of_5_percent_hedges_5_percent(delay: str, hanging: float) -> None:
    """tower, resilience4j and eRPC leave losers out of what they learn: a p95 then hedges 11 to 20 % (B6)."""
    assert hedged(play(None, delay, hanging)) == pytest.approx(0.05, abs=0.005)


@pytest.mark.parametrize("hanging", [0.0, 0.02])
def test_a_budget_of_5_percent_is_used_and_not_passed(hanging: float) -> None:
    told = play(0.05, "auto", hanging)
    assert hedged(told) == pytest.approx(0.05, abs=0.005)
    assert told.most <= HEDGES.burst + 1e-9


@pytest.mark.parametrize(("hanging", "share"), [(0.0, 0.112), (0.02, 0.128)])
def test_without_the_losers_it_would_hedge_more_than_twice_as_many(hanging: float, share: float) -> None:
    """The contrast: the trap is there."""
    assert hedged(play(None, "p95", hanging, told_of_losers=False)) == pytest.approx(share, abs=0.01)
