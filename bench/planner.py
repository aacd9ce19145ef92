"""How fast the planner's engine is: requests per second of one core, by policy, beside the same engine on a loop.

Run: python -m bench.planner [--requests 200000] [--million]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from math import inf
from random import Random

from bench.eval_replay import Recorded, places, policy
from bench.eval_replay import Replay as OnALoop
from bench.machine import look
from hedgerow.events import Failure
from hedgerow.planner.replay import Replay
from hedgerow.policy.account import Limits
from hedgerow.policy.budget import HEDGES
from hedgerow.policy.settings import Policy
from hedgerow.testing import VirtualLoop, run_virtual

RATE = 20.0
"""Requests a second. Delays are looked at every five seconds: the rarer requests are, the more that costs each."""
GOAL, GOAL_OF_AUTO = 100_000.0, 1_000_000 / 60.0
"""Requests per second of one core: for what learns little, and for `auto`."""
ON_A_LOOP = 20
"""One request of so many is tried on a loop, too."""

POLICIES: dict[str, Policy] = {
    "off": policy(0.1, delay=inf),
    "fixed, 5 s": policy(0.1, delay=5.0),
    "p95": policy(0.1, delay="p95"),
    "auto": policy(0.1),
    "auto, two hedges": policy(0.1, max_hedges=2, max_attempts=3),
    "auto, also 1M tokens a minute": policy(0.1, limits=Limits(hedges=HEDGES, tokens_per_minute=1_000_000)),
}


class Traffic:
    """Requests at random times, of all prompt sizes; attempts take lognormal times, each its own."""

    def __init__(self, count: int) -> None:
        law, at = Random(1), 0.0
        self.first = [law.lognormvariate(0.0, 1.0) for _ in range(count)]
        self.other = [law.lognormvariate(0.0, 1.0) for _ in range(count)]
        self.tokens = [int(law.lognormvariate(7.0, 1.5)) for _ in range(count)]
        self.arrivals = []
        for _ in range(count):
            self.arrivals.append(at)
            at += law.expovariate(RATE)

    def attempt(self, request: int, place: int, _number: int, _now: float) -> tuple[float, Failure | None]:
        """As `replay.World`."""
        return (self.other if place else self.first)[request], None

    def replay(self, rules: Policy) -> float:
        """The share of hedges when the planner goes through all of it."""
        told = Replay(self, rules, places(), Random(2).random).run(self.arrivals, self.tokens)
        return sum(told.hedges) / len(told.hedges)

    def on_a_loop(self, rules: Policy) -> None:
        """The same objects on an event loop whose clock jumps, each request with all that the gateway makes for one."""

        async def main(loop: VirtualLoop) -> None:
            world = Recorded(loop, self.first, self.other)
            await OnALoop(loop, world, rules, Random(2), at=places(), rate=RATE).run(self.tokens)

        run_virtual(main)


def seconds(what: Callable[[], object]) -> float:
    """Of this process on a core: what others do meanwhile is not counted, though it makes caches colder."""
    started = time.process_time()
    what()
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--million", action="store_true", help="go through a million requests with auto, too")
    given = parser.parse_args()
    machine = look()
    print(f"{machine.cpu}, {machine.cores} cores, load {machine.load:.1f}; {machine.python}")
    print(f"{given.requests:,} requests, {RATE:g} a second, two places, five prompt sizes\n")
    print(f"{'':32}{'hedged':>8}{'requests/s':>12}{'on a loop':>11}{'ratio':>7}")
    traffic, some = Traffic(given.requests), Traffic(max(given.requests // ON_A_LOOP, 1))
    for name, rules in POLICIES.items():
        hedged = 0.0

        def replay(rules: Policy = rules) -> None:
            nonlocal hedged
            hedged = traffic.replay(rules)

        rate = given.requests / seconds(replay)
        loop = len(some.tokens) / seconds(lambda rules=rules: some.on_a_loop(rules))  # type: ignore[misc]
        goal = GOAL_OF_AUTO if name.startswith("auto") else GOAL
        reached = "" if rate >= goal else f"   goal {goal:,.0f}: short"
        print(f"{name:32}{hedged:>8.1%}{rate:>12,.0f}{loop:>11,.0f}{rate / loop:>7.1f}{reached}")
    if given.million:
        million = Traffic(1_000_000)
        print(f"\n1,000,000 requests with auto: {seconds(lambda: million.replay(POLICIES['auto'])):.1f} s of one core")


if __name__ == "__main__":
    main()
