"""The replay without a loop, against the same objects on an event loop whose clock jumps."""

from __future__ import annotations

from math import inf, isnan
from random import Random

import pytest
from bench.eval_replay import RATE, Recorded, places, policy
from bench.eval_replay import Replay as OnALoop
from bench.eval_told import Told as LoopTold
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass
from hedgerow.planner.clock import Clock
from hedgerow.planner.replay import Replay, Told
from hedgerow.policy.settings import Policy
from hedgerow.testing import VirtualLoop, run_virtual

COUNT = 3_000


class Numbers:
    """Attempts that take as long as is written down, by place."""

    def __init__(self, *seconds: list[float]) -> None:
        self.seconds = seconds

    def attempt(self, request: int, place: int, _number: int, _now: float) -> tuple[float, Failure | None]:
        return self.seconds[place][request], None


def drawn(seed: int, count: int = COUNT) -> list[float]:
    law = Random(seed)
    return [law.lognormvariate(0.0, 1.0) for _ in range(count)]


def arrivals(seed: int, count: int = COUNT) -> list[float]:
    """As the replay on a loop lets them come."""
    chance, at, times = Random(seed), 0.0, []
    for _ in range(count):
        times.append(at)
        at += chance.expovariate(RATE)
    return times


def on_a_loop(rules: Policy, first: list[float], second: list[float]) -> LoopTold:
    async def main(loop: VirtualLoop) -> LoopTold:
        return await OnALoop(loop, Recorded(loop, first, second), rules, Random(7), at=places(2)).run([100] * COUNT)

    return run_virtual(main)


def without(rules: Policy, first: list[float], second: list[float]) -> Told:
    return Replay(Numbers(first, second), rules, places(2), Random(8).random).run(arrivals(7), [100] * COUNT)


@pytest.mark.parametrize("delay", [5.0, "p90", "p95", "off"])
@pytest.mark.parametrize("budget", [0.02, None])
def test_it_decides_what_the_gateways_objects_decide_on_a_loop(delay: float | str, budget: float | None) -> None:
    """No rule here draws lots, so that both see the same chance: every request takes as long, to the last bit."""
    rules = policy(budget, delay=inf if delay == "off" else delay)
    first, second = drawn(1), drawn(2)
    slow, quick = on_a_loop(rules, first, second), without(rules, first, second)
    assert list(quick.hedges) == list(slow.hedges)
    assert list(quick.took) == pytest.approx(list(slow.took), abs=1e-9)
    assert delay == "off" or sum(quick.hedges) > 0


def test_a_failure_starts_the_other_target_at_once() -> None:
    broken = Failure(FailureClass.SERVER_ERROR, "it broke")

    class World:
        def attempt(self, _request: int, place: int, _number: int, _now: float) -> tuple[float, Failure | None]:
            return (1.0, broken) if place == 0 else (0.5, None)

    told = Replay(World(), policy(None, delay=inf), places(2), Random(1).random).run([0.0], [10])
    assert (list(told.took), list(told.failovers), list(told.winner)) == ([1.5], [1], [1])


def test_where_nobody_answers_there_is_no_time() -> None:
    broken = Failure(FailureClass.SERVER_ERROR, "it broke")

    class World:
        def attempt(self, _request: int, _place: int, _number: int, _now: float) -> tuple[float, Failure | None]:
            return 1.0, broken

    told = Replay(World(), policy(None, delay=inf), places(2), Random(1).random).run([0.0], [10])
    assert isnan(told.took[0])
    assert told.winner[0] == -1


@given(st.lists(st.floats(0.0, 100.0), max_size=30), st.sets(st.integers(0, 29)))
def test_a_clock_rings_in_order_and_never_what_was_cancelled(times: list[float], cancelled: set[int]) -> None:
    clock, rung = Clock(), list[tuple[float, int]]()
    timers = [clock.call_at(at, lambda n=number: rung.append((clock.now, n))) for number, at in enumerate(times)]
    for number in cancelled & set(range(len(timers))):
        timers[number].cancel()
    clock.run()
    expected = sorted((at, number) for number, at in enumerate(times) if number not in cancelled)
    assert rung == expected
