"""SingleR: when to send a request again, and how often, to make a quantile of its time as short as a budget allows.

After Kaler, He and Elnikety, "Optimal Reissue Policies for Reducing Tail Latency" (SPAA 2017). A request that is not
answered after `delay` is hedged with `probability` q. With X the primary's time and Y the backup's,

    P(T <= t) = P(X <= t) + q * P(X > t) * P(Y <= t - delay | X > t)      q * P(X > delay) <= budget

A fixed delay (q = 1) can do nothing for a quantile whose tail is as large as the budget: it comes at that quantile.
Hedging earlier, but only some, can. All of it is a pure function of its arguments, with no randomness.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, Sequence
from math import inf
from operator import neg
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from hedgerow.policy.copula import given_slower


class Law(Protocol):
    """What is known of a time in seconds. What never ends is `survival` that stays, and a `quantile` of `inf`."""

    def cdf(self, t: float, /) -> float:
        """P(X <= t)."""

    def survival(self, t: float, /) -> float:
        """P(X > t)."""

    def quantile(self, p: float, /) -> float:
        """The shortest time that is not exceeded with probability `p`."""


Conditional = Callable[[float, float], float]
"""P(Y <= y | X > t) as a function of y and t: for backups whose time goes with the primary's in a known way."""


class Reissue(msgspec.Struct, frozen=True, gc=False):
    """After `delay` seconds without an answer hedge with `probability`; `inf` and 0 mean never.

    `quantile`: the target quantile, in seconds, that this promises; of all requests, where there are several kinds.
    """

    delay: float
    probability: float
    quantile: float


DELAYS = 60
"""Delays that are looked at per kind of request, evenly spaced in the logarithm of the share that they hedge."""
PAYS = 0.01
"""Hedging by chance must make the quantile shorter by this share than a fixed delay does, or the delay is kept."""

_CLOSE = 1e-9
"""How far a share may be above what is affordable: floats drift by less, and a law's own steps by no more."""
_PRECISION = 1e-4
"""How close to the shortest possible quantile the search comes, relative to it."""
_NOTHING = 1e-3
"""An improvement by less than this share is none, and nothing is spent on it."""

_THIRDS = 6
"""How often the space around the best of the delays is cut to two thirds, to find a better one."""

Choice = tuple[float, float]
"""A delay and a probability."""
NEVER: Choice = (inf, 0.0)
Attempt = Callable[[float, bool], tuple[float, Sequence[Choice]]]
"""The largest P(T <= t) that the budget allows, or one that is enough, and the choice for each kind of request.

Asked for t, and whether a delay may be taken with a probability below 1.
"""
_R = TypeVar("_R")
Steps = Generator[None, None, _R]
"""A computation that can be left alone between its steps, each of them short."""


def rule(target: float, budget: float) -> bool:
    """Whether hedging by chance can be worth its while: about up to three times the tail that is to be cut.

    A rule of thumb for targets of 0.95 and more; `single_r` works it out. Above it a fixed delay does as well.
    """
    return budget <= 3.0 * (1.0 - target) + _CLOSE


class Aim(msgspec.Struct, frozen=True, gc=False):
    """What is to be made short, and within what. Raises `ValueError` for numbers that mean nothing."""

    target: float
    budget: float
    min_delay: float = 0.0
    max_delay: float = inf

    def __post_init__(self) -> None:
        if not 0.0 < self.target < 1.0:
            raise ValueError("target must be above 0 and below 1")
        if not 0.0 < self.budget <= 1.0:
            raise ValueError("budget must be above 0 and at most 1")
        if not 0.0 <= self.min_delay <= self.max_delay or self.min_delay == inf:
            raise ValueError("min_delay must be 0 or more, finite, and at most max_delay")


class Look(NamedTuple):
    """What is known at a time t: `answered` is P(X <= t), `gain(delay)` is P(X > t) * P(Y <= t - delay | X > t)."""

    answered: float
    gain: Callable[[float], float]
    gains: Sequence[float]
    """The gain of each delay that is below t."""


class Curve:
    """One kind of request: the delays worth looking at (`delays`, ascending) and what share each hedges (`hedged`)."""

    __slots__ = ("_backup", "_correlation", "_limits", "_primary", "delays", "hedged")

    def __init__(self, primary: Law, backup: Law, correlation: float | Conditional, aim: Aim) -> None:
        self._primary, self._backup, self._correlation = primary, backup, correlation
        self._limits = aim.min_delay, aim.max_delay
        self.delays, self.hedged = [aim.min_delay], [primary.survival(aim.min_delay)]
        rarest = min(aim.budget, 1.0 - aim.target) / 10.0
        for point in range(1, DELAYS):
            delay = min(primary.quantile(1.0 - rarest ** (point / (DELAYS - 1))), aim.max_delay)
            hedged = primary.survival(delay) if delay < inf else 0.0
            if hedged <= 0.0:
                break
            if hedged < self.hedged[-1]:
                self.delays.append(delay)
                self.hedged.append(hedged)

    def look(self, t: float) -> Look:
        """What each delay would gain at `t`."""
        answered, delays = self._primary.cdf(t), self.delays[: bisect_left(self.delays, t)]
        missing, backup, correlation = 1.0 - answered, self._backup.cdf, self._correlation
        if callable(correlation):
            conditional = correlation
            return Look(
                answered,
                lambda d: missing * conditional(t - d, t) if d < t else 0.0,
                [missing * conditional(t - d, t) for d in delays],
            )
        share = given_slower(answered, correlation)
        # most of what a plan takes
        gains = [missing * each for each in map(share, map(backup, [t - delay for delay in delays]))]
        return Look(answered, lambda d: missing * share(backup(t - d)) if d < t else 0.0, gains)

    def affordable(self, share: float) -> float:
        """The shortest delay that hedges at most `share` of requests; `inf` if there is none."""
        shortest, longest = self._limits
        if self.hedged[0] <= share + _CLOSE:
            return shortest
        delay = self._primary.quantile(1.0 - share)
        if delay <= longest and self._primary.survival(delay) <= share + _CLOSE:
            return delay
        return next((d for d, h in zip(self.delays, self.hedged, strict=True) if h <= share + _CLOSE), inf)

    def best(self, share: float, look: Look, randomise: bool, enough: float) -> tuple[float, Choice]:
        """The most that hedging `share` of requests gains, and how; of fixed delays the longest that gains `enough`."""
        first = bisect_left(self.hedged, -share - _CLOSE, key=neg)  # from here on delays are affordable as they are
        most, choice = 0.0, NEVER
        for index in range(len(look.gains) - 1, first - 1, -1):
            if look.gains[index] > most:
                most, choice = look.gains[index], (self.delays[index], 1.0)
                if most >= enough:
                    return most, choice
        delay = self.affordable(share)
        if (gain := look.gain(delay)) > most:
            most, choice = gain, (delay, 1.0)
        if randomise and most < enough:
            best = -1
            for index in range(min(first, len(look.gains)) - 1, -1, -1):
                if (gain := share / self.hedged[index] * look.gains[index]) > most:
                    most, best = gain, index
            if best >= 0:
                return self._between(share, look, best)
        return most, choice

    def _between(self, share: float, look: Look, best: int) -> tuple[float, Choice]:
        """The most that hedging by chance gains, near the `best` delay: between the one before it and the one after."""

        def tried(delay: float) -> tuple[float, Choice]:
            probability = min(1.0, share / self._primary.survival(delay))
            return probability * look.gain(delay), (delay, probability)

        low, high = self.delays[max(best - 1, 0)], self.delays[min(best + 1, len(self.delays) - 1)]
        for _ in range(_THIRDS):
            left, right = (2.0 * low + high) / 3.0, (low + 2.0 * high) / 3.0
            low, high = (left, high) if tried(left)[0] < tried(right)[0] else (low, right)
        return max(tried((low + high) / 2.0), tried(self.delays[best]))


def single_r(
    primary: Law,
    backup: Law,
    *,
    target: float,
    budget: float,
    correlation: float | Conditional = 0.0,
    min_delay: float = 0.0,
    max_delay: float = inf,
) -> Reissue:
    """The delay and probability that make the `target` quantile shortest for at most `budget` hedges per request.

    `target` in (0, 1), `budget` in (0, 1]; `correlation` of a Gaussian copula (see `policy.copula`), or the law itself.
    Where more requests never end than the target allows for, and hedging cannot make up for it, the quantile is `inf`
    and what is made short is the same quantile of those that end. Raises `ValueError` for other numbers.
    """
    return _single(primary, backup, correlation, Aim(target, budget, min_delay, max_delay), chance=True)


def single_d(
    primary: Law,
    backup: Law,
    *,
    target: float,
    budget: float,
    correlation: float | Conditional = 0.0,
    min_delay: float = 0.0,
    max_delay: float = inf,
) -> Reissue:
    """`single_r` with a fixed delay: what the budget allows with probability 1."""
    return _single(primary, backup, correlation, Aim(target, budget, min_delay, max_delay), chance=False)


def _single(primary: Law, backup: Law, correlation: float | Conditional, aim: Aim, *, chance: bool) -> Reissue:
    curve = Curve(primary, backup, correlation, aim)

    def attempt(t: float, randomise: bool) -> tuple[float, Sequence[Choice]]:
        look = curve.look(t)
        gain, choice = curve.best(aim.budget, look, randomise and chance, aim.target - look.answered)
        return look.answered + gain, (choice,)

    plain, end = primary.quantile(aim.target), horizon([(primary, backup)])
    quantile, choices = finish(shortest(attempt, aim.target, plain, end))
    return Reissue(*(choices[0] if choices else NEVER), quantile)


def horizon(kinds: Sequence[tuple[Law, Law]]) -> float:
    """A time after which as good as nothing is answered any more, by primaries and their hedges alike."""
    return max(_end(primary) for primary, _ in kinds) + max(_end(backup) for _, backup in kinds)


def _end(law: Law) -> float:
    quantiles = (law.quantile(p) for p in (0.999, 0.99, 0.95, 0.9, 0.75, 0.5, 0.25, 0.1, 0.01))
    return next((quantile for quantile in quantiles if quantile < inf), 0.0)


def shortest(attempt: Attempt, target: float, plain: float, end: float) -> Steps[tuple[float, Sequence[Choice]]]:
    """The shortest t with P(T <= t) >= `target`, and its choices; none of them when hedging does not pay.

    `plain` is that quantile without hedges, and where it is `inf` the search starts from `end`.
    """
    aim, high = target, plain
    found: Sequence[Choice] = ()
    if plain == inf:
        reached, found = attempt(end, True)
        aim, high = (target, end) if reached >= target else (target * reached, end)
        yield
    high, found = yield from _bisect(attempt, aim, True, 0.0, high, found)
    if high > plain * (1.0 - _NOTHING):
        return plain, ()
    if any(0.0 < probability < 1.0 for _, probability in found):
        limit = min(high * (1.0 + PAYS), plain * (1.0 - _NOTHING))
        reached, fixed = attempt(limit, False)
        yield
        if reached >= aim:
            high, found = yield from _bisect(attempt, aim, False, high, limit, fixed)
    return (high if aim == target else inf), found


def _bisect(
    attempt: Attempt, aim: float, randomise: bool, low: float, high: float, found: Sequence[Choice]
) -> Steps[tuple[float, Sequence[Choice]]]:
    while high - low > _PRECISION * high:
        middle = (low + high) / 2.0
        reached, choices = attempt(middle, randomise)
        if reached >= aim:
            high, found = middle, choices
        else:
            low = middle
        yield
    return high, found


def finish(steps: Steps[_R]) -> _R:
    """Take all the steps at once."""
    while True:
        try:
            next(steps)
        except StopIteration as over:
            result: _R = over.value
            return result
