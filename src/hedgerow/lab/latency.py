"""When a simulated provider's tokens come.

A time to first token is read off a *shape* (a quantile function) at a normal score. The score is a pure function of
seed, provider, request key and how often this provider has seen the key: run the same requests with and without
hedging and both runs see the same draws.

    score = sqrt(rho) * shared(seed, key) + sqrt(1 - rho) * own(seed, provider, key, seen)

The shared part is the same at every provider that has the same seed, so the times of two providers are tied by a
Gaussian copula with correlation `rho` (Spearman's rank correlation is then 6/pi * asin(rho / 2)); so are repeats at
one provider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import accumulate
from statistics import NormalDist
from typing import Protocol

from hedgerow.errors import ConfigError
from hedgerow.lab.regimes import SlowRegimes

_NORMAL = NormalDist()
_Z95 = _NORMAL.inv_cdf(0.95)
_SQRT2 = math.sqrt(2)
DEFAULT_TAIL = 2.4
"""Pareto index between p95 and p99 of the median endpoint in OpenRouter's statistics of August 2026."""


def bits(*parts: object) -> int:
    """64 uniform bits that are a pure function of `parts`."""
    text = "\x1f".join(map(str, parts))
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def uniform(*parts: object) -> float:
    """A number strictly between 0 and 1 that is a pure function of `parts`."""
    return ((bits(*parts) >> 11) + 0.5) * 2.0**-53


def normal(*parts: object) -> float:
    """A standard normal deviate that is a pure function of `parts`."""
    return _NORMAL.inv_cdf(uniform(*parts))


def upper(score: float) -> float:
    """The chance that a standard normal deviate exceeds `score`; exact far into the tail, where 1 - cdf is not."""
    return 0.5 * math.erfc(score / _SQRT2)


class Shape(Protocol):
    """A distribution of times, as its quantile function."""

    def at(self, score: float) -> float:
        """The time in seconds that belongs to this normal score (0: the median, 1.645: p95)."""


@dataclass(frozen=True, slots=True)
class HeavyTail:
    """Lognormal up to p95, Pareto above: meets p50, p95 and p99 exactly. Seconds.

    Without `p99` the tail falls with index `tail` (smaller is heavier) and p99 is what follows from it.
    """

    p50: float
    p95: float
    p99: float | None = None
    tail: float = DEFAULT_TAIL

    def __post_init__(self) -> None:
        top = math.inf if self.p99 is None else self.p99
        if not (0 < self.p50 <= self.p95 < top and 0 < self.tail < math.inf) or self.p99 == math.inf:
            p99 = "" if self.p99 is None else f", p99 {self.p99 * 1000:g} ms"
            given = f"p50 {self.p50 * 1000:g} ms, p95 {self.p95 * 1000:g} ms{p99}, tail {self.tail:g}"
            raise ConfigError([f"latency: need 0 < p50 <= p95 < p99 and a tail above 0; got {given}"])

    @property
    def index(self) -> float:
        """The Pareto index of the tail: as the two upper percentiles imply it, else as given."""
        return self.tail if self.p99 is None else math.log(5) / math.log(self.p99 / self.p95)

    def at(self, score: float) -> float:
        if score <= _Z95:
            return self.p50 * math.exp(math.log(self.p95 / self.p50) / _Z95 * score)
        return self.p95 * float((0.05 / upper(score)) ** (1 / self.index))


@dataclass(frozen=True, slots=True)
class Stragglers:
    """Lognormal around `p50` seconds, but a `share` of requests takes `factor` times as long.

    The stragglers are the highest scores, so that with correlation they tend to be the same requests everywhere.
    """

    p50: float
    sigma: float
    share: float
    factor: float

    def at(self, score: float) -> float:
        above = upper(score)
        if above < self.share:
            return self.factor * self.p50 * math.exp(-self.sigma * _NORMAL.inv_cdf(max(above / self.share, 1e-300)))
        below = (1 - above) / (1 - self.share)
        return self.p50 * math.exp(self.sigma * _NORMAL.inv_cdf(min(max(below, 1e-300), 1 - 1e-16)))


class Resampled:
    """Recorded times in seconds; a score picks the time of the same rank, so every recorded time is equally likely."""

    __slots__ = ("_sorted",)

    def __init__(self, times: Sequence[float]) -> None:
        self._sorted = sorted(times)

    def at(self, score: float) -> float:
        count = len(self._sorted)
        return self._sorted[max(0, count - 1 - int(upper(score) * count))]


class Pace:
    """How uneven the times between tokens are: factors of the median gap, lognormal with log-sd `jitter`.

    An answer's gaps walk, from a place of its own, round a shuffled ring of 256 equally likely factors: as cheap as a
    table, and any 256 gaps in a row take the same time in all.
    """

    __slots__ = ("_factors", "_until")
    _SIZE = 256

    def __init__(self, jitter: float) -> None:
        ring = sorted(range(self._SIZE), key=lambda i: bits("pace", i))
        self._factors = [math.exp(jitter * _NORMAL.inv_cdf((i + 0.5) / self._SIZE)) for i in ring]
        self._until = [0.0, *accumulate(self._factors)]

    def gap(self, walk: int, token: int) -> float:
        """The gap before token `token` (from 1), in median gaps; `walk` says where on the ring the answer starts."""
        return self._factors[(walk + token) % self._SIZE]

    def total(self, walk: int, tokens: int) -> float:
        """From the first of `tokens` tokens to the last, in median gaps."""
        start = (walk + 1) % self._SIZE
        rounds, rest = divmod(start + max(0, tokens - 1), self._SIZE)
        return rounds * self._until[-1] + self._until[rest] - self._until[start]


EVEN = Pace(0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyModel:
    """One provider's times to first token, in simulated seconds.

    `rho` is the correlation with other providers of the same seed, `prefill` is added per 1,000 prompt tokens,
    `slow` multiplies everything drawn while a slow regime lasts. With `sequence` the times are those, walked in the
    order in which requests come (and round again), and neither seed nor key matters.
    """

    provider: str
    seed: int
    shape: Shape
    rho: float = 0.0
    prefill: float = 0.0
    slow: SlowRegimes | None = None
    sequence: tuple[float, ...] = ()

    def score(self, key: str, seen: int) -> float:
        """The normal score of the `seen`-th (from 0) request with this key at this provider."""
        own = normal(self.seed, "own", self.provider, key, seen)
        if not self.rho:
            return own
        return math.sqrt(self.rho) * normal(self.seed, "shared", key) + math.sqrt(1 - self.rho) * own

    def ttft(self, key: str, seen: int, *, prompt_tokens: int, nth: int, elapsed: float) -> float:
        """Seconds to the first token.

        `nth` counts this provider's requests from 0, `elapsed` is simulated seconds since its start or reset.
        """
        time = self.sequence[nth % len(self.sequence)] if self.sequence else self.shape.at(self.score(key, seen))
        if self.slow is not None:
            time *= self.slow.factor_at(elapsed)
        return time + self.prefill * prompt_tokens / 1000
