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
from operator import itemgetter
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

_FULL = 1.0 + 1e-9
"""All of what may be spent; floats drift."""
_MIXTURES = 8
"""How many mixtures of two limits are tried."""


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
    cells: Sequence[Cell],
    *,
    target: float,
    budget: float,
    hedges: float = 1.0,
    min_delay: float = 0.0,
    max_delay: float = inf,
) -> Sequence[Reissue]:
    """For each cell the delay and probability that together make the `target` quantile of all requests shortest.

    Hedges cost at most `budget`, in (0, 1], of what it would cost to hedge every request; where a hedge costs as much
    as the request did, that is a share of the whole bill. And there are at most `hedges`, in (0, 1], per request: cheap
    ones could else be many. Never worse than the best single delay for all cells at that price, and with one cell the
    same as `single_r`. Each result's `quantile` is that of all requests.

    Raises `ValueError` for numbers out of range, and unless some cell has a weight.
    """
    return finish(allocation(cells, Aim(target, budget, min_delay, max_delay), hedges))


def allocation(cells: Sequence[Cell], aim: Aim, hedges: float = 1.0) -> Steps[Sequence[Reissue]]:
    """`allocate` in steps, for a thread that has other things to do: a step takes about 0.1 ms per cell.

    There are some 20 steps and one for each cell. Where both limits bind, a step takes twice as long.
    """
    _check(cells, hedges)
    used = [index for index, cell in enumerate(cells) if cell.weight > 0.0]
    total = sum(cell.weight for cell in cells)
    bill = aim.budget * sum(cell.weight * cell.cost for cell in cells)
    kinds = []
    for index in used:
        cell = cells[index]
        curve = Curve(cell.primary, cell.backup, cell.correlation, aim)
        weight, price = cell.weight / total, cell.weight * cell.cost / bill
        kinds.append(_Kind(weight, price, weight / hedges, curve, cell.primary))
        yield
    end = horizon([(cells[index].primary, cells[index].backup) for index in used])
    quantile, choices = yield from shortest(_Fund(kinds, aim).attempt, aim.target, _plain(kinds, aim.target), end)
    chosen = dict(zip(used, choices, strict=True)) if choices else {}
    return tuple(Reissue(*chosen.get(index, NEVER), quantile) for index in range(len(cells)))


def _check(cells: Sequence[Cell], hedges: float) -> None:
    if not 0.0 < hedges <= 1.0:
        raise ValueError("hedges must be above 0 and at most 1")
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
    """What hedging all of it costs, of all the money there is."""
    number: float
    """How many hedges that is, of all that are allowed."""
    curve: Curve
    primary: Law


class _Spread(NamedTuple):
    """A way to spend, and what it gains. `out`: whether the money ran out first; None if nothing did."""

    gain: float
    choices: Sequence[Choice]
    out: bool | None = None


_Hulls = Sequence[Sequence[tuple[float, int]]]


class _Fund:
    """All that may be spent, and what it buys at a time t."""

    __slots__ = ("_everywhere", "_kinds", "_target")

    def __init__(self, kinds: Sequence[_Kind], aim: Aim) -> None:
        self._kinds, self._target = kinds, aim.target
        self._everywhere = _one_delay(kinds, aim)

    def attempt(self, t: float, randomise: bool) -> tuple[float, Sequence[Choice]]:
        """What reaches furthest at `t`: spending where the hulls say, or one delay for all, should that be better.

        It may be, by a little, since the hulls join a finite number of delays.
        """
        looks = [kind.curve.look(t) for kind in self._kinds]
        answered = sum(kind.weight * look.answered for kind, look in zip(self._kinds, looks, strict=True))
        best = self._best(looks, randomise, self._target - answered)
        if self._everywhere < t and answered + best.gain < self._target:
            same = sum(k.weight * look.gain(self._everywhere) for k, look in zip(self._kinds, looks, strict=True))
            if same > best.gain:
                return answered + same, [(self._everywhere, 1.0)] * len(looks)
        return answered + best.gain, best.choices

    def _best(self, looks: Sequence[Look], randomise: bool, enough: float) -> _Spread:
        """By what money buys, if money is what runs out; else by what a hedge buys; else by a mixture of the two.

        Whatever keeps both limits keeps each mixture of them. So the spread is best with the mixture under which both
        run out together. That is found by bisection, and nearly only, as spreads change in jumps.
        """
        hulls = [_hull(kind.curve.hedged, look.gains) for kind, look in zip(self._kinds, looks, strict=True)]
        best = self._spread(looks, hulls, 1.0, randomise, enough)
        if best.out is not False or best.gain >= enough:
            return best
        low, high, mix = 0.0, 1.0, 0.0
        for _ in range(_MIXTURES):
            spread = self._spread(looks, hulls, mix, randomise, enough)
            best = max(best, spread, key=itemgetter(0))
            if best.gain >= enough or (mix == 0.0 and spread.out is not True):
                break
            low, high = (mix, high) if spread.out else (low, mix)
            mix = (low + high) / 2.0
        return best

    def _spread(self, looks: Sequence[Look], hulls: _Hulls, mix: float, randomise: bool, enough: float) -> _Spread:
        """Take the hulls' pieces as they come, until something runs out or enough has been gained."""
        kinds = self._kinds
        gains, choices, shares = [0.0] * len(kinds), [NEVER] * len(kinds), [0.0] * len(kinds)
        money, number, total = 1.0, 1.0, 0.0
        for _, which, corner in _pieces(kinds, hulls, mix):
            kind, look = kinds[which], looks[which]
            others = total - kind.weight * gains[which]
            share, gain = kind.curve.hedged[corner], look.gains[corner]
            more = share - shares[which]
            total = others + kind.weight * gain
            if more * kind.price > money or more * kind.number > number or total >= enough:
                out = money / kind.price <= number / kind.number
                share = min(share, shares[which] + (money / kind.price if out else number / kind.number))
                need = (enough - others) / kind.weight
                gains[which], choices[which] = kind.curve.best(share, look, randomise, need)
                return _Spread(others + kind.weight * gains[which], choices, out)
            money -= more * kind.price
            number -= more * kind.number
            gains[which], shares[which], choices[which] = gain, share, (kind.curve.delays[corner], 1.0)
        return _Spread(total, choices)


def _pieces(kinds: Sequence[_Kind], hulls: _Hulls, mix: float) -> list[tuple[float, int, int]]:
    """All hulls' pieces, the steepest first: minus the gain per unit spent, the cell, the corner it ends at.

    What is spent is money to the share `mix`, and else hedges.
    """
    pieces = []
    for which, (kind, hull) in enumerate(zip(kinds, hulls, strict=True)):
        worth = kind.weight / (mix * kind.price + (1.0 - mix) * kind.number)
        pieces += [(-slope * worth, which, corner) for slope, corner in hull]
    pieces.sort()
    return pieces


def _hull(hedged: Sequence[float], gains: Sequence[float]) -> list[tuple[float, int]]:
    """The upper hull of the points (hedged, gain) and (0, 0): each corner's index, and the slope that leads to it."""
    corners: list[tuple[float, int]] = []
    for index in range(len(gains) - 1, -1, -1):
        share, gain = hedged[index], gains[index]
        slope = gain / share
        while corners:
            steepest, before = corners[-1]
            slope = (gain - gains[before]) / (share - hedged[before])
            if slope < steepest:
                break
            corners.pop()
            slope = gain / share
        if slope > 0.0:
            corners.append((slope, index))
    return corners


def _one_delay(kinds: Sequence[_Kind], aim: Aim) -> float:
    """The shortest delay that can be afforded when all cells have the same; `inf` when none can."""

    def affordable(delay: float) -> bool:
        hedged = [kind.primary.survival(delay) for kind in kinds]
        money = sum(kind.price * share for kind, share in zip(kinds, hedged, strict=True))
        return max(money, sum(kind.number * share for kind, share in zip(kinds, hedged, strict=True))) <= _FULL

    share = 1.0 / max(sum(kind.price for kind in kinds), sum(kind.number for kind in kinds))
    low, high = aim.min_delay, min(max(kind.curve.affordable(share) for kind in kinds), aim.max_delay)
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
