"""Ten minutes in which the primary is of no use: the load stays bounded, the traffic moves, and comes back."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import inf
from random import Random
from typing import NamedTuple

import pytest
from bench.eval_replay import Done, Replay, places, policy
from bench.eval_told import Told

from hedgerow.events import BreakerChanged, BreakerState, Event, Failure, FailureClass, Reason
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.policy.budget import HEDGES
from hedgerow.policy.health import Health, Watch
from hedgerow.testing import VirtualLoop, run_virtual

BEGINS, ENDS, REQUESTS, RATE = 200.0, 800.0, 11_000, 10.0
BREAKER = BreakerSettings(slow_after=5.0, slow_ratio=0.5)
FIRST_TOKEN = 10.0
ERROR = Failure(FailureClass.SERVER_ERROR, "500", status=500)

Trouble = Callable[[VirtualLoop, float, Done], Callable[[], object]]
"""What an attempt at the primary meets during the outage: takes its usual seconds, returns what breaks it off."""


def fails(loop: VirtualLoop, _usual: float, done: Done) -> Callable[[], object]:
    return loop.call_later(0.05, done, ERROR).cancel


def hangs(_loop: VirtualLoop, _usual: float, _done: Done) -> Callable[[], object]:
    return int


def crawls(loop: VirtualLoop, usual: float, done: Done) -> Callable[[], object]:
    return loop.call_later(20.0 * usual, done, None).cancel


class Providers:
    """Two that answer after 0.5 s in the median; the first is in trouble for ten minutes."""

    def __init__(self, loop: VirtualLoop, trouble: Trouble, *, both: bool) -> None:
        self._loop, self._trouble, self._both, self._random = loop, trouble, both, Random(8)

    def send(self, request: int, place: int, done: Done) -> Callable[[], object]:
        seconds = self._random.lognormvariate(-0.7, 0.6)
        if BEGINS <= self._loop.time() < ENDS and (place == 0 or self._both):
            return self._trouble(self._loop, seconds, done)
        return self._loop.call_later(seconds, done, None).cancel


class Seen(NamedTuple):
    told: Told
    changes: list[BreakerChanged]

    def times(self, state: BreakerState) -> list[float]:
        """When the primary's breaker came to be in this state."""
        return [change.at for change in self.changes if change.state is state]

    def at(self, begin: float, end: float) -> list[int]:
        return [index for index, came in enumerate(self.told.came_at) if begin <= came < end]

    def share(self, values: list[int], begin: float, end: float) -> float:
        those = self.at(begin, end)
        return sum(values[index] for index in those) / len(those)


@cache
def play(trouble: Trouble, *, both: bool = False) -> Seen:
    changes: list[BreakerChanged] = []

    def listen(event: Event) -> None:
        if isinstance(event, BreakerChanged) and event.target == "a":
            changes.append(event)

    async def main(loop: VirtualLoop) -> Told:
        at = places(same_provider=False)
        health = Health({place.candidate.target: Watch(BREAKER) for place in at})
        settings = policy(0.1, first_token=FIRST_TOKEN, total=60.0)
        world = Providers(loop, trouble, both=both)
        route = Replay(loop, world, settings, Random(9), at=at, health=health, listeners=[listen], rate=RATE)
        return await route.run([500] * REQUESTS)

    return Seen(run_virtual(main), changes)


TROUBLES = pytest.mark.parametrize("trouble", [fails, hangs, crawls])


@TROUBLES
@pytest.mark.parametrize("both", [False, True])
def test_extra_attempts_stay_within_their_caps_all_the_time(trouble: Trouble, both: bool) -> None:
    told = play(trouble, both=both).told
    assert told.most <= HEDGES.burst + 1e-6
    assert told.most_failovers <= 50.0 + 1e-6
    assert told.skipped[Reason.BUDGET] + told.skipped[Reason.OUTAGE] + told.skipped[Reason.BREAKER] > 0


@TROUBLES
def test_once_the_breaker_is_open_the_backup_carries_all_traffic_and_nothing_is_hedged(trouble: Trouble) -> None:
    seen = play(trouble)
    opened, half_open = seen.times(BreakerState.OPEN), seen.times(BreakerState.HALF_OPEN)
    assert BEGINS < opened[0] < BEGINS + 3.0 * FIRST_TOKEN
    assert seen.share(seen.told.first_place, opened[0], ENDS) > 0.99  # all but probes
    for begin, end in zip(opened, half_open, strict=True):
        assert seen.share(seen.told.first_place, begin, end) == 1.0
        assert seen.share(seen.told.hedges, begin, end) == 0.0


@TROUBLES
def test_clients_hardly_notice(trouble: Trouble) -> None:
    """But for those under way when it begins; where all time out at once, the cap on failovers lets some fail."""
    under_way = RATE * FIRST_TOKEN
    took = play(trouble).told.took
    assert sum(each >= FIRST_TOKEN for each in took) < 1.5 * under_way
    assert sum(each == inf for each in took) < (under_way if trouble is hangs else 1)


@TROUBLES
def test_it_recovers_within_a_window(trouble: Trouble) -> None:
    seen = play(trouble)
    closed = seen.times(BreakerState.CLOSED)[-1]
    # At worst the last probe began just before the end, and hangs; then the breaker waits, and needs its successes.
    assert ENDS <= closed < ENDS + FIRST_TOKEN + BREAKER.open_at_most + FIRST_TOKEN
    assert seen.share(seen.told.first_place, closed + 1.0, closed + 120.0) == 0.0
    learned_anew = closed + 1_000 / RATE  # as many samples as a window of latencies holds
    assert seen.share(seen.told.hedges, learned_anew, learned_anew + 120.0) == pytest.approx(0.1, abs=0.03)
