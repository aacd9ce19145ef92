"""Upstreams that take as long as a log says: hedges are drawn from attempts near in time and of the same prompt size.

So what is slow together stays slow together, as independent draws would not have it (see docs/evaluation.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from hedgerow.events import Failure, FailureClass
from hedgerow.planner.log import Floats, Ints, Log
from hedgerow.planner.statistics import NEAR, size_of

_FAILED = Failure(FailureClass.SERVER_ERROR, "it failed in the log")


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


def neighbours(log: Log, primary: Log, target: int, generator: np.random.Generator) -> Floats:
    """For each request of `primary` the time of an attempt at `target`: of the same request where there was one, else
    of one of those nearest in time, with the same prompt size; never the request's own record.
    """
    pool = log.of(log.target == target)
    drawn = np.empty(len(primary))
    sizes, own = size_of(pool.input_tokens), size_of(primary.input_tokens)
    for size in np.unique(own):
        asked = np.flatnonzero(own == size)
        there = np.flatnonzero(sizes == size)
        if len(there) < 2 * NEAR:  # too few of that size: of any
            there = np.arange(len(pool))
        same = len(primary) == len(pool) and target == primary.target[0]
        place = np.searchsorted(there, asked) if same else np.searchsorted(pool.at[there], primary.at[asked])
        drawn[asked] = _near(place, _times(pool)[there], generator)
    return _paired(primary, pool, drawn)


def independent(log: Log, primary: Log, target: int, generator: np.random.Generator) -> Floats:
    """The same with any attempt of that target: what arithmetic on independent draws would promise."""
    pool = _times(log.of(log.target == target))
    return generator.choice(pool, len(primary))


def _times(log: Log) -> Floats:
    return np.where(log.failed, inf, log.ttft)


def _near(place: Ints, taken: Floats, generator: np.random.Generator) -> Floats:
    last = len(taken) - 1
    offset: Ints = generator.integers(1, NEAR + 1, len(place)) * generator.choice((-1, 1), len(place))
    place = place + offset
    place = np.where(place < 0, -place, place)
    place = np.where(place > last, 2 * last - place, place)
    return taken[np.clip(place, 0, last)]


def _paired(primary: Log, pool: Log, drawn: Floats) -> Floats:
    if not (primary.request >= 0).any() or not len(pool) or not len(primary) or primary.target[0] == pool.target[0]:
        return drawn
    names, mine, theirs = np.intersect1d(primary.request, pool.request, return_indices=True)
    drawn[mine[names >= 0]] = _times(pool)[theirs[names >= 0]]
    return drawn
