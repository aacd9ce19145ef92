"""The targets of one request in the order in which they are asked, where that is more than how they are listed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hedgerow.policy.ask import Ask
from hedgerow.policy.auto import Cost
from hedgerow.policy.fastest import ByHistory
from hedgerow.policy.health import Health, Order
from hedgerow.policy.keys import Keys, keys_of
from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.order import Fastest, OrderRule, Rotate
from hedgerow.policy.plan import Candidate
from hedgerow.policy.quota import Quota
from hedgerow.policy.rotate import Rotation
from hedgerow.policy.sticky import Sessions
from hedgerow.policy.where import Where


class Lineup:
    """Of the places of one route, or of those that speak one family of protocols."""

    __slots__ = ("_candidates", "_health", "_keys", "_sessions", "_where")

    def __init__(
        self,
        candidates: Sequence[Candidate],
        health: Health,
        where: Where | None,
        *,
        sessions: Sessions | None = None,
        keys: Keys | None = None,
    ) -> None:
        self._candidates = candidates
        self._health = health
        self._where = where
        self._sessions = sessions
        self._keys = keys

    def order(self, ask: Ask, now: float, model: str) -> Order:
        """As `Health.order`; the request is taken to go to the first of it."""
        candidates, where, keys = self._candidates, self._where, self._keys
        listed: Sequence[int] = range(len(candidates)) if keys is None else keys.choose(ask, now)
        indices = listed
        if where is not None:
            indices = [listed[place] for place in where.order(ask, [candidates[index] for index in listed], now)]
        if self._sessions is not None and ask.session:
            indices = self._stay(indices, self._sessions.target(ask.session, now))
        order = self._health.order([candidates[index] for index in indices], now, model)
        usable = [indices[position] for position in order.usable]
        if usable and where is not None:
            where.led([candidates[index] for index in usable])
        spare = [indices[position] for position in order.spare]
        if keys is not None:
            well, out = keys.others(listed, now)
            spare = [*well, *spare, *out]
        return msgspec.structs.replace(order, usable=usable, spare=spare)

    def _stay(self, indices: Sequence[int], target: str | None) -> Sequence[int]:
        """The session's own target first, if it has one."""
        own = next((index for index in indices if self._candidates[index].target == target), None)
        return indices if own is None else [own, *(index for index in indices if index != own)]


def lineup_of(
    candidates: Sequence[Candidate], health: Health, where: Where | None, sessions: Sessions | None, quota: Quota
) -> Lineup | None:
    """None where the targets are simply asked as they are listed."""
    keys = keys_of(candidates, health, quota)
    if where is None and sessions is None and keys is None:
        return None
    return Lineup(candidates, health, where, sessions=sessions, keys=keys)


def where_of(rule: OrderRule | None, model: LatencyModel, cost: Cost, *, races: bool) -> Where | None:
    """What a rule means; None where targets are asked as they are listed. `races`: several are asked together."""
    match rule:
        case None:
            return None
        case Rotate():
            return Rotation()
        case Fastest():
            return ByHistory(rule, model, cost, races=races)
