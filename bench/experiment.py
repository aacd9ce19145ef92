"""Does the experiment find what is there, and nothing where nothing is? `python -m bench.experiment` tries it often.

Each run is a route in virtual time with a share held out: the gateway's own hedger, race, guards and assignment of
sides, and the report's own statistics. With a fixed delay, no cap and two targets that are independent of each other,
what is true has a closed form, which is what the intervals are held against:

    P(unhedged > t) = S(t)        P(hedged > t) = S(t) for t < delay, else S(t) S(t - delay)
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from math import inf, log
from random import Random
from statistics import NormalDist

import msgspec
import numpy as np

from bench.eval_replay import Recorded, Replay, places, policy
from hedgerow.events import Arm, AttemptEnded, Outcome, Reason, Role
from hedgerow.report import statistics as stats
from hedgerow.report.analysis import analyse
from hedgerow.report.facts import Attempt, Request
from hedgerow.report.result import Percentile, Route
from hedgerow.report.statistics import Numbers
from hedgerow.testing import VirtualLoop, run_virtual

DELAY = 4.0
"""Seconds; about one in fourteen requests takes longer."""
RATE = 50.0
STRAGGLERS, MEDIAN, SPREAD, SLOWER, SLOW_SPREAD = 0.08, 1.0, 0.5, 6.0, 0.5
"""Times to the first token are a mixture of two log-normals: most around a second, some six times as slow."""
_NORMAL = NormalDist()


def draw(random: Random) -> float:
    """One attempt's time to its first token."""
    if random.random() < STRAGGLERS:
        return MEDIAN * SLOWER * random.lognormvariate(0.0, SLOW_SPREAD)
    return MEDIAN * random.lognormvariate(0.0, SPREAD)


def survival(t: float) -> float:
    """How many attempts take longer, exactly."""
    if t <= 0.0:
        return 1.0
    most = _NORMAL.cdf(-log(t / MEDIAN) / SPREAD)
    slow = _NORMAL.cdf(-log(t / MEDIAN / SLOWER) / SLOW_SPREAD)
    return (1.0 - STRAGGLERS) * most + STRAGGLERS * slow


def hedged_survival(t: float) -> float:
    """The same with a hedge after `DELAY`."""
    return survival(t) * (survival(t - DELAY) if t >= DELAY else 1.0)


def true_quantile(law: Callable[[float], float], q: float) -> float:
    """Where a survival function comes down to 1 - q."""
    low, high = 0.0, 10_000.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        low, high = (middle, high) if law(middle) > 1.0 - q else (low, middle)
    return high


class Truth(msgspec.Struct, frozen=True):
    """What both sides of an experiment come to at one percentile."""

    hedged: float
    holdout: float

    @property
    def change(self) -> float:
        """What hedging changes, as a share."""
        return self.hedged / self.holdout - 1.0


def truth(percentile: float, *, shadow: bool) -> Truth:
    """By the closed form."""
    without = true_quantile(survival, percentile / 100.0)
    return Truth(without if shadow else true_quantile(hedged_survival, percentile / 100.0), without)


def simulate(requests: int, holdout: float, seed: int, *, shadow: bool) -> list[Request]:
    """What a route does with so many requests."""
    random = Random(seed)
    times = [[draw(random) for _ in range(requests)] for _ in range(2)]
    ended: dict[str, list[AttemptEnded]] = {}

    def hear(event: object) -> None:
        if isinstance(event, AttemptEnded):
            ended.setdefault(event.request_id, []).append(event)

    name = f"seed-{seed}-"
    rules = policy(None, delay=DELAY, shadow=shadow, holdout=holdout, throttle=None)

    async def main(loop: VirtualLoop) -> list[Request]:
        world = Recorded(loop, *times)
        replay = Replay(loop, world, rules, random, at=places(), listeners=[hear], rate=RATE, name=name)
        told = await replay.run([500] * requests)
        return [
            _request(told.arms[index], told.came_at[index], told.took[index], ended[f"{name}{index}"])
            for index in range(requests)
        ]

    return run_virtual(main)


def _request(arm: Arm | None, came_at: float, took: float, ended: list[AttemptEnded]) -> Request:
    ended.sort(key=lambda each: each.attempt)
    tried = [Attempt(each.target, each.role, each.outcome, each.launched_at, each.first_token_at) for each in ended]
    winner = next(index for index, each in enumerate(ended) if each.outcome is Outcome.WON)
    hedged = any(each.role is Role.HEDGE for each in ended)
    skipped = Reason.HOLDOUT if arm is Arm.HOLDOUT and took > DELAY and not hedged else None
    at = came_at + took
    return Request("replay", arm, Outcome.WON, came_at, at, at, None, winner, None, skipped, tried)


class Found(msgspec.Struct, frozen=True):
    """One run: for each percentile whether its intervals held the truth; and the verdict."""

    held: dict[str, bool]
    verdict: str


def experiment(requests: int, holdout: float, seed: int, *, shadow: bool) -> Found:
    """One run."""
    (route,) = analyse(simulate(requests, holdout, seed, shadow=shadow), seed).report.routes
    return Found({f"p{each.percentile:g}": held for each, held in _held(route, shadow)}, route.verdict.word)


def _held(route: Route, shadow: bool) -> Iterator[tuple[Percentile, bool]]:
    for each in route.first_token:
        if each.change is not None and (interval := each.change.interval) is not None:
            change = truth(each.percentile, shadow=shadow).change
            low, high = (
                (-inf if interval.low is None else interval.low),
                inf if interval.high is None else interval.high,
            )
            yield each, low <= change <= high


SIZES = (2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000)
"""Thousands of requests that the power table tries."""


def needed(holdout: float, cut: float, seed: int, *, tries: int = 200) -> int | None:
    """How many requests until a p99 cut by so much is called "pays" in four of five tries, to the next of `SIZES`."""
    rng = np.random.default_rng(seed)

    def times(count: int) -> Numbers:
        slow = rng.random(count) < STRAGGLERS
        most, rest = rng.lognormal(log(MEDIAN), SPREAD, count), rng.lognormal(log(MEDIAN * SLOWER), SLOW_SPREAD, count)
        ordered: Numbers = np.sort(np.where(slow, rest, most))
        return ordered

    def seen(requests: int) -> bool:
        held_out = round(requests * holdout)
        with_it = stats.resampled(times(requests - held_out) * (1.0 - cut), 0.99, rng)
        return stats.interval(with_it / stats.resampled(times(held_out), 0.99, rng) - 1.0).high < 0.0

    for thousands in SIZES:
        requests = thousands * 1_000
        if stats.knows(round(requests * holdout), 0.99) and sum(seen(requests) for _ in range(tries)) >= 0.8 * tries:
            return requests
    return None


def repeat(runs: int, requests: int, holdout: float, seed: int, *, shadow: bool) -> bool:
    """Run and print what was found; whether p99 was found as often as it should be, and nothing that is not there."""
    held: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for run in range(runs):
        found = experiment(requests, holdout, seed + run, shadow=shadow)
        held.update(name for name, yes in found.held.items() if yes)
        verdicts[found.verdict] += 1
    told = {
        "mode": "shadow" if shadow else "on",
        "runs": runs,
        "requests": requests,
        "holdout": holdout,
        "true change": {name: round(truth(float(name[1:]), shadow=shadow).change, 4) for name in sorted(held)},
        "intervals that held it": dict(sorted(held.items())),
        "verdicts": dict(verdicts),
    }
    print(json.dumps(told, indent=2))
    return held["p99"] >= 0.93 * runs and (not shadow or verdicts["pays"] <= 0.05 * runs)


def main(arguments: list[str]) -> int:
    """Print what was found; 1 where it is not what should have been."""
    parser = argparse.ArgumentParser(prog="python -m bench.experiment", description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--holdout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--power", action="store_true", help="how many requests show which cut of p99, instead")
    options = parser.parse_args(arguments)
    if options.power:
        for holdout in (0.05, 0.1, 0.2, 0.5):
            counts = (f"{cut:.0%} {needed(holdout, cut, options.seed)}" for cut in (0.1, 0.2, 0.3, 0.5))
            print(f"holdout {holdout:.0%}: {', '.join(counts)}", flush=True)
        return 0
    rest = options.runs, options.requests, options.holdout, options.seed
    found = [repeat(*rest, shadow=shadow) for shadow in (False, True)]
    return 0 if all(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
