"""What when and whether cost a request that is not hedged: microseconds on its path, and memory per cell and target.

Run: python -m bench.judgement
"""

from __future__ import annotations

import asyncio
import gc
import random
import time
import tracemalloc
from collections.abc import Callable

from bench.path import LIMITS
from hedgerow.alarm import Alarm
from hedgerow.engine import Run
from hedgerow.events import AttemptEnded, Headers, Outcome, Role
from hedgerow.hedger import Hedger
from hedgerow.policy.account import Limits
from hedgerow.policy.ask import Ask
from hedgerow.policy.breaker import Breaker, BreakerSettings
from hedgerow.policy.budget import FAILOVERS, HEDGES
from hedgerow.policy.health import Health, Watch
from hedgerow.policy.judge import Shared
from hedgerow.policy.latency.cells import Cells, Learning
from hedgerow.policy.outage import ThrottleSettings
from hedgerow.policy.plan import Candidate, Place
from hedgerow.policy.price import Price
from hedgerow.policy.settings import Policy
from hedgerow.policy.spend import Funds
from hedgerow.policy.terms import Terms

CALLS, ROUNDS = 5_000, 30
GOAL = 10.0
"""Microseconds per request."""

POLICY = Policy(
    delay="auto",
    min_delay=0.05,
    max_delay=30.0,
    warmup_delay=2.0,
    limits=Limits(HEDGES, FAILOVERS, nanousd_per_day=20_000_000_000),
    throttle=ThrottleSettings(),
    first_token=60.0,
    stall=30.0,
    total=600.0,
)
"""A route as it is by default, and a budget in money."""

HEAD: Headers = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"date", b"Mon, 30 Nov 2026 17:00:00 GMT"),
    *LIMITS,
]


class Bench:
    """A route of two targets that knows enough of both to have chosen its delays."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.alarm = Alarm(self.loop)
        self.places = [Place(Candidate(name, name)) for name in ("a", "b")]
        self.shared = Shared(random.random, funds=Funds(Limits(HEDGES)), terms={"a": Terms(Price(250, 2000))})
        health = Health({name: Watch(BreakerSettings()) for name in ("a", "b")})
        self.hedger = Hedger("fast", self.places, POLICY, health=health, shared=self.shared)
        self.judge = self.hedger._judge
        self.now = 1e5 + 0.123456789
        self.ask = self.make_ask()
        rng = random.Random(4)
        for number in range(3_000):
            self.now += 0.01
            took = rng.lognormvariate(-0.7, 0.5)
            tokens = (300, 2_000, 8_000)[number % 3]
            self.ask = Ask("r", True, tokens)
            self.first_token(took)
            self.emit_ended(took, tokens)
            self.judge.choose(self.ask, self.hedger._candidates, self.now)
        for _ in self.hedger.refreshing(self.now):
            pass
        self.hedger.reported(self.places[0], HEAD, self.now, self.now)
        self.ask = self.make_ask()
        self.choice = self.judge.choose(self.ask, self.hedger._candidates, self.now)
        self.order = self.hedger.health.order(self.hedger._candidates, self.now)

    def make_ask(self) -> Ask:
        now = self.now
        return Ask("hr-0123456789-123456", True, 2_000, 500, now, now + 600.0, True, "", frozenset())

    def arrived(self) -> None:
        self.judge.arrived(self.ask, self.now)

    def in_order(self) -> None:
        self.hedger.health.order(self.hedger._candidates, self.now)

    def choose(self) -> None:
        self.judge.choose(self.ask, self.hedger._candidates, self.now)

    def plan(self) -> None:
        self.hedger._plans.of(self.choice.delay, self.ask, self.now)

    def run(self) -> Run:
        return Run(None, self.alarm, self.hedger.begins(self.ask, self.now)[0], self.ask)  # type: ignore[arg-type]  # not driven

    def bare_run(self) -> None:
        """What an engine without judgement would have made, too."""
        plan = self.hedger._plans.alone
        Run(None, self.alarm, (plan, self.hedger._candidates, None, None, None), self.ask)  # type: ignore[arg-type]  # not driven

    def launched(self) -> None:
        self.hedger.launched(self.places[0], self.ask, Role.PRIMARY, self.now)

    def reported(self) -> None:
        self.hedger.reported(self.places[0], HEAD, self.now, self.now)

    def answered(self) -> None:
        self.hedger.answered(self.places[0], self.ask, self.now - 0.5, self.now)

    def first_token(self, took: float = 0.5) -> None:
        """Learned from; nobody else hears of it."""
        self.hedger.first_token(self.ask, 0, "a", Role.PRIMARY, self.now - took, self.now)

    def emit_ended(self, took: float = 0.5, tokens: int = 2_000) -> None:
        now = self.now
        times = now - took - 2.0, now - took, now - 1.0, now
        self.hedger.emit(
            AttemptEnded("r", 0, "a", Role.PRIMARY, Outcome.WON, *times, 200, 4_000, None, None, True, tokens)
        )

    def request(self) -> None:
        """All that judgement does for one request."""
        self.now += 0.001
        self.ask = self.make_ask()
        self.run()
        self.launched()
        self.reported()
        self.answered()
        self.first_token()
        self.emit_ended()


def micros(call: Callable[[], object]) -> tuple[float, float]:
    """The best and the middle of some rounds, in microseconds of CPU per call."""
    taken = []
    for _ in range(ROUNDS):
        started = time.thread_time()
        for _ in range(CALLS):
            call()
        taken.append((time.thread_time() - started) / CALLS * 1e6)
    taken.sort()
    return taken[0], taken[ROUNDS // 2]


def size_of(make: Callable[[], object]) -> int:
    """Bytes that what is made holds."""
    gc.collect()
    tracemalloc.start()
    made = make()
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    del made
    return size


def cells(sizes: int) -> Cells:
    """The full cells of one target that is asked for streams of so many prompt sizes, each with its distribution."""
    made, rng = Cells(Learning()), random.Random(4)
    for number in range(2_000 * sizes):
        tokens = (300, 2_000, 8_000, 30_000, 100_000)[number % sizes]
        made.observe("a", True, tokens, rng.lognormvariate(-0.7, 0.5), False, number / 100)
    for tokens in (300, 2_000, 8_000, 30_000, 100_000)[:sizes]:
        made.distribution("a", True, tokens, 20.0 * sizes)
    return made


def breaker() -> Breaker:
    made = Breaker(BreakerSettings())
    for number in range(200):
        made.record(True, False, number / 10)
    return made


def main() -> None:
    gc.disable()
    bench = Bench()
    print(f"{'us of CPU':46}    best  median   {ROUNDS} rounds of {CALLS}")
    steps: list[tuple[str, Callable[[], object]]] = [
        ("(an empty call)", lambda: None),
        ("Ask", bench.make_ask),
        ("arrived: earn budgets", bench.arrived),
        ("order: who may have traffic", bench.in_order),
        ("choose: the delay of its kind", bench.choose),
        ("plan", bench.plan),
        ("run: the last four, and the engine's run", bench.run),
        ("  an engine's run without judgement", bench.bare_run),
        ("launched: quota, probe", bench.launched),
        ("reported: rate limits, ten times a second", bench.reported),
        ("answered: breaker", bench.answered),
        ("first token: learned from", bench.first_token),
        ("AttemptEnded: made, learned from", bench.emit_ended),
    ]
    for name, call in steps:
        best, middle = micros(call)
        print(f"{name:46}{best:8.2f}{middle:8.2f}")
    (best, middle), (bare, bare_middle) = micros(bench.request), micros(bench.bare_run)
    print(f"{'all of it, less an engine run':46}{best - bare:8.2f}{middle - bare_middle:8.2f}")
    print(f"goal: below {GOAL:g} us: {'ok' if middle - bare_middle < GOAL else 'short'}\n")
    print(f"{'bytes':46}")
    one, five = size_of(lambda: cells(1)), size_of(lambda: cells(5))
    print(f"{'a full cell of 1,000 samples, with its law':46}{(five - one) // 4:8}")
    print(f"{'a target, streamed, one prompt size':46}{one:8}")
    print(f"{'a target, streamed, all five prompt sizes':46}{five:8}")
    print(f"{'a breaker with 100 results':46}{size_of(breaker):8}")


if __name__ == "__main__":
    main()
