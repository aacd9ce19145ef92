"""Upstreams that take as long as a log says: hedges are drawn from attempts near in time and of like prompt size.

So what is slow together stays slow together, as independent draws would not have it (see docs/evaluation.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from hedgerow.events import Failure, FailureClass
from hedgerow.planner.lengths import lengths, without_length
from hedgerow.planner.log import Floats, Ints, Log
from hedgerow.planner.together import TENTH, after, preference, preferred, slowness

_FAILED = Failure(FailureClass.SERVER_ERROR, "it failed in the log")
NEAR = 5
"""Attempts that may stand for a request, each half as often as the one that is nearer."""
_WIDE = 12
"""So many where slow ones are preferred."""
_CHANCES = 0.5 ** np.minimum(np.arange(1.0, _WIDE + 1), _WIDE - 1)
"""Of each of these, without that."""
ALIKE = 0.22
"""Lengths whose logarithms differ by so much, 25 %, are nearly the same."""
_REACH = 16
"""Places before and after that are looked at."""
_CHUNK = 20_000
"""Requests at once, for memory's sake."""


class Resampled:
    """What each request of a log would have taken at each of several targets.

    `taken[place][request]`: seconds, inf where the attempt fails. Place 0 is the primary's own record.
    `failing`: of each place the seconds to a failure, of each request or of any.
    """

    def __init__(self, taken: Sequence[Floats], failing: Sequence[Floats | float]) -> None:
        self.taken = taken
        self._lists = [each.tolist() for each in taken]
        self._failing = [np.broadcast_to(each, len(taken[0])).tolist() for each in failing]

    def attempt(self, request: int, place: int, _number: int, _now: float) -> tuple[float, Failure | None]:
        """As `replay.World`."""
        seconds = self._lists[place][request]
        return (seconds, None) if seconds < inf else (self._failing[place][request], _FAILED)


def usual_failure(own: Log) -> float:
    """Seconds to a failure of one target: the median of those that are known, else that of its answers."""
    known = np.empty(0) if own.failed_after is None else own.failed_after[~np.isnan(own.failed_after)]
    some = known if len(known) else own.ttft[~own.failed]
    return float(np.median(some)) if len(some) else 0.0


def failing(own: Log) -> Floats:
    """Of each attempt at one target the seconds it would take to fail: its own where it has and that is known."""
    usual = usual_failure(own)
    after = own.failed_after
    return np.full(len(own), usual) if after is None else np.where(np.isnan(after), usual, after)


class Drawn(NamedTuple):
    """Of each request seconds at another target, and how many seconds before or after it the attempt was that took so
    long.
    """

    taken: Floats
    apart: Floats


def neighbours(log: Log, primary: Log, target: int, generator: np.random.Generator) -> Drawn:
    """For each request of `primary` the time of an attempt at `target`: of the same request where there was one, else
    of one of those nearest in time and, as far as it matters there, in prompt size; never the request's own record.
    """
    pool = log.of(log.target == target)
    same = len(primary) == len(pool) and target == primary.target[0]
    near = _Near(pool, primary, same, generator)
    drawn = [near.drawn(slice(at, at + _CHUNK)) for at in range(0, len(primary), _CHUNK)]
    places = _paired(primary, pool, np.concatenate(drawn) if drawn else np.empty(0, dtype=np.int64))
    return Drawn(_times(pool)[places], np.abs(pool.at[places] - primary.at))


def independent(log: Log, primary: Log, target: int, generator: np.random.Generator) -> Drawn:
    """The same with any attempt of that target: what arithmetic on independent draws would promise."""
    pool = log.of(log.target == target)
    places = generator.choice(len(pool), len(primary))
    return Drawn(_times(pool)[places], np.abs(pool.at[places] - primary.at))


def _times(log: Log) -> Floats:
    return np.where(log.failed, inf, log.ttft)


class _Near:
    """Finds for requests of `own` attempts of `pool` that are near: around them in time, in length, and in time among
    those of about their length. What one is worth against the other is told by how much length explains there. Of
    those that are near, slow requests prefer slow ones, as far as they meet more with hedges (see `together`).
    """

    def __init__(self, pool: Log, own: Log, same: bool, generator: np.random.Generator) -> None:
        self._same, self._generator = same, generator
        answered = pool.of(~pool.failed)
        explained = without_length(answered)[1] or 0.0
        self._weight = explained / max(1.0 - explained, 1e-3) / ALIKE
        self._gap = max(float(pool.at[-1] - pool.at[0]) / len(pool), 1e-9)
        self._pool, self._own = pool.at, own.at
        known = lengths(answered, pool)
        self._long = self._filled(known, known)
        self._asked = self._long if same else self._filled(lengths(answered, own), known)
        span = 2.0 * max(float(self._pool[-1]), float(own.at[-1]) if len(own) else 0.0) + 1.0
        bands = [np.floor(each / ALIKE) * span for each in (self._long, self._asked)]
        self._ways = [
            _Order(self._pool, self._own, _REACH),
            _Order(self._long, self._asked, _REACH // 2),
            _Order(bands[0] + self._pool, bands[1] + self._own, _REACH // 2),
        ]
        self._slow_there = slowness(pool)
        self._slow = self._slow_there if same else slowness(own)
        self._waited = float(np.quantile(own.ttft[~own.failed], 1.0 - TENTH)) if not own.failed.all() else 0.0
        self._preference = self._preferred() if pool.timed else 0.0  # places in a log tell nothing of seconds

    def _filled(self, of: Floats, known: Floats) -> Floats:
        """Requests whose length is not known are as long as any other."""
        there = known[~np.isnan(known)]
        return np.where(np.isnan(of), self._generator.choice(there, len(of)), of) if len(there) else np.zeros(len(of))

    def drawn(self, part: slice) -> Ints:
        """Places in the pool, one of each of these requests."""
        requests = np.arange(*part.indices(len(self._own)))
        rank = np.minimum(self._generator.geometric(0.5, len(requests)), NEAR) - 1
        chosen: Ints = self._nearest(requests, NEAR)[np.arange(len(requests)), rank]
        slow = np.flatnonzero(self._slow[requests] > 0.0)
        if self._preference and len(slow):
            chosen[slow] = self._preferring(requests[slow])
        return chosen

    def _preferring(self, requests: Ints) -> Ints:
        """Places of slow requests."""
        nearest = self._nearest(requests, _WIDE)
        chances = preferred(_CHANCES, self._both(requests, nearest), self._preference)
        drawn = self._generator.random(len(requests))[:, None]
        rank = (chances.cumsum(axis=1) < drawn).sum(axis=1).clip(max=_WIDE - 1)
        chosen: Ints = nearest[np.arange(len(requests)), rank]
        return chosen

    def _nearest(self, requests: Ints, count: int) -> Ints:
        """Of each of these the places of so many that may stand for it, the nearest first."""
        found: Ints = np.sort(np.concatenate([way.around(requests) for way in self._ways], axis=1), axis=1)
        apart = np.abs(self._pool[found] - self._own[requests, None]) / self._gap
        far = np.log1p(apart / _REACH) + self._weight * np.abs(self._long[found] - self._asked[requests, None])
        far[:, 1:][found[:, 1:] == found[:, :-1]] = inf  # in several orders, but once a choice
        if self._same:
            far[found == requests[:, None]] = inf
        best = np.argpartition(far, count - 1, axis=1)[:, :count]
        best = np.take_along_axis(best, np.argsort(np.take_along_axis(far, best, axis=1), axis=1), axis=1)
        nearest: Ints = np.take_along_axis(found, best, axis=1)
        return nearest

    def _both(self, requests: Ints, places: Ints) -> Floats:
        """How much each of these requests and each of its places in the pool are slow together."""
        both: Floats = np.minimum(self._slow[requests, None], self._slow_there[places])
        return both

    def _preferred(self) -> float:
        """How much slow attempts are to be preferred by slow requests, for these to meet as many as their hedges do."""
        requests = np.flatnonzero(self._slow > 0.0)
        if not len(requests):
            return 0.0
        around = self._ways[0].around(requests)
        others = np.diff(around, axis=1, prepend=-1) != 0
        if self._same:
            others &= around != requests[:, None]
        apart = np.abs(self._pool[around] - self._own[requests, None])[others]
        goal = after(self._waited, apart, self._both(requests, around)[others], self._gap)
        return 0.0 if goal is None else preference(_CHANCES, self._both(requests, self._nearest(requests, _WIDE)), goal)


class _Order:
    """The attempts of a pool in the order of one thing, and where the requests stand in it."""

    def __init__(self, pool: Floats, own: Floats, reach: int) -> None:
        self._order = np.argsort(pool, kind="stable")
        self._place = np.searchsorted(pool[self._order], own)
        self._offsets = np.arange(-reach, reach + 1)

    def around(self, requests: Ints) -> Ints:
        """Of each of these requests those before and after it; at an end some of them twice."""
        places = np.clip(self._place[requests, None] + self._offsets, 0, len(self._order) - 1)
        around: Ints = self._order[places]
        return around


def _paired(primary: Log, pool: Log, drawn: Ints) -> Ints:
    """Where there is an attempt of the same request, that instead."""
    if not (primary.request >= 0).any() or not len(pool) or not len(primary) or primary.target[0] == pool.target[0]:
        return drawn
    names, mine, theirs = np.intersect1d(primary.request, pool.request, return_indices=True)
    drawn[mine[names >= 0]] = theirs[names >= 0]
    return drawn
