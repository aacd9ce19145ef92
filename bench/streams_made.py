"""Streams from a law instead of a record: an endpoint's public percentiles, spells of slowness, the course of a day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, exp, log, pi
from random import Random
from statistics import NormalDist

from bench.streams import Stream

SHARES = (0.5, 0.75, 0.9, 0.95, 0.99)
"""What the percentiles of `Endpoint` stand for."""
LONGEST = 8.0
"""Nothing takes longer than so many times the p99."""

_NORMAL = NormalDist()


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A law through five published percentiles, in seconds: p50, p75, p90, p95, p99.

    Between them the logarithm is linear in the share; below the median it goes on as between p50 and p75. Above p99 the
    tail is Pareto's, with the index that p95 and p99 imply, up to `LONGEST` times the p99.
    """

    name: str
    seconds: tuple[float, float, float, float, float]

    def at(self, share: float) -> float:
        """The time that this share of attempts does not exceed."""
        times = self.seconds
        if share >= SHARES[-1]:
            p95, p99 = times[-2:]
            stretch = (0.01 / max(1.0 - share, 1e-12)) ** (log(p99 / p95) / log(5.0)) if p99 > p95 else 1.0
            return p99 * min(stretch, LONGEST)
        piece = max(index for index, known in enumerate(SHARES[:-1]) if index == 0 or share >= known)
        low, high = SHARES[piece], SHARES[piece + 1]
        return times[piece] * exp((share - low) / (high - low) * log(times[piece + 1] / times[piece]))

    def draw(self, random: Random) -> float:
        return self.at(random.random())


MEDIAN = Endpoint("median endpoint", (1.0, 1.49, 2.45, 3.5, 7.4))
"""In medians: the ratios that half of 11,649 endpoint-days with 1,000 requests and more are above (OpenRouter's public
statistics of August 2026, hashd1ve/openrouter-pulse at b5796272c48e)."""


def alike(endpoint: Endpoint, requests: int, random: Random, *, correlation: float = 0.0) -> Stream:
    """Two attempts at one endpoint; `correlation` is that of a Gaussian copula."""
    first, second = [], []
    rest = (1.0 - correlation**2) ** 0.5
    for _ in range(requests):
        one = random.gauss(0.0, 1.0)
        first.append(endpoint.at(_NORMAL.cdf(one)))
        second.append(endpoint.at(_NORMAL.cdf(correlation * one + rest * random.gauss(0.0, 1.0))))
    name = f"{endpoint.name}, r {correlation:g}" if correlation else endpoint.name
    return Stream(name, "independent", requests, [500] * requests, first, second)


SLOW, SLOW_SHARE, SPELL = 3.0, 0.1, 200
"""A slow spell: how much longer everything takes, the share of requests in one, and their mean number in a spell."""


def spells(endpoint: Endpoint, requests: int, random: Random, *, both: bool) -> Stream:
    """Spells in which the primary, or with `both` the backup as well, takes `SLOW` times as long."""
    slow, factors = False, []
    for _ in range(requests):
        stay = SPELL * (1.0 if slow else (1.0 - SLOW_SHARE) / SLOW_SHARE)
        if random.random() < 1.0 / stay:
            slow = not slow
        factors.append(SLOW if slow else 1.0)
    where = "both attempts" if both else "the primary only"
    return _stretched(f"slow spells, {where}", endpoint, factors, factors if both else [1.0] * requests, random)


DAY, BUSIEST = 20_000, 1.8
"""Requests from one night to the next, and how much longer everything takes at the height of the day."""


def day(endpoint: Endpoint, requests: int, random: Random) -> Stream:
    """Times that rise from 1 to `BUSIEST` and fall again, day after day, at both attempts."""
    factors = [1.0 + (BUSIEST - 1.0) * (1.0 - cos(2.0 * pi * index / DAY)) / 2.0 for index in range(requests)]
    return _stretched("course of a day", endpoint, factors, factors, random)


def _stretched(
    name: str, endpoint: Endpoint, first: Sequence[float], second: Sequence[float], random: Random
) -> Stream:
    primary = [factor * endpoint.draw(random) for factor in first]
    backup = [factor * endpoint.draw(random) for factor in second]
    size = len(first)
    return Stream(f"{endpoint.name}, {name}", "independent", size, [500] * size, primary, backup, stationary=False)
