"""What is known of a latency at one moment: the Kaplan-Meier estimate from values and from "at least this long".

Kaplan and Meier, "Nonparametric Estimation from Incomplete Observations" (JASA 53, 1958): with d(x) values equal to x
and n(x) samples of either kind that are x or longer,

    P(X > t) = product over all values x <= t of (1 - d(x) / n(x))

A value and an "at least" of the same length: the value came first, so the other was still at risk. Where the longest
samples are "at least"s, the estimate ends above zero: that share of the mass lies somewhere beyond, at infinity here.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import inf, isfinite

import msgspec

_CLOSE = 1e-9
"""How far below `p` a share still reaches it: less than one sample in any history, more than floats drift."""


class Distribution(msgspec.Struct, frozen=True, gc=False):
    """An immutable distribution of seconds: steps at `times`, and what they do not reach at infinity.

    `times` ascend; `shares[i]` is P(X <= times[i]). `n` samples made it, `events` of them values. More than half of the
    samples, values or not, are of `mostly` seconds or longer, so the median is no shorter; of a mixture that is not
    known, and 0. No sample is longer than `longest`.
    """

    times: tuple[float, ...]
    shares: tuple[float, ...]
    n: int
    events: int
    mostly: float = 0.0
    longest: float = 0.0

    @classmethod
    def of(cls, values: Iterable[float], censored: Iterable[float] = ()) -> Distribution:
        """From values and "at least"s in seconds, kept as they are. Raises `ValueError` unless all are finite, >= 0."""
        samples = Counter((value, False) for value in values)
        samples.update((value, True) for value in censored)
        if not all(isfinite(value) and value >= 0 for value, _ in samples):
            raise ValueError("a sample must be a finite number of seconds, 0 or more")
        ordered = sorted(samples)
        counts = [samples[each] for each in ordered]
        return cls.estimated([value for value, _ in ordered], [at_least for _, at_least in ordered], counts)

    @classmethod
    def estimated(cls, seconds: Sequence[float], at_least: Sequence[bool | int], counts: Sequence[int]) -> Distribution:
        """From seconds in ascending order, whether "at least", and how often; of a tie the value first."""
        n = at_risk = at_risk_then = sum(counts)
        survival_then = 1.0  # since the last "at least", survival is a plain ratio: nothing drifts
        censored = 0
        times: list[float] = []
        shares: list[float] = []
        for time, is_at_least, count in zip(seconds, at_least, counts, strict=True):
            if is_at_least:
                survival_then *= at_risk / at_risk_then
                at_risk = at_risk_then = at_risk - count
                censored += count
            else:
                at_risk -= count
                times.append(time)
                shares.append(1.0 - survival_then * at_risk / at_risk_then)
        # the last of which more than half are as long
        shorter = list(accumulate(counts, initial=0))
        mostly = seconds[bisect_left(shorter, (n + 1) // 2, hi=len(counts)) - 1] if n else 0.0
        return cls(tuple(times), tuple(shares), n, n - censored, mostly, seconds[-1] if n else 0.0)

    @classmethod
    def mixed(cls, parts: Iterable[tuple[float, Distribution]]) -> Distribution:
        """What a request meets that goes to one of several, `parts` being (weight, distribution).

        Raises `ValueError` when a weight is negative or not finite, or none is above 0.
        """
        parts = [(weight, part) for weight, part in parts if weight != 0]
        total = sum(weight for weight, _ in parts)
        if not all(0 < weight < inf for weight, _ in parts) or not 0 < total < inf:
            raise ValueError("weights must be finite and 0 or more, and one of them above 0")
        masses: dict[float, float] = {}
        for weight, part in parts:
            before = 0.0
            for time, share in zip(part.times, part.shares, strict=True):
                masses[time] = masses.get(time, 0.0) + weight / total * (share - before)
                before = share
        times = sorted(masses)
        reached, shares = 0.0, []
        for time in times:
            reached = min(1.0, reached + masses[time])
            shares.append(reached)
        counts = sum(part.n for _, part in parts), sum(part.events for _, part in parts)
        return cls(tuple(times), tuple(shares), *counts, 0.0, max(part.longest for _, part in parts))

    def cdf(self, t: float) -> float:
        """P(X <= t)."""
        index = bisect_right(self.times, t)
        return self.shares[index - 1] if index else 0.0

    def survival(self, t: float) -> float:
        """P(X > t): the share of attempts that a hedge after `t` seconds would find still running."""
        return 1.0 - self.cdf(t)

    def beyond(self, t: float, most: float = inf) -> float:
        """The mean of min(X, most) among those X > t, where X counts as `longest` at most.

        So nothing is made up of what nobody has seen: `t` itself where that is the longest.
        """
        index = bisect_right(self.times, t)
        before = self.cdf(t)
        left, total = 1.0 - before, 0.0
        for time, share in zip(self.times[index:], self.shares[index:], strict=True):
            total += (share - before) * min(time, most)
            before = share
        end = min(max(self.longest, t), most)
        return (total + (1.0 - before) * end) / left if left > _CLOSE else end

    def quantile(self, p: float) -> float:
        """The shortest time that at least the share `p` does not exceed; `inf` where the estimate never reaches `p`.

        So no interpolation, and between two steps the longer: at a quantile at most 1 - p are still running. `p` is in
        [0, 1]; of 0 it is the shortest value. Raises `ValueError` for others.
        """
        if not 0.0 <= p <= 1.0:
            raise ValueError("a quantile's share must be in [0, 1]")
        index = bisect_left(self.shares, p - _CLOSE)
        return self.times[index] if index < len(self.times) else inf


def straggles(distribution: Distribution, p: float, limit: float) -> bool:
    """Whether more than 1 - p of requests take longer than `limit` seconds, or so many that nobody knows how long.

    A delay at the quantile `p` is then of no use: it lies beyond `limit`, and the requests it was to help wait for it.
    """
    quantile = distribution.quantile(p)
    return quantile > limit or quantile == inf
