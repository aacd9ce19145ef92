"""How sure a difference is: the quantile of the same requests with and without hedges, resampled in blocks of time."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

import msgspec
import numpy as np

from hedgerow.planner.log import Floats
from hedgerow.planner.trial import Flown

_TIMES = 400
_SHARES = (0.025, 0.975)


class Cut(msgspec.Struct, frozen=True):
    """By which share of it a quantile became shorter, and between which shares that is in 95 % of the resamples."""

    value: float
    low: float
    high: float


def cut_of(without: Sequence[Flown], hedged: Sequence[Flown], p: float, seed: int) -> Cut:
    """Of the same requests gone through several times, each time with hedges and without.

    What is slow together is drawn together: blocks of as many requests in a row as there are blocks (Künsch's block
    bootstrap, Annals of Statistics 1989), the same for both sides.
    """
    count, rounds = len(without[0].took), len(without)
    length = max(1, ceil(sqrt(count)))
    blocks = ceil(count / length)
    block = np.tile(np.arange(count) // length, rounds)
    sides = [_Side(np.concatenate([each.took for each in side]), block, p) for side in (without, hedged)]
    chance = np.random.default_rng((seed, 7))
    cuts = []
    for _ in range(_TIMES):
        times = np.bincount(chance.integers(0, blocks, blocks), minlength=blocks)
        before, after = (side.quantile(times) for side in sides)
        cuts.append(1.0 - after / before if before > 0.0 else 0.0)
    low, high = np.quantile(cuts, _SHARES)
    before, after = (side.quantile(np.ones(blocks, dtype=np.int64)) for side in sides)
    return Cut(1.0 - after / before if before > 0.0 else 0.0, float(low), float(high))


class _Side:
    """Answered requests in the order of their times, and the block of each."""

    def __init__(self, took: Floats, block: np.ndarray, p: float) -> None:
        answered = ~np.isnan(took)
        order = np.argsort(took[answered], kind="stable")
        self._took, self._block, self._p = took[answered][order], block[answered][order], p

    def quantile(self, times: np.ndarray) -> float:
        """Where each block counts so many times."""
        if not len(self._took):
            return 0.0
        weights = np.cumsum(times[self._block])
        return float(self._took[min(int(np.searchsorted(weights, weights[-1] * self._p - 1e-9)), len(weights) - 1)])
