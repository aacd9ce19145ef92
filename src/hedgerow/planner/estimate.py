"""A fast estimate of what hedging would do: arithmetic on arrays, before the engine itself is asked."""

from __future__ import annotations

from math import inf, nan

import msgspec
import numpy as np

from hedgerow.planner.log import Floats

STEPS = 32
"""Delays that are tried for each budget."""


class Estimate(msgspec.Struct, frozen=True):
    """A fixed delay (seconds) with a probability, and what it comes to: p99 (seconds) and hedges per request."""

    delay: float
    probability: float
    p99: float
    extra: float


def hedged(first: Floats, second: Floats, delay: float) -> Floats:
    """What requests take that are all hedged after `delay`: `inf` where both fail. A failure launches the other too."""
    return np.where(first <= delay, first, np.minimum(first, delay + second))


def at_quantile(taken: Floats, p: float) -> float:
    """The smallest value that the share `p` does not exceed."""
    return _at(taken, _place(len(taken), p))


def _place(count: int, p: float) -> int:
    return max(int(np.ceil(count * p)) - 1, 0)


def _at(taken: Floats, place: int) -> float:
    return float(np.partition(taken, place)[place])


def best(first: Floats, second: Floats, budget: float, p: float = 0.99) -> Estimate:
    """The delay and probability with the lowest quantile within the budget (Kaler, He and Elnikety, SPAA 2017)."""
    ordered = np.sort(first)
    n = len(ordered)
    found = Estimate(inf, 0.0, at_quantile(first, p), 0.0)
    shares = np.unique(np.concatenate(([budget], np.geomspace(budget, 1.0, STEPS))))
    for share in shares:
        place = min(max(int(np.ceil(n * (1.0 - share))) - 1, 0), n - 1)
        delay = float(ordered[place])
        if delay == inf:
            continue
        late = float((first > delay).mean())
        probability = min(1.0, budget / late) if late else 1.0
        value = _quantile_mixed(first, hedged(first, second, delay), probability, p)
        if value < found.p99 * (1 - 1e-9):
            found = Estimate(delay, probability, value, probability * late)
    return found


def _quantile_mixed(plain: Floats, helped: Floats, probability: float, p: float) -> float:
    """The quantile of requests of which the share `probability` is hedged."""
    if probability >= 1.0:
        return at_quantile(helped, p)
    both = np.concatenate((plain, helped))
    weights = np.concatenate((np.full(len(plain), 1 - probability), np.full(len(helped), probability)))
    order = np.argsort(both, kind="stable")
    reached = np.cumsum(weights[order]) / len(plain)
    return float(both[order[min(int(np.searchsorted(reached, p)), len(both) - 1)]])


def oracle(first: Floats, second: Floats, most: int, p: float = 0.99) -> float:
    """The lowest quantile that so many hedges can bring at most: of who knows beforehand how long all attempts take,
    and launches hedges together with their requests.

    So many requests are done in time, whatever the time: those whose first attempt is, and as many more as there are
    hedges, of those where the second is. nan where there are no requests.
    """
    if not len(first):
        return nan
    place = _place(len(first), p)
    helped = _at(np.minimum(first, second), place)
    return helped if place < most else max(helped, _at(first, place - most))
