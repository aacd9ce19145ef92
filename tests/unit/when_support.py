"""Requests in virtual time through the real delays: what comes due, what is learned, how long they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from random import Random

from hedgerow.policy.ask import Ask
from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.rules import Choice
from hedgerow.policy.when import When

Draw = Callable[[Random, float], float]
"""How long an attempt takes that is launched at a time."""
REFRESH = 10.0


@dataclass(frozen=True)
class Sort:
    """Requests of one prompt size."""

    tokens: int
    weight: float
    primary: Draw
    backup: Draw


def lognormal(mu: float, sigma: float) -> Draw:
    return lambda random, _now: random.lognormvariate(mu, sigma)


def hanging(share: float, draw: Draw) -> Draw:
    return lambda random, now: inf if random.random() < share else draw(random, now)


@dataclass
class Traffic:
    """One request every `every` seconds. An attempt that hangs is broken off at `limit` when it runs alone."""

    when: When
    model: LatencyModel
    sorts: Sequence[Sort]
    random: Random = field(default_factory=lambda: Random(4))
    every: float = 0.1
    limit: float = 60.0
    backup: str = "b"
    now: float = 0.0
    requests: int = 0
    due: int = 0
    took: list[float] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    _later: list[tuple[float, int, Callable[[float], object]]] = field(default_factory=list)
    _refresh_at: float = 0.0
    _order: int = 0

    def run(self, requests: int) -> Traffic:
        weights = [sort.weight for sort in self.sorts]
        for sort in self.random.choices(self.sorts, weights, k=requests):
            self.now += self.every
            self._catch_up(self.now)
            self._request(sort)
        return self

    def reset(self) -> Traffic:
        """Count anew from here on."""
        self.requests = self.due = 0
        self.took.clear()
        self.choices.clear()
        return self

    @property
    def share(self) -> float:
        return self.due / self.requests

    def quantile(self, p: float) -> float:
        return sorted(self.took)[int(p * len(self.took))]

    def _at(self, moment: float, call: Callable[[float], object]) -> None:
        self._order += 1
        heappush(self._later, (moment, self._order, call))

    def _catch_up(self, now: float) -> None:
        while self._later and self._later[0][0] <= now:
            moment, _, call = heappop(self._later)
            call(moment)
        if now >= self._refresh_at:
            self._refresh_at = now + REFRESH
            self.when.refresh(now)

    def _request(self, sort: Sort) -> None:
        ask = Ask(str(self.requests), stream=True, input_tokens=sort.tokens, started_at=self.now)
        choice = self.when.choose(ask, "a", self.backup, self.now)
        self.choices.append(choice)
        self.requests += 1
        primary, coin = sort.primary(self.random, self.now), self.random.random()
        if primary <= choice.delay or coin >= choice.probability:
            self.took.append(primary)
            self._learn("a", sort, min(primary, self.limit), primary > self.limit, 0.0)
            return
        self.due += 1
        hedge = sort.backup(self.random, self.now + choice.delay)
        took = min(primary, choice.delay + hedge, self.limit)
        self.took.append(took)
        done, hedge_done = took == primary, took == choice.delay + hedge
        self._learn("a", sort, took, not done, 0.0)
        self._learn(self.backup, sort, took - choice.delay, not hedge_done, choice.delay)
        self._at(
            self.now + took,
            lambda now: self.when.hedged(
                ask, "a", self.backup, took, took - choice.delay, now, done=done, hedge_done=hedge_done
            ),
        )  # fmt: skip

    def _learn(self, target: str, sort: Sort, seconds: float, censored: bool, after: float) -> None:
        self._at(
            self.now + after + seconds,
            lambda now: self.model.observe(target, True, sort.tokens, seconds, censored, now),
        )
