"""What attempts of a log cost, in dollars, and what hedges add to that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hedgerow.planner.estimate import at_quantile
from hedgerow.planner.log import Floats, Ints, Log
from hedgerow.planner.scene import Backup, Scene
from hedgerow.planner.statistics import size_of
from hedgerow.planner.trial import Flown
from hedgerow.policy.ask import EXPECTED_OUTPUT
from hedgerow.policy.price import Price

_DOLLAR = 1e9
_STEPS = 61
"""Shares that are tried to find what money buys."""


class Bill(NamedTuple):
    """Dollars of each request at one target: of the `whole` attempt and of one that is `broken` off.

    `unknown`: the share of the requests of which that is not known, and `instead` what is taken in its place.
    """

    whole: Floats
    broken: Floats
    unknown: float
    instead: str


class Money:
    """Of one primary and one backup: of each request what it costs at either, whole and when it is broken off.

    A price says both: who is broken off before the first token has read the prompt, and is paid for that. Where only
    whole answers are timed, or only the log tells what attempts cost, one that is broken off is taken to cost as much
    as any other.
    """

    def __init__(self, own: Bill, other: Bill) -> None:
        self._own, self._other = own, other

    @property
    def unknown(self) -> tuple[float, str]:
        """The share of requests of which costs are not known, and what is taken instead: where that is worse."""
        worse = max(self._own, self._other, key=lambda bill: bill.unknown)
        return worse.unknown, worse.instead

    def bill(self, part: slice) -> float:
        """Dollars of 1,000 of these requests without hedges, on average."""
        return float(self._own.whole[part].mean()) * 1_000.0

    def per_1000(self, flown: Sequence[Flown], part: slice) -> float:
        """Dollars of the hedges of 1,000 of these requests, gone through several times."""
        return float(np.mean([self.of(each, part) for each in flown])) * 1_000.0

    def of(self, flown: Flown, part: slice = slice(None)) -> Floats:
        """Dollars of each of these requests, more than without hedges."""
        won = (flown.hedges[part] > 0) & (flown.winner[part] > 0)
        lost = (flown.hedges[part] - won) * self._other.broken[part]
        return lost + np.where(won, self._other.whole[part] + self._own.broken[part] - self._own.whole[part], 0.0)

    def share(self, usd_per_1000: float, scene: Scene, backup: Backup) -> float:
        """Hedges per request that so many dollars per 1,000 requests buy, of those that are fitted on."""
        own, other = (each[: scene.split] for each in scene.sure(backup))
        whole, broken = self._other.whole[: scene.split], self._other.broken[: scene.split]
        mine, lost = self._own.whole[: scene.split], self._own.broken[: scene.split]
        bought = 0.0
        for share in np.geomspace(0.001, 1.0, _STEPS).tolist():
            delay = at_quantile(own, 1.0 - share)
            each = np.where(delay + other < own, whole + lost - mine, broken)
            if np.where(own > delay, each, 0.0).mean() * 1_000.0 <= usd_per_1000:
                bought = share
        return float(bought)


def money_of(scene: Scene, backup: Backup, prices: Mapping[str, Price]) -> Money | None:
    """None where neither prices nor the log say what both targets cost."""
    own, other = (_costs(scene, name, prices) for name in (scene.name, backup.name))
    return None if own is None or other is None else Money(own, other)


def _costs(scene: Scene, name: str, prices: Mapping[str, Price]) -> Bill | None:
    there = scene.log.of(scene.log.target == scene.log.targets.index(name))
    price = prices.get(name)
    return _by_size(there, scene.primary) if price is None else _by_price(there, scene.primary, price)


def _by_price(there: Log, asked: Log, price: Price) -> Bill:
    """By tokens of the prompts that were `asked` and of their answers: where these are not known, by the median of
    those that are at this target, else of all that were asked.
    """
    none = np.zeros(len(asked), dtype=np.int64)
    made = none if asked.output_tokens is None else asked.output_tokens
    prompt = _median([there.input_tokens, asked.input_tokens], 0)
    answer = _median([each.output_tokens for each in (there, asked) if each.output_tokens is not None], EXPECTED_OUTPUT)
    # who failed has no answer, and that is known
    unknown = ~asked.failed & ((asked.input_tokens <= 0) | (made <= 0))
    pairs = [
        (read if read > 0 else prompt, wrote if wrote > 0 else answer)
        for read, wrote in zip(asked.input_tokens.tolist(), made.tolist(), strict=True)
    ]
    whole = np.array([price.cost(read, wrote) for read, wrote in pairs]) / _DOLLAR
    read_only = np.array([price.cost(read, 0) for read, _ in pairs]) / _DOLLAR
    instead = f"{prompt:,} tokens of prompt or {answer:,} of answer, the median of the others,"
    if asked.output_tokens is None:
        instead = f"{prompt:,} tokens of prompt, the median of the others, or {answer:,} of answer, a guess,"
    return Bill(whole, read_only if asked.of_first_token else whole, float(unknown.mean()), instead)


def _median(of: Sequence[Ints], otherwise: int) -> int:
    """Of the first in which some are known."""
    known = (each[each > 0] for each in of)
    return next((round(float(np.median(each))) for each in known if len(each)), otherwise)


def _by_size(there: Log, asked: Log) -> Bill | None:
    """What attempts there cost on average that have the same prompt size, else on average at all."""
    if there.usd is None or np.isnan(there.usd).all():
        return None
    known = ~np.isnan(there.usd)
    sizes, usd = size_of(there.input_tokens)[known], there.usd[known]
    own = size_of(asked.input_tokens)
    found = np.full(len(asked), usd.mean())
    for size in np.unique(sizes):
        found[own == size] = usd[sizes == size].mean()
    unknown = float((~known & ~there.failed).mean())
    return Bill(found, found, unknown, "the mean of the others of the same prompt size")
