"""How fast the planner is, beside what is promised: its engine by policy, the search over a long log, the first report.

Run: python -m bench.planner [--requests 200000] [--million]. Exit code 1 where something is slower than promised.

Seconds are those of busy cores, so that what others do meanwhile counts little. It still makes caches colder, and
slower a core whose other half is busy: of the engine the best of three runs counts. The engine is compared with the
same objects on an event loop, too.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from math import inf
from pathlib import Path
from random import Random
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from tempfile import TemporaryDirectory

from bench.eval_replay import Recorded, places, policy
from bench.eval_replay import Replay as OnALoop
from bench.machine import look
from hedgerow.events import Failure
from hedgerow.planner.read import read
from hedgerow.planner.replay import Replay
from hedgerow.planner.search import Options, plan
from hedgerow.policy.account import Limits
from hedgerow.policy.budget import HEDGES
from hedgerow.policy.settings import Policy
from hedgerow.testing import VirtualLoop, run_virtual

RATE = 20.0
"""Requests a second. Delays are looked at every five seconds: the rarer requests are, the more that costs each."""
SIMPLE, AUTO = 100_000.0, 1_000_000 / 60.0
"""Requests per second of one core that are promised: for simple policies, and for `auto`."""
MILLION, SEARCH, REPORT = 60.0, 30.0, 10.0
"""Seconds that are promised: for a million requests with `auto`, for the search, and for the first report."""
ROWS = 100_000
"""Of the log that is searched."""
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
ON_A_LOOP = 20
"""One request of so many is tried on a loop, too."""
RUNS = 3

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
        self._taken = [[(seconds, None) for seconds in each] for each in (self.first, self.other)]
        self.tokens = [int(law.lognormvariate(7.0, 1.5)) for _ in range(count)]
        self.arrivals = []
        for _ in range(count):
            self.arrivals.append(at)
            at += law.expovariate(RATE)

    def attempt(self, request: int, place: int, _number: int, _now: float) -> tuple[float, Failure | None]:
        """As `replay.World`."""
        return self._taken[place][request]

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


def cpu(whose: int) -> float:
    """Seconds that this process, or those children that have ended, kept cores busy."""
    used = getrusage(whose)
    return used.ru_utime + used.ru_stime


def seconds(what: Callable[[], object]) -> float:
    """Of this process on a core."""
    started = time.process_time()
    what()
    return time.process_time() - started


def verdict(good: bool, promised: str) -> str:
    """As it is printed behind a figure."""
    return f"   promised {promised}: {'ok' if good else 'short'}"


def engine(count: int) -> bool:
    """Print what each policy comes to; whether that is enough."""
    print(f"{count:,} requests, {RATE:g} a second, two places, five prompt sizes\n")
    print(f"{'':32}{'hedged':>8}{'requests/s':>12}{'on a loop':>11}{'ratio':>7}")
    traffic, some = Traffic(count), Traffic(max(count // ON_A_LOOP, 1))
    good = True
    for name, rules in POLICIES.items():
        hedged = 0.0

        def replay(rules: Policy = rules) -> None:
            nonlocal hedged
            hedged = traffic.replay(rules)

        rate = count / min(seconds(replay) for _ in range(RUNS))
        loop = len(some.tokens) / seconds(lambda rules=rules: some.on_a_loop(rules))  # type: ignore[misc]
        promised = AUTO if name.startswith("auto") else SIMPLE
        good &= rate >= promised
        words = verdict(rate >= promised, f"{promised:,.0f}")
        print(f"{name:32}{hedged:>8.1%}{rate:>12,.0f}{loop:>11,.0f}{rate / loop:>7.1f}{words}")
    return good


def million() -> bool:
    """Print what a million requests with `auto` take; whether that is short enough."""
    traffic = Traffic(1_000_000)
    took = seconds(lambda: traffic.replay(POLICIES["auto"]))
    print(f"\n1,000,000 requests with auto: {took:.1f} s{verdict(took < MILLION, f'{MILLION:g} s')}")
    return took < MILLION


def search(folder: Path) -> bool:
    """Print what the search over a long log takes two processes; whether that is short enough on two free cores."""
    log = folder / "log.csv"
    with log.open("w") as file:
        command = [sys.executable, str(EXAMPLES / "latency_log.py"), "--requests", str(ROWS)]
        subprocess.run(command, stdout=file, check=True)
    own, theirs, started = cpu(RUSAGE_SELF), cpu(RUSAGE_CHILDREN), time.perf_counter()
    plan(*read([str(log)], (), timezone="UTC"), Options(jobs=2))
    own, theirs, wall = cpu(RUSAGE_SELF) - own, cpu(RUSAGE_CHILDREN) - theirs, time.perf_counter() - started
    took = own + theirs / 2
    words = f"{took:.1f} s of two free cores ({own + theirs:.1f} s of CPU; {wall:.1f} s here and now)"
    print(f"\nthe search over {ROWS:,} rows: {words}{verdict(took < SEARCH, f'{SEARCH:g} s')}")
    return took < SEARCH


def report(folder: Path) -> bool:
    """Print what a newcomer waits for the first report, with its page; whether that is short enough on a free core."""
    busy, started = cpu(RUSAGE_CHILDREN), time.perf_counter()
    log, page = str(EXAMPLES / "latency-log.csv"), str(folder / "plan.html")
    command = [sys.executable, "-m", "hedgerow", "plan", log, "--output", page]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    took, wall = cpu(RUSAGE_CHILDREN) - busy, time.perf_counter() - started
    words = f"{took:.1f} s of CPU ({wall:.1f} s here and now)"
    print(f"hedgerow plan examples/latency-log.csv: {words}{verdict(took < REPORT, f'{REPORT:g} s')}")
    return took < REPORT


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--million", action="store_true", help="go through a million requests with auto, too")
    given = parser.parse_args()
    machine = look()
    print(f"{machine.cpu}, {machine.cores} cores, load {machine.load:.1f}; {machine.python}")
    good = engine(given.requests)
    good &= not given.million or million()
    with TemporaryDirectory() as folder:
        good &= search(Path(folder))
        good &= report(Path(folder))
    sys.exit(not good)


if __name__ == "__main__":
    main()
