"""The targets of one request in the order in which they are asked, where that is more than how they are listed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hedgerow.policy.ask import Ask
from hedgerow.policy.auto import Cost
from hedgerow.policy.fastest import ByHistory
from hedgerow.policy.health import Health, Order
from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.order import Fastest, OrderRule, Rotate
from hedgerow.policy.plan import Candidate
from hedgerow.policy.rotate import Rotation
from hedgerow.policy.where import Where


class Lineup:
    """Of the places of one route, or of those that speak one family of protocols."""

    __slots__ = ("_candidates", "_health", "_where")

    def __init__(self, candidates: Sequence[Candidate], health: Health, where: Where) -> None:
        self._candidates = candidates
        self._health = health
        self._where = where

    def order(self, ask: Ask, now: float, model: str) -> Order:
        """As `Health.order`; the request is taken to go to the first of it."""
        candidates = self._candidates
        indices = self._where.order(ask, candidates, now)
        order = self._health.order([candidates[index] for index in indices], now, model)
        usable = [indices[position] for position in order.usable]
        if usable:
            self._where.led([candidates[index] for index in usable])
        spare = [indices[position] for position in order.spare]
        return msgspec.structs.replace(order, usable=usable, spare=spare)


def lineup_of(candidates: Sequence[Candidate], health: Health, where: Where | None) -> Lineup | None:
    """None where the targets are simply asked as they are listed."""
    return None if where is None else Lineup(candidates, health, where)


def where_of(rule: OrderRule | None, model: LatencyModel, cost: Cost, *, races: bool) -> Where | None:
    """What a rule means; None where targets are asked as they are listed. `races`: several are asked together."""
    match rule:
        case None:
            return None
        case Rotate():
            return Rotation()
        case Fastest():
            return ByHistory(rule, model, cost, races=races)
