"""The best that one hedge per request could do, known from the whole stream: what learning is measured against.

All delays and probabilities are tried on the very requests that are replayed, each with the time that its own hedge
would take. Nothing is assumed of how the two go together.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from operator import neg

from bench.streams import quantile

DELAYS = 400
"""How many are tried, evenly spaced in the logarithm of the share of requests that they hedge."""

_PRECISION = 1e-5
"""How close to the shortest quantile the search comes, relative to it."""


@dataclass(frozen=True, slots=True)
class Best:
    """The delay and probability that make the quantile of these requests shortest; `inf` means never."""

    delay: float
    probability: float
    quantile: float
    extra: float
    """Hedges per request."""


def best(primary: Sequence[float], backup: Sequence[float], budget: float, target: float = 0.99) -> Best:
    """By trying: for each delay the highest probability that the budget affords."""
    return _Tried(primary, backup, target).best(budget)


class _Tried:
    def __init__(self, primary: Sequence[float], backup: Sequence[float], target: float) -> None:
        order = sorted(range(len(primary)), key=primary.__getitem__, reverse=True)
        self.slowest = [primary[index] for index in order]
        self.hedges = [backup[index] for index in order]
        self.allowed = (1.0 - target) * len(order) + 1e-6
        self.target = target

    def best(self, budget: float) -> Best:
        ascending = self.slowest[::-1]
        found = Best(inf, 0.0, quantile(ascending, self.target), 0.0)
        shares = [budget, *((budget / 20.0) ** (1.0 - step / DELAYS) for step in range(DELAYS))]
        delays = dict.fromkeys([*(quantile(ascending, 1.0 - share) for share in shares), 0.0])
        for delay in delays:
            hedged = self.longer(delay) / len(ascending)
            if hedged == 0.0:
                continue
            probability = min(1.0, budget / hedged)
            if self.late(found.quantile * (1.0 - _PRECISION), delay, probability) <= self.allowed:
                reached = self.quantile(delay, probability, found.quantile)
                found = Best(delay, probability, reached, probability * hedged)
        return found

    def longer(self, t: float) -> int:
        """How many primaries take longer."""
        return bisect_left(self.slowest, -t, key=neg)

    def late(self, t: float, delay: float, probability: float) -> float:
        """How many requests take longer than `t`, on average over the draws."""
        primaries = self.longer(t)
        if t < delay:
            return primaries
        latest = t - delay
        return primaries - probability * sum(1 for second in self.hedges[:primaries] if second <= latest)

    def quantile(self, delay: float, probability: float, high: float) -> float:
        """The target quantile with this hedge, which `high` is not below."""
        low = 0.0
        high = min(high, self.slowest[0], 1e9)
        while high - low > _PRECISION * high:
            middle = (low + high) / 2.0
            low, high = (low, middle) if self.late(middle, delay, probability) <= self.allowed else (middle, high)
        return high
