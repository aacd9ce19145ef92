"""One budget over several kinds of request: spend where a unit of money shortens the tail most.

Equal shares of hedges per prompt size are worse than one delay for all: the tail belongs to the long prompts. Here

    P(T <= t) = sum over cells of weight * (P(X <= t) + gain)      sum of weight * cost * hedged <= budget

where `hedged` is the share of a cell's requests that are hedged, and `gain` what that adds (see `policy.reissue`). For
each t, a cell's best gain as a function of money is the upper hull of its delays. All hulls are walked at once from
their steepest piece down until the money is gone or the target reached; the cell where that happens takes the best
delay and probability that is left to it. So at most one cell is hedged by chance. The shortest t is then found by
bisection.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import NamedTuple

import msgspec

from hedgerow.policy.copula import STRONGEST
from hedgerow.policy.reissue import (
    NEVER,
    Aim,
    Choice,
    Conditional,
    Curve,
    Law,
    Look,
    Reissue,
    Steps,
    finish,
    horizon,
    shortest,
)


class Cell(msgspec.Struct, frozen=True):
    """Requests of one kind: how often they come, what a hedge of one costs, and how long both attempts take.

    `weight` is their share of the requests or their number, `cost` in any unit that is the same for all: nano-dollars,
    tokens, or 1 where hedges are counted.
    """

    weight: float
    cost: float
    primary: Law
    backup: Law
    correlation: float | Conditional = 0.0


def allocate(
    cells: Sequence[Cell], *, target: float, budget: float, min_delay: float = 0.0, max_delay: float = inf
) -> Sequence[Reissue]:
    """For each cell the delay and probability that together make the `target` quantile of all requests shortest.

    Hedges cost at most `budget`, in (0, 1], of what it would cost to hedge every request; where a hedge costs as much
    as the request did, that is a share of the whole bill. Never worse than the best single delay for all cells at that
    price, and with one cell the same as `single_r`. Each result's `quantile` is that of all requests.

    Raises `ValueError` for numbers out of range, and unless some cell has a weight.
    """
    return finish(allocation(cells, Aim(target, budget, min_delay, max_delay)))


def allocation(cells: Sequence[Cell], aim: Aim) -> Steps[Sequence[Reissue]]:
    """`allocate` in steps, for a thread that has other things to do: a step takes about 0.1 ms per cell."""
    _check(cells)
    total = sum(cell.weight for cell in cells)
    used = [index for index, cell in enumerate(cells) if cell.weight > 0.0]
    kinds = []
    for index in used:
        cell = cells[index]
        curve = Curve(cell.primary, cell.backup, cell.correlation, aim)
        kinds.append(_Kind(cell.weight / total, cell.cost * cell.weight / total, curve, cell.primary))
        yield
    fund = _Fund(kinds, aim)
    end = horizon([(cells[index].primary, cells[index].backup) for index in used])
    quantile, choices = yield from shortest(fund.attempt, aim.target, _plain(kinds, aim.target), end)
    chosen = dict(zip(used, choices, strict=True)) if choices else {}
    return tuple(Reissue(*chosen.get(index, NEVER), quantile) for index in range(len(cells)))


def _check(cells: Sequence[Cell]) -> None:
    for cell in cells:
        if not 0.0 < cell.cost < inf:
            raise ValueError("the cost of a hedge must be above 0")
        if not 0.0 <= cell.weight < inf:
            raise ValueError("the weight of a cell must be 0 or more")
        if not callable(cell.correlation) and not 0.0 <= cell.correlation <= STRONGEST:
            raise ValueError(f"correlation must be in [0, {STRONGEST}]")
    if not any(cell.weight for cell in cells):
        raise ValueError("some cell must have a weight")


class _Kind(NamedTuple):
    weight: float
    """Its share of all requests."""
    price: float
    """What hedging all of it costs."""
    curve: Curve
    primary: Law


class _Fund:
    """The money, and what it buys at a time t."""

    __slots__ = ("_everywhere", "_kinds", "_money", "_target")

    def __init__(self, kinds: Sequence[_Kind], aim: Aim) -> None:
        self._kinds, self._target = kinds, aim.target
        self._money = aim.budget * sum(kind.price for kind in kinds)
        self._everywhere = _one_delay(kinds, self._money, aim)

    def attempt(self, t: float, randomise: bool) -> tuple[float, Sequence[Choice]]:
        """What reaches furthest at `t`: the money where the hulls say, or one delay for all, should that be better.

        It may be, by a little, since the hulls join a finite number of delays.
        """
        looks = [kind.curve.look(t) for kind in self._kinds]
        answered = sum(kind.weight * look.answered for kind, look in zip(self._kinds, looks, strict=True))
        gain, choices = self._spread(looks, randomise, self._target - answered)
        if self._everywhere < t:
            same = sum(k.weight * look.gain(self._everywhere) for k, look in zip(self._kinds, looks, strict=True))
            if same > gain and answered + gain < self._target:
                return answered + same, [(self._everywhere, 1.0)] * len(looks)
        return answered + gain, choices

    def _spread(self, looks: Sequence[Look], randomise: bool, enough: float) -> tuple[float, list[Choice]]:
        """Take the pieces as they come, until the money is spent or has bought enough."""
        kinds = self._kinds
        gains, choices, shares = [0.0] * len(kinds), [NEVER] * len(kinds), [0.0] * len(kinds)
        left, total = self._money, 0.0
        for _, which, corner in _pieces(kinds, looks):
            kind, look = kinds[which], looks[which]
            others = total - kind.weight * gains[which]
            share, gain = kind.curve.hedged[corner], look.gains[corner]
            price = kind.price * (share - shares[which])
            total = others + kind.weight * gain
            if price > left or total >= enough:
                share = min(share, shares[which] + left / kind.price)
                need = (enough - others) / kind.weight
                gains[which], choices[which] = kind.curve.best(share, look, randomise, need)
                return others + kind.weight * gains[which], choices
            left -= price
            gains[which], shares[which], choices[which] = gain, share, (kind.curve.delays[corner], 1.0)
        return total, choices


def _pieces(kinds: Sequence[_Kind], looks: Sequence[Look]) -> list[tuple[float, int, int]]:
    """All hulls' pieces, the steepest first: minus the gain per unit of money, the cell, the corner it ends at."""
    pieces = []
    for which, (kind, look) in enumerate(zip(kinds, looks, strict=True)):
        worth = kind.weight / kind.price
        pieces += [(-slope * worth, which, corner) for slope, corner in _hull(kind.curve.hedged, look.gains)]
    pieces.sort()
    return pieces


def _hull(hedged: Sequence[float], gains: Sequence[float]) -> list[tuple[float, int]]:
    """The upper hull of the points (hedged, gain) and (0, 0): each corner's index, and the slope that leads to it."""
    corners: list[tuple[float, int]] = []
    for index in range(len(gains) - 1, -1, -1):
        while True:
            before = corners[-1][1] if corners else None
            x, y = (hedged[before], gains[before]) if before is not None else (0.0, 0.0)
            slope = (gains[index] - y) / (hedged[index] - x)
            if not corners or slope < corners[-1][0]:
                break
            corners.pop()
        if slope > 0.0:
            corners.append((slope, index))
    return corners


def _one_delay(kinds: Sequence[_Kind], money: float, aim: Aim) -> float:
    """The shortest delay that the money affords when all cells have the same; `inf` when none does."""

    def affordable(delay: float) -> bool:
        return sum(kind.price * kind.primary.survival(delay) for kind in kinds) <= money * (1.0 + 1e-9)

    low, high = aim.min_delay, min(max(kind.curve.affordable(aim.budget) for kind in kinds), aim.max_delay)
    if affordable(low):
        return low
    if high == inf or not affordable(high):
        return inf
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        low, high = (low, middle) if affordable(middle) else (middle, high)
    return high


def _plain(kinds: Sequence[_Kind], target: float) -> float:
    """The target quantile of all requests without hedges."""
    quantiles = [kind.primary.quantile(target) for kind in kinds]
    low, high = min(quantiles), max(quantiles)
    if len(kinds) == 1 or low == high:
        return high
    if high == inf:
        high = horizon([(kind.primary, kind.primary) for kind in kinds])
        if sum(kind.weight * kind.primary.cdf(high) for kind in kinds) < target:
            return inf
    while high - low > 1e-9 * high:
        middle = (low + high) / 2.0
        reached = sum(kind.weight * kind.primary.cdf(middle) for kind in kinds) >= target
        low, high = (low, middle) if reached else (middle, high)
    return high
