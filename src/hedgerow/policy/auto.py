"""The delay called `auto`: what each prompt size should do with a route's budget.

The plan aims at the budget itself, a little higher or lower as its bucket is full or empty (see `Account.pace`): the
delay is only an aim, and the bucket the limit.

The budget is a share of the requests, and hedges differ in price. To give a unit of money where it buys the most tail,
and still keep the number of hedges, a hedge counts half as one and half as what it costs, next to what a hedge costs on
average if there were one delay for all sizes. So that one delay is always affordable, and the plan never worse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from hedgerow.policy.allocate import Cell, allocation
from hedgerow.policy.latency.cells import LatencyModel, Seen
from hedgerow.policy.latency.distribution import Distribution
from hedgerow.policy.reissue import Aim, Reissue, Steps

PROMPTS = (500, 2_000, 8_000, 32_000, 128_000)
"""Tokens that stand for each prompt size."""

_SOLVES = 4
"""How often the number of hedges is brought closer to the budget, at most."""
_UNDER, _OVER = 0.97, 1.01
"""How far from the budget it may stay."""

_START = 4.0
"""How far from the budget itself a plan may begin to look."""

_FEW = 0.5
"""With hedges for less than this share of the budget a plan has found little use for them."""

Cost = Callable[[str, int], float]
"""What a hedge to this target costs for a prompt of this size: nano-dollars, tokens, any unit. Above 0."""


def prompt_tokens(_target: str, size: int) -> float:
    """The `Cost` where prices are not known: prompts are what hedges cost."""
    return float(PROMPTS[size])


class Kind(msgspec.Struct, frozen=True):
    """Prompt sizes that are planned as one, as the same is known of them; `cost` is that of an average hedge."""

    sizes: tuple[int, ...]
    weight: float
    cost: float
    primary: Distribution
    backup: Distribution


def kinds_of(model: LatencyModel, primary: str, backup: str, stream: bool, cost: Cost, now: float) -> Sequence[Kind]:
    """What is known of the requests that come, in order of size; nothing while the primary is cold.

    A size with too few samples goes with the others (see `Cells`), and of an unknown backup the primary's times are
    assumed. Sizes that nobody asks for are left out.
    """
    together: dict[tuple[int, int], list[tuple[int, float]]] = {}
    laws: dict[tuple[int, int], tuple[Distribution, Distribution]] = {}
    for size, rate in enumerate(model.first_tokens.rates(primary, stream, now)):
        first = model.first_token(primary, stream, PROMPTS[size], now)
        if first is None:
            return ()
        if rate > 0.0:
            second = model.answers(backup, stream, PROMPTS[size], now) or first
            key = (id(first), id(second))
            laws[key] = (first, second)
            together.setdefault(key, []).append((size, rate))
    kinds = []
    for key, members in together.items():
        weight = sum(rate for _, rate in members)
        price = sum(rate * cost(backup, size) for size, rate in members) / weight
        kinds.append(Kind(tuple(size for size, _ in members), weight, price, *laws[key]))
    return kinds


class Planned(NamedTuple):
    """What each kind should do; `start` is where the next plan had better begin."""

    choices: Sequence[Reissue]
    start: float = 1.0


Inputs = tuple[Sequence[Kind], float, float]
"""What is known of each kind, and of how much attempts go together: the likeliest and the least."""


class KeptPlan(NamedTuple):
    """What a plan was made of, for how many kinds of request, after so many samples of primary and backup."""

    inputs: Inputs
    of: int
    seen: tuple[Seen, Seen]
    start: float

    def holds(self, kinds: int, seen: tuple[Seen, Seen]) -> bool:
        """Whether it need not be made anew."""
        known = bool(self.inputs[0]) and self.of == kinds
        return known and not any(then.is_stale(now, then.held) for then, now in zip(self.seen, seen, strict=True))

    def is_of(self, kinds: int, inputs: Inputs) -> bool:
        """Whether it would be the same."""
        before, after = self.inputs[0], inputs[0]
        if self.of != kinds or self.inputs[1:] != inputs[1:] or len(before) != len(after):
            return False
        return all(
            (a.sizes, a.primary, a.backup) == (b.sizes, b.primary, b.backup) for a, b in zip(before, after, strict=True)
        )


def planned(kinds: Sequence[Kind], correlation: float, aim: Aim, start: float = 1.0) -> Steps[Planned]:
    """How to make the target quantile of all requests shortest, with hedges for `aim.budget` of them.

    Where hedging does not make it shorter, what is left of the budget goes to those that reach `max_delay`.
    """
    weights = shares_of(kinds)
    prices = _prices(kinds, weights, aim)
    mean = sum(weight * price for weight, price in zip(weights, prices, strict=True))
    cells = [
        Cell(weight, price, kind.primary, kind.backup, correlation)
        for kind, weight, price in zip(kinds, weights, prices, strict=True)
    ]
    money, before = start * aim.budget, 0.0
    found: Sequence[Reissue] = ()
    for _ in range(_SOLVES):
        within = Aim(aim.target, min(1.0, money / mean), aim.min_delay, aim.max_delay)
        tried = yield from allocation(cells, within)
        hedged = hedged_by(kinds, weights, tried)
        if not found or (hedged <= aim.budget * _OVER and tried[0].quantile <= found[0].quantile):
            found = _fewer(tried, aim.budget / hedged) if hedged > aim.budget * _OVER else tried
            start = money / aim.budget
        if hedged in (0.0, before) or _UNDER <= hedged / aim.budget <= _OVER:
            break
        money, before = money * min(aim.budget / hedged, 2.0), hedged
    return Planned(_insured(kinds, weights, found, aim), min(max(start, 1.0 / _START), _START))


def hopeful(kinds: Sequence[Kind], correlation: float, least: float, aim: Aim, start: float = 1.0) -> Steps[Planned]:
    """`planned`, or where that finds little use for hedges, what it would do with the `least` correlation there may be.

    For only hedges show how much attempts go together: a target that is never hedged because too much is assumed would
    never be found out. What is tried costs no more than the budget, and each try tells whether to go on.
    """
    plan = yield from planned(kinds, correlation, aim, start)
    weights = shares_of(kinds)
    few = hedged_by(kinds, weights, plan.choices) < _FEW * aim.budget
    if not few or least >= correlation:
        return plan
    tried = yield from planned(kinds, least, aim, start)
    more = hedged_by(kinds, weights, tried.choices) > hedged_by(kinds, weights, plan.choices)
    return tried if more else plan


def shares_of(kinds: Sequence[Kind]) -> Sequence[float]:
    """What share of all requests each kind is."""
    total = sum(kind.weight for kind in kinds)
    return [kind.weight / total for kind in kinds]


def hedged_by(kinds: Sequence[Kind], weights: Sequence[float], choices: Sequence[Reissue]) -> float:
    """The share of all requests that are hedged."""
    return sum(w * share_of(kind.primary, choice) for kind, w, choice in zip(kinds, weights, choices, strict=True))


def affordable(primary: Distribution, aim: Aim) -> Reissue:
    """The delay at which hedging everybody comes to the budget; not the best, but known at once."""
    delay = min(max(slowest(primary, 1.0 - aim.budget), aim.min_delay), aim.max_delay)
    share = share_of(primary, Reissue(delay, 1.0, inf)) if delay < inf else 0.0
    return Reissue(delay, min(1.0, aim.budget / share) if share > 0.0 else float(delay < inf), inf)


def share_of(primary: Distribution, choice: Reissue) -> float:
    """The share of such requests that are hedged."""
    return choice.probability * primary.survival(choice.delay) if choice.delay < inf else 0.0


def slowest(law: Distribution, target: float) -> float:
    """The target quantile, or where so many never end that it is not known, that of those that end."""
    quantile = law.quantile(target)
    return law.quantile(target * law.shares[-1]) if quantile == inf and law.shares else quantile


def _prices(kinds: Sequence[Kind], weights: Sequence[float], aim: Aim) -> Sequence[float]:
    delay = _one_delay(kinds, weights, aim)
    hedged = [weight * kind.primary.survival(delay) for kind, weight in zip(kinds, weights, strict=True)]
    hedged = hedged if sum(hedged) > 0.0 else list(weights)
    average = sum(share * kind.cost for kind, share in zip(kinds, hedged, strict=True)) / sum(hedged)
    return [0.5 + 0.5 * kind.cost / average for kind in kinds]


def _one_delay(kinds: Sequence[Kind], weights: Sequence[float], aim: Aim) -> float:
    """The delay that hedges as much as the budget allows, if all sizes have the same."""
    quantiles = [min(kind.primary.quantile(1.0 - aim.budget), aim.max_delay) for kind in kinds]
    finite = [quantile for quantile in quantiles if quantile < inf]
    low, high = aim.min_delay, max(finite, default=aim.min_delay)
    while high - low > 1e-3 * high:
        middle = (low + high) / 2.0
        hedged = sum(w * kind.primary.survival(middle) for kind, w in zip(kinds, weights, strict=True))
        low, high = (low, middle) if hedged <= aim.budget else (middle, high)
    return max(low, high)


def _fewer(choices: Sequence[Reissue], factor: float) -> Sequence[Reissue]:
    return [Reissue(choice.delay, choice.probability * factor, inf) for choice in choices]


def _insured(kinds: Sequence[Kind], weights: Sequence[float], found: Sequence[Reissue], aim: Aim) -> Sequence[Reissue]:
    left = aim.budget - hedged_by(kinds, weights, found)
    late = sum(
        weight * kind.primary.survival(aim.max_delay)
        for kind, weight, choice in zip(kinds, weights, found, strict=True)
        if choice.delay == inf
    )
    if aim.max_delay == inf or left <= 0.0:
        return found
    probability = min(1.0, left / late) if late > 0.0 else 1.0
    return [Reissue(aim.max_delay, probability, choice.quantile) if choice.delay == inf else choice for choice in found]
