"""The replay without a loop, against the same objects on an event loop whose clock jumps."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from math import inf, isnan
from pathlib import Path
from random import Random

import pytest
from bench.eval_replay import RATE, Done, places, policy
from bench.eval_replay import Replay as OnALoop
from bench.eval_told import Told as LoopTold
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Reason
from hedgerow.planner.clock import Clock
from hedgerow.planner.replay import Replay, Told, World
from hedgerow.policy.account import Limits
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.policy.health import Health, Watch
from hedgerow.policy.latency.cells import Learning
from hedgerow.policy.order import Fastest, Rotate
from hedgerow.policy.outage import ThrottleSettings
from hedgerow.policy.plan import Place
from hedgerow.policy.settings import Policy
from hedgerow.testing import VirtualLoop, run_virtual

COUNT = 1_500
ROOT = Path(__file__).parents[2]


def arrivals(seed: int, count: int = COUNT) -> list[float]:
    """As the replay on a loop lets them come."""
    chance, at, times = Random(seed), 0.0, []
    for _ in range(count):
        times.append(at)
        at += chance.expovariate(RATE)
    return times


class Worlds:
    """Attempts at three places: slow by chance, and together; with failures, most of them in outages of a place.

    Attempts of one request at one place differ, as those of several keys do.
    """

    def __init__(self, seed: int, *, failing: float = 0.0, count: int = COUNT) -> None:
        law = Random(seed)
        outages = [law.randrange(count) for _ in range(6)] if failing else []
        self.ends: list[list[list[tuple[float, Failure | None]]]] = []
        for request in range(count):
            common = law.gauss(0.0, 0.5)
            down = {place % 3 for place, start in enumerate(outages) if start <= request < start + 60}
            ends = [[self._end(law, common, failing, out=place in down) for _ in range(3)] for place in range(3)]
            self.ends.append(ends)

    def _end(self, law: Random, common: float, failing: float, *, out: bool) -> tuple[float, Failure | None]:
        seconds = law.lognormvariate(common, 0.8)
        if law.random() >= (0.8 if out else failing):
            return seconds, None
        kind = law.choices((FailureClass.SERVER_ERROR, FailureClass.CONNECT, FailureClass.RATE_LIMITED), (8, 4, 1))[0]
        return seconds / 10.0, Failure(kind, "it broke", retry_after=law.choice((None, 2.0)))

    def attempt(self, request: int, place: int, number: int, _now: float) -> tuple[float, Failure | None]:
        return self.ends[request][place][min(number, 2)]


class OnLoop:
    """The same for the replay on a loop."""

    def __init__(self, loop: VirtualLoop, world: World) -> None:
        self.loop, self.world, self.numbers = loop, world, Counter[int]()

    def send(self, request: int, place: int, done: Done) -> Callable[[], object]:
        number, self.numbers[request] = self.numbers[request], self.numbers[request] + 1
        seconds, failure = self.world.attempt(request, place, number, self.loop.time())
        return self.loop.call_later(seconds, done, failure).cancel


TOKENS = [(100, 3_000, 20_000)[number % 7 % 3] for number in range(COUNT)]


def on_a_loop(rules: Policy, world: World, at: Sequence[Place], watches: Mapping[str, Watch]) -> LoopTold:
    async def main(loop: VirtualLoop) -> LoopTold:
        route = OnALoop(loop, OnLoop(loop, world), rules, Random(8), at=at, health=Health(watches))
        route.random = Random(7)  # for when they come; what is decided by chance goes on with the other
        return await route.run(TOKENS)

    return run_virtual(main)


def same(
    rules: Policy, world: World, *, at: int = 2, watches: Mapping[str, Watch] | None = None
) -> tuple[Told, Health]:
    """Every request takes as long on a loop, to the last bit, is hedged as often, and refused for the same reasons."""
    where, health = places(at, same_provider=False), Health(watches)
    slow = on_a_loop(rules, world, where, watches or {})
    quick = Replay(world, rules, where, Random(8).random, health=health).run(arrivals(7), TOKENS)
    assert [inf if isnan(took) else took for took in quick.took] == slow.took
    assert rules.width > 1 or list(quick.hedges) == slow.hedges  # where racers are no hedges
    assert list(quick.failovers) == slow.failovers
    assert quick.skipped == slow.skipped
    return quick, health


@pytest.mark.parametrize("delay", [5.0, "p90", "p95", "ema(p95)", "auto", "slo: 3s", "off"])
@pytest.mark.parametrize("budget", [0.02, None])
def test_it_decides_what_the_gateways_objects_decide_on_a_loop(delay: float | str, budget: float | None) -> None:
    told, _ = same(policy(budget, delay=inf if delay == "off" else delay), Worlds(1))
    assert delay == "off" or sum(told.hedges) > 0


LEARNING = Learning(window=200, min_samples=20, warmup=20)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"delay": 2.0, "max_hedges": 2, "max_attempts": 3}, None),
        ({"delay": "auto", "max_hedges": 2, "max_attempts": 4, "learning": LEARNING}, Reason.PROBABILITY),
        ({"delay": 2.0, "shadow": True}, Reason.SHADOW),
        ({"delay": "p90", "throttle": ThrottleSettings(max_tokens=6.0)}, Reason.OUTAGE),
        ({"delay": 0.5, "first_token": 6.0, "total": 9.0}, None),
        ({"delay": 2.0, "width": 2}, None),
        ({"delay": "p90", "order": Rotate(), "rollout": 0.5}, Reason.ROLLOUT),
        ({"delay": 2.0, "order": Fastest(), "max_attempts": 3}, None),
        ({"delay": "auto", "holdout": 0.3}, Reason.HOLDOUT),
        ({"delay": 2.0, "limits": Limits(tokens_per_minute=60_000)}, Reason.BUDGET),
    ],
)
@pytest.mark.parametrize("failing", [0.0, 0.03])
def test_and_so_with_failures_outages_breakers_and_all_that_limits_hedges(
    settings: dict[str, object], reason: Reason | None, failing: float
) -> None:
    """Three places, with breakers: a request of which nothing has to be decided may not be left out of what counts."""
    watches = {name: Watch(BreakerSettings(failures=4, open_for=3.0, slow_after=8.0)) for name in "abc"}
    told, health = same(policy(0.2, **settings), Worlds(2, failing=failing), at=3, watches=watches)
    assert reason is None or told.skipped[reason] > 0
    if failing:
        assert sum(told.failovers) > 0
        assert any(breaker.why for breaker in health.breakers(arrivals(7)[-1]).values())


def test_one_seed_gives_the_same_bytes_whatever_the_hashes_of_strings() -> None:
    program = """
import sys
from hashlib import sha256
from random import Random
from bench.eval_replay import places, policy
from tests.planner.test_replay import TOKENS, Worlds, arrivals
from hedgerow.planner.replay import Replay
rules = policy(0.1, delay="auto", max_hedges=2, max_attempts=3)
told = Replay(Worlds(3, failing=0.02, count=700), rules, places(3), Random(8).random).run(arrivals(7, 700), TOKENS)
print(sha256(b"".join(map(bytes, (told.took, told.hedges, told.failovers, told.winner, told.hedged_at)))).hexdigest())
"""
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=ROOT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(printed) == 1


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


def test_a_request_that_is_over_leaves_nothing_to_the_collector() -> None:
    """A timer holds who is called, who holds the timer; thousands of requests a second would keep it busy."""
    replay = Replay(Worlds(1, failing=0.05), policy(None, delay=1.0, throttle=None), places(2), Random(8).random)
    gc.collect()
    gc.disable()
    try:
        told = replay.run(arrivals(7), TOKENS)
        assert gc.collect() == 0
    finally:
        gc.enable()
    assert sum(told.hedges) > 100
