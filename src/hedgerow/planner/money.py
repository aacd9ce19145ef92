"""What attempts of a log cost, in dollars, and what hedges add to that."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.planner.estimate import at_quantile
from hedgerow.planner.log import Floats, Log
from hedgerow.planner.scene import Backup, Scene
from hedgerow.planner.statistics import size_of
from hedgerow.planner.trial import Flown
from hedgerow.policy.ask import EXPECTED_OUTPUT
from hedgerow.policy.price import Price

_DOLLAR = 1e9
_STEPS = 61
"""Shares that are tried to find what money buys."""


class Money:
    """Of one primary and one backup: of each request what it costs at either, `whole` and when it is broken off.

    A price says both: who is broken off before the first token has read the prompt, and is paid for that. Where only
    the log tells what attempts cost, one that is broken off is taken to cost as much as any other.
    """

    def __init__(self, own: tuple[Floats, Floats], other: tuple[Floats, Floats]) -> None:
        self._own, self._other = own, other

    def bill(self, part: slice) -> float:
        """Dollars of 1,000 of these requests without hedges, on average."""
        return float(self._own[0][part].mean()) * 1_000.0

    def of(self, flown: Flown, part: slice = slice(None)) -> Floats:
        """Dollars of each of these requests, more than without hedges."""
        hedged = flown.hedges[part] > 0
        first = self._own[0][part], self._own[1][part]
        second = self._other[0][part], self._other[1][part]
        won = second[0] + first[1] - first[0]
        return np.where(hedged, np.where(flown.winner[part] > 0, won, second[1]), 0.0)

    def share(self, usd_per_1000: float, scene: Scene, backup: Backup) -> float:
        """Hedges per request that so many dollars per 1,000 requests buy, of those that are fitted on."""
        own, other = (each[: scene.split] for each in scene.sure(backup))
        whole, broken = (each[: scene.split] for each in self._other)
        mine, lost = (each[: scene.split] for each in self._own)
        bought = 0.0
        for share in np.geomspace(0.001, 1.0, _STEPS).tolist():
            delay = at_quantile(own, 1.0 - share)
            each = np.where(delay + other < own, whole + lost - mine, broken)
            if np.where(own > delay, each, 0.0).mean() * 1_000.0 <= usd_per_1000:
                bought = share
        return float(bought)


def money_of(scene: Scene, backup: Backup, prices: Mapping[str, Price]) -> Money | None:
    """None where neither prices nor the log say what both targets cost."""
    own = _costs(scene, scene.name, prices)
    other = _costs(scene, backup.name, prices)
    return None if own is None or other is None else Money(own, other)


def _costs(scene: Scene, name: str, prices: Mapping[str, Price]) -> tuple[Floats, Floats] | None:
    asked = scene.primary
    price = prices.get(name)
    if price is not None:
        made = np.full(len(asked), EXPECTED_OUTPUT) if asked.output_tokens is None else asked.output_tokens
        pairs = list(zip(asked.input_tokens.tolist(), made.tolist(), strict=True))
        return (
            np.array([price.cost(read, wrote) for read, wrote in pairs]) / _DOLLAR,
            np.array([price.cost(read, 0) for read, _ in pairs]) / _DOLLAR,
        )
    each = _by_size(scene.log.of(scene.log.target == scene.log.targets.index(name)), asked)
    return None if each is None else (each, each)


def _by_size(there: Log, asked: Log) -> Floats | None:
    """What attempts there cost on average that have the same prompt size, else on average at all."""
    if there.usd is None or np.isnan(there.usd).all():
        return None
    known = ~np.isnan(there.usd)
    sizes, usd = size_of(there.input_tokens)[known], there.usd[known]
    own = size_of(asked.input_tokens)
    found = np.full(len(asked), usd.mean())
    for size in np.unique(sizes):
        found[own == size] = usd[sizes == size].mean()
    return found
