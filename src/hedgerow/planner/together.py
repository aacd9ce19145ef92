"""How much more a request and its hedge are slow together than attempts of a log, which are further apart.

A hedge is made seconds after its request. Where requests are rare, the attempts nearest to it in the log are minutes
away, and often on the other side of the edge of a slow spell. How fast being slow together fades with the time between
two attempts can be seen in the log; so it is known how it is after seconds, and attempts are chosen accordingly.
"""

from __future__ import annotations

from math import inf, log

import numpy as np

from hedgerow.planner.lengths import without_length
from hedgerow.planner.log import Floats, Log

TENTH = 0.1
"""Share of the attempts of a target that count as slow."""
_LENGTHS = np.geomspace(0.5, 32.0, 13)
"""Lengths of spells that are tried, in mean times between two attempts."""
_SURE = 4.0
"""Standard errors by which more must be slow together who are nearer."""
_FIRM, _HALVINGS = 20.0, 30
"""The most that attempts are preferred by, and how exactly that is found."""


def slowness(of: Log) -> Floats:
    """How slow each attempt at a target is among the slowest tenth there, lengths taken out: 0 for all others, then the
    logarithm of how many times as many the slowest tenth are as those that are slower. Failures are the slowest.
    """
    taken = np.full(len(of), inf)
    taken[~of.failed] = without_length(of.of(~of.failed))[0]
    _, which, counts = np.unique(taken, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts / 2
    slower = 1.0 - below[which] / max(len(of), 1)
    return np.maximum(log(TENTH) - np.log(np.maximum(slower, 1e-12)), 0.0)


def after(seconds: float, apart: Floats, both: Floats, gap: float) -> float | None:
    """How much two attempts are `both` slow so many seconds after each other, by pairs that are `apart`: a constant and
    what fades exponentially, by least squares. `gap`: the mean time between two attempts. None: nothing fades.
    """
    found, left = None, inf
    for length in gap * _LENGTHS:
        near = np.exp(-apart / length)
        spread = float(near.var())
        if spread <= 0.0:
            continue
        more = float(((near - near.mean()) * both).mean()) / spread
        rest = float((both - both.mean() - more * (near - near.mean())).var())
        if rest < left:
            sure = more > _SURE * np.sqrt(rest / len(both) / spread)
            here = float(both.mean()) + more * (float(np.exp(-seconds / length)) - float(near.mean()))
            found, left = here if sure else None, rest
    return found


def preference(chances: Floats, both: Floats, goal: float) -> float:
    """How much those are to be preferred with which requests (rows) are slow together, so that on average they are as
    much as the `goal`. `chances`: of each choice (columns) without that.
    """
    low, high = 0.0, _FIRM
    if mean(chances, both) >= goal:
        return low
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if mean(preferred(chances, both, middle), both) < goal else (low, middle)
    return high


def preferred(chances: Floats, both: Floats, preference: float) -> Floats:
    """Of each choice its chance, where slow ones are so much preferred by those that are slow."""
    weights = chances * np.exp(preference * (both - both.max(axis=1, keepdims=True)))
    found: Floats = weights / weights.sum(axis=1, keepdims=True)
    return found


def mean(chances: Floats, both: Floats) -> float:
    """How much requests are slow together with what is chosen for them, on average."""
    return float((chances * both).sum(axis=1).mean())
