"""Laws of latency with a closed form, and a sample as one: each has `cdf`, `survival` and `quantile`."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import ceil, exp, inf, log
from statistics import NormalDist

from hedgerow.policy.reissue import Conditional, Law

NORMAL = NormalDist()


@dataclass(frozen=True)
class Pareto:
    shape: float
    least: float

    def survival(self, t: float, /) -> float:
        return 1.0 if t <= self.least else (self.least / t) ** self.shape

    def cdf(self, t: float, /) -> float:
        return 1.0 - self.survival(t)

    def quantile(self, p: float, /) -> float:
        return self.least * (1.0 - p) ** (-1.0 / self.shape) if p < 1.0 else inf


@dataclass(frozen=True)
class Exp:
    rate: float

    def survival(self, t: float, /) -> float:
        return exp(-self.rate * max(t, 0.0))

    def cdf(self, t: float, /) -> float:
        return 1.0 - self.survival(t)

    def quantile(self, p: float, /) -> float:
        return -log(1.0 - p) / self.rate if p < 1.0 else inf


@dataclass(frozen=True)
class LogNormal:
    mu: float
    sigma: float

    def cdf(self, t: float, /) -> float:
        return NORMAL.cdf((log(t) - self.mu) / self.sigma) if t > 0.0 else 0.0

    def survival(self, t: float, /) -> float:
        return NORMAL.cdf((self.mu - log(t)) / self.sigma) if t > 0.0 else 1.0

    def quantile(self, p: float, /) -> float:
        if p <= 0.0:
            return 0.0
        return exp(self.mu + self.sigma * NORMAL.inv_cdf(p)) if p < 1.0 else inf


class Sample:
    """Measured times; `hanging` more never ended."""

    def __init__(self, times: Iterable[float], hanging: int = 0) -> None:
        self.times = sorted(times)
        self.count = len(self.times) + hanging

    def cdf(self, t: float, /) -> float:
        return bisect_right(self.times, t) / self.count

    def survival(self, t: float, /) -> float:
        return 1.0 - self.cdf(t)

    def quantile(self, p: float, /) -> float:
        rank = max(1, ceil(p * self.count - 1e-9))
        return self.times[rank - 1] if rank <= len(self.times) else inf


class Mixed:
    """What requests of several kinds look like when nobody tells them apart."""

    def __init__(self, parts: Iterable[tuple[float, Law]]) -> None:
        self.parts = list(parts)

    def cdf(self, t: float, /) -> float:
        return sum(weight * law.cdf(t) for weight, law in self.parts)

    def survival(self, t: float, /) -> float:
        return sum(weight * law.survival(t) for weight, law in self.parts)

    def quantile(self, p: float, /) -> float:
        quantiles = [law.quantile(p) for _, law in self.parts]
        return smallest(lambda t: self.cdf(t) >= p, min(quantiles), max(quantiles))


def half_shared(law: Law, points: int = 200) -> Conditional:
    """P(Y <= y | X > t) for Y = X / 2 + Z, with X and Z of the same law: the mean over X's that are longer than t."""
    longer: dict[float, list[float]] = {}

    def conditional(y: float, t: float) -> float:
        if t not in longer:
            rest = law.survival(t)
            longer[t] = [law.quantile(1.0 - rest * (point + 0.5) / points) for point in range(points)]
        return sum(law.cdf(y - x / 2.0) for x in longer[t] if x < 2.0 * y) / points

    return conditional


def smallest(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The least t in (low, high] that it holds for, to 1e-6 of itself."""
    while high - low > 1e-6 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high
