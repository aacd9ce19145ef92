"""One stream replayed within one budget, beside the best that was possible and beside a simple rule."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush
from math import inf

import msgspec

from bench.eval_offline import best
from bench.eval_replay import RATE, policy, replay_stream
from bench.streams import Stream, quantile
from hedgerow.policy.budget import HEDGES

WARM = 2_000
"""Requests that are left out of all figures, at the start: until then too little is known."""
TARGET = 0.99
ENOUGH = 500
"""Recorded times from which on learning must reach what was possible."""
NEAR = 0.95
"""How much of the possible cut of the p99 it must reach,"""
CLOSE = 0.01
"""unless it is as close to it as this share of the p99."""
OFF = 0.005
"""How far the hedges of a budget of 5 % may be off; fewer are none too few where more would not help."""


class Times(msgspec.Struct, frozen=True):
    """Percentiles of the time to the first token, in seconds."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, times: Sequence[float]) -> Times:
        ascending = sorted(times)
        return cls(*(quantile(ascending, p) for p in (0.5, 0.95, 0.99)))


class Score(msgspec.Struct, frozen=True):
    """What came of it. Extra attempts are per request."""

    group: str
    stream: str
    draw: str
    samples: int
    stationary: bool
    budget: float
    alone: Times
    """Without hedging."""
    possible: float
    """The shortest p99 that one hedge per request could make of these requests, known from the end."""
    possible_delay: float
    possible_probability: float
    hedged: Times
    extra: float
    beyond: float
    """The most hedges in any stretch beyond what was granted for it: the burst bounds it."""
    skipped: dict[str, int]
    rule: Times
    """With a simple rule instead: the quantile of the last 1,000 first attempts, and a bucket of the same burst."""
    rule_extra: float

    @property
    def possible_cut(self) -> float:
        return 1.0 - self.possible / self.alone.p99

    @property
    def cut(self) -> float:
        return 1.0 - self.hedged.p99 / self.alone.p99

    @property
    def rule_cut(self) -> float:
        return 1.0 - self.rule.p99 / self.alone.p99

    @property
    def reached(self) -> float:
        """How much of the possible cut; 1 where there is nothing to cut."""
        return self.cut / self.possible_cut if self.possible_cut > CLOSE else 1.0

    @property
    def judged(self) -> bool:
        """Whether it must reach what was possible."""
        return self.stationary and self.samples >= ENOUGH

    def faults(self) -> list[str]:
        """What falls short of what the design promises."""
        found = []
        if self.beyond > HEDGES.burst + 1e-6:
            found.append("over the cap")
        wanted = NEAR * self.possible_cut if self.stationary else self.rule_cut
        short = self.cut < min(wanted, self.possible_cut - CLOSE)
        off = self.extra - self.budget
        if self.budget == 0.05 and self.judged and (off > OFF or (short and off < -OFF)):
            found.append("off the budget")
        if short and (self.judged or not self.stationary):
            found.append("short of the possible" if self.stationary else "behind the simple rule")
        return found


def score(group: str, stream: Stream, budget: float, *, rate: float = RATE, seed: int = 1) -> Score:
    """Replay it, and work out what could have been."""
    told = replay_stream(stream, policy(budget), rate=rate, seed=seed)
    first, second = stream.primary[WARM:], stream.backup[WARM:]
    offline = best(first, second, budget, TARGET)
    took, hedged = simple_rule(stream, budget, HEDGES.burst, rate=rate)
    count = len(first)
    return Score(
        group,
        stream.name,
        stream.draw,
        stream.samples,
        stream.stationary,
        budget,
        Times.of(first),
        offline.quantile,
        offline.delay,
        offline.probability,
        Times.of(told.took[WARM:]),
        sum(told.hedges[WARM:]) / count,
        told.most,
        {str(reason): times for reason, times in told.skipped.items()},
        Times.of(took[WARM:]),
        sum(hedged[WARM:]) / count,
    )


def simple_rule(
    stream: Stream, budget: float, burst: float, *, rate: float = RATE, window: int = 1_000
) -> tuple[list[float], list[bool]]:
    """What a rule of three lines would do: hedge at the quantile of the last first attempts, if the bucket allows.

    Requests come evenly, and each time is known once it is over. A first attempt that is broken off counts with the
    time it had run. Answers with what each request took, and whether it was hedged.
    """
    recent: deque[float] = deque()
    ascending: list[float] = []
    running: list[tuple[float, float]] = []
    took, hedged, balance = [], [], burst
    for number, (first, second) in enumerate(zip(stream.primary, stream.backup, strict=True)):
        now = number / rate
        while running and running[0][0] <= now:
            recent.append(heappop(running)[1])
            insort(ascending, recent[-1])
            if len(recent) > window:
                del ascending[bisect_left(ascending, recent.popleft())]
        balance = min(balance + budget, burst)
        delay = quantile(ascending, 1.0 - budget) if len(ascending) >= 100 else inf
        hedge = first > delay and balance >= 1.0
        balance -= hedge
        took.append(min(first, delay + second) if hedge else first)
        hedged.append(hedge)
        heappush(running, (now + took[-1], took[-1]))
    return took, hedged
