"""What hedging at a fixed delay must give, in closed form, from samples of first-token times.

With primary and hedge times X and Y drawn independently from the same samples and a hedge that starts after `delay`,
the first token comes at T = min(X, delay + Y). Its law over all pairs of samples needs no simulation:

    P(T > t) = P(X > t)                        for t <  delay
    P(T > t) = P(X > t) * P(Y > t - delay)     for t >= delay

All times are seconds, or any one unit used throughout.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence


def percentile(ordered: Sequence[float], q: float) -> float:
    """The nearest-rank percentile of an ascending sequence: the smallest value with at least `q` of all at or below."""
    if not ordered:
        raise ValueError("no values")
    return ordered[rank(len(ordered), q) - 1]


def rank(n: int, q: float) -> int:
    """Which of `n` ascending values, counted from 1, is the nearest-rank `q` percentile."""
    # The small allowance keeps 0.95 * 20 from being a hair above 19 in binary.
    return min(n, max(1, math.ceil(q * n - 1e-9)))


class Law:
    """The distribution of the first-token time under one policy: a step function on a finite set of times."""

    __slots__ = ("delay", "samples", "support")

    def __init__(self, samples: Sequence[float], *, delay: float | None) -> None:
        """`delay` None means no hedge: the law is the samples' own."""
        if not samples:
            raise ValueError("no samples")
        self.samples = sorted(samples)
        self.delay = delay
        late = [] if delay is None else [delay + y for y in self.samples]
        self.support = sorted({*self.samples, *late})

    def survival(self, t: float) -> float:
        """P(T > t)."""
        n = len(self.samples)
        primary = (n - bisect_right(self.samples, t)) / n
        if self.delay is None or t < self.delay:
            return primary
        # Compared as delay + y > t, not y > t - delay: the support was built by that very addition, so a step of the
        # law falls on its own point of support and not beside it.
        delay = self.delay
        return primary * (n - bisect_right(self.samples, t, key=lambda y: delay + y)) / n

    def quantile(self, q: float) -> float:
        """The smallest time t with P(T <= t) >= q."""
        return self._first(lambda t: 1.0 - self.survival(t), q)

    def quantile_interval(self, q: float, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
        """Where the nearest-rank `q` percentile of `n` independent draws falls with probability `confidence`.

        Exact: the k-th smallest of n draws is at or below t just when at least k of them are, which is a binomial tail
        with success probability P(T <= t).
        """
        k = rank(n, q)
        tail = (1.0 - confidence) / 2

        def at_or_below(t: float) -> float:
            return binomial_at_least(k, n, 1.0 - self.survival(t))

        return self._first(at_or_below, tail), self._first(at_or_below, 1.0 - tail)

    def hedged_fraction(self) -> float:
        """The share of requests whose primary is still silent when the delay is over."""
        return 0.0 if self.delay is None else Law(self.samples, delay=None).survival(self.delay)

    def _first(self, rising: Callable[[float], float], level: float) -> float:
        """The first point of support at which a rising function reaches `level`."""
        index = bisect_left(self.support, level - 1e-12, key=rising)
        return self.support[min(index, len(self.support) - 1)]


def binomial_at_least(k: int, n: int, p: float) -> float:
    """P(Bin(n, p) >= k), summed exactly from log terms."""
    if k <= 0:
        return 1.0
    if k > n or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return 1.0
    log_p, log_q, log_n = math.log(p), math.log1p(-p), math.lgamma(n + 1)
    terms = (
        math.exp(log_n - math.lgamma(i + 1) - math.lgamma(n - i + 1) + i * log_p + (n - i) * log_q)
        for i in range(k, n + 1)
    )
    return min(1.0, math.fsum(terms))
