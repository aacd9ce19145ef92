"""What the tests of published figures share: laws without the noise of draws, and the planner's engine on numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, exp, log, sqrt
from random import Random
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from bench.eval_replay import places

from hedgerow.events import Failure
from hedgerow.planner.log import Floats
from hedgerow.planner.replay import Replay, World
from hedgerow.planner.world import Resampled
from hedgerow.policy.account import UNLIMITED, Limits
from hedgerow.policy.settings import Policy

GOLDEN = (sqrt(5.0) - 1.0) / 2.0


class Flown(NamedTuple):
    """Seconds of each request, in their order, and hedges per request."""

    took: Floats
    extra: float

    def at(self, p: float) -> float:
        """A percentile."""
        ordered = np.sort(self.took)
        return float(ordered[ceil(len(ordered) * p) - 1])

    def chance(self, p: float) -> tuple[float, float]:
        """Between which values that of so many independent requests is in 99 of 100 runs."""
        spread = 2.576 * sqrt(p * (1.0 - p) / len(self.took))
        return self.at(p - spread), self.at(min(p + spread, 1.0))


def rules(delay: float | str | None, limits: Limits = UNLIMITED) -> Policy:
    """A fixed delay in seconds, `pNN`, or None for no hedging."""
    return Policy() if delay is None else Policy(delay=delay, min_delay=0.001, max_delay=1e6, limits=limits)


def flown(world: World, policy: Policy, at: Sequence[float], *, warm: int = 0) -> Flown:
    """Through the engine, and of requests after the first `warm`."""
    replay = Replay(world, policy, places(), Random(8).random, refresh=max(at[-1], 1e-9) / 1_000)
    told = replay.run(at, [100] * len(at))
    return Flown(np.array(told.took)[warm:], sum(told.hedges[warm:]) / (len(at) - warm))


def hedged(
    first: Floats, second: Floats, delay: float | str | None, *, limits: Limits = UNLIMITED, rate: float = 100.0
) -> Flown:
    """Of requests whose first attempt and hedge would take these times, `rate` of them a second."""
    at = (np.arange(len(first)) / rate).tolist()
    return flown(Resampled([first, second], [0.0, 0.0]), rules(delay, limits), at)


def even(count: int) -> Floats:
    """Shares between 0 and 1 at equal distances, so that a law's quantiles at them are the law."""
    return (np.arange(count) + 0.5) / count


def unlike(count: int) -> Floats:
    """Other shares, of which each stretch of `even`'s has all: what is independent, without its noise (Weyl, 1916)."""
    turns: Floats = np.arange(1.0, count + 1.0) * GOLDEN
    return turns - np.floor(turns)


def lognormal(mean: float, deviation: float, shares: Floats) -> Floats:
    """Quantiles of a lognormal law with this mean and standard deviation."""
    variance = log(1.0 + (deviation / mean) ** 2)
    normal = np.array([NormalDist().inv_cdf(share) for share in shares.tolist()])
    times: Floats = exp(log(mean) - variance / 2.0) * np.exp(sqrt(variance) * normal)
    return times


def mixed(count: int, seed: int, *parts: tuple[float, Callable[[Floats], Floats]]) -> Floats:
    """So many times, of each law its share, in random order."""
    times = np.concatenate([law(even(round(count * share))) for share, law in parts])
    np.random.default_rng(seed).shuffle(times)
    return times


class Queues:
    """Servers that do one thing after the other, to its end even if nobody waits for it any more; chance says which
    does what. Two attempts of one request are never sent to the same.
    """

    def __init__(self, servers: int, service: Callable[[Random], float], seed: int) -> None:
        self._random, self._service, self._free = Random(seed), service, [0.0] * servers
        self._last = -1
        self.work = 0.0
        """Seconds, of all servers."""

    def attempt(self, _request: int, _place: int, number: int, now: float) -> tuple[float, Failure | None]:
        """As `replay.World`."""
        server = self._random.randrange(len(self._free) - (number > 0))
        server += number > 0 and server >= self._last
        self._last = server
        seconds = self._service(self._random)
        self.work += seconds
        self._free[server] = max(self._free[server], now) + seconds
        return self._free[server] - now, None


def poisson(rate: float, count: int, seed: int) -> list[float]:
    """When so many requests come, at random, this many a second."""
    times: Floats = np.cumsum(np.random.default_rng(seed).exponential(1.0 / rate, count))
    return list(times.tolist())
