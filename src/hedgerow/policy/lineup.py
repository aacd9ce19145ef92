"""The targets of one request in the order in which they are asked, where that is more than how they are listed."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from hedgerow.policy.ask import Ask
from hedgerow.policy.capabilities import Capabilities, capabilities_of
from hedgerow.policy.fastest import ByHistory, Costs
from hedgerow.policy.health import Health, Order
from hedgerow.policy.keys import Keys, keys_of
from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.order import Fastest, OrderRule, Rotate
from hedgerow.policy.plan import Candidate
from hedgerow.policy.quota import Quota
from hedgerow.policy.roles import Roles, roles_of
from hedgerow.policy.rotate import Rotation
from hedgerow.policy.sticky import Sessions
from hedgerow.policy.where import Where

_Keys = tuple[()] | tuple[Sequence[int], Sequence[int]]
"""Further keys of the targets: of those that are not left out, and of those that are. Nothing where there are none."""


class Lineup:
    """Of the places of one route, or of those that speak one family of protocols."""

    __slots__ = ("_candidates", "_capabilities", "_health", "_keys", "_roles", "_sessions", "_where")

    def __init__(
        self,
        candidates: Sequence[Candidate],
        health: Health,
        where: Where | None,
        *,
        sessions: Sessions | None = None,
        keys: Keys | None = None,
        roles: Roles | None = None,
        capabilities: Capabilities | None = None,
    ) -> None:
        self._candidates = candidates
        self._health = health
        self._where = where
        self._sessions = sessions
        self._keys = keys
        self._roles = roles
        self._capabilities = capabilities

    def order(self, ask: Ask, now: float) -> Order:
        """As `Health.order`, where `spare` are those for failures alone; the request is taken to go to the first.

        One that stays where its session is takes no turn: turns are for those that go by the order.
        """
        candidates, where, health = self._candidates, self._where, self._health
        indices, rest = self._listed(ask, now)
        if where is not None:
            listed = candidates if len(indices) == len(candidates) else [candidates[index] for index in indices]
            indices = [indices[place] for place in where.order(ask, listed, now)]
        own = None if self._sessions is None or not ask.session else self._sessions.target(ask.session, now)
        if own is not None:
            indices = self._stay(indices, own)
        order, well = Order(indices), indices
        if rest or self._roles is not None or health.out or health.unwell:
            order, well = self._as_they_are(indices, rest, ask, now)
        if where is not None and well and candidates[well[0]].leads and candidates[well[0]].target != own:
            where.led([each for index in well if (each := candidates[index]).leads])
        return order

    def _as_they_are(self, indices: Sequence[int], rest: _Keys, ask: Ask, now: float) -> tuple[Order, Sequence[int]]:
        """Who of these may be asked, in which role; and all who have turns: no half-open one that others are before."""
        roles, by_role = self._roles, indices
        if roles is not None:  # so that health knows whom the hedge would have gone to
            first, last = roles.arrange(indices, stream=ask.stream)
            by_role = [*first, *last]
        order = self._health.order([self._candidates[index] for index in by_role], now, ask.model)
        usable = [by_role[position] for position in order.usable]
        spare = [by_role[position] for position in order.spare]
        probed = [by_role[position] for position in order.probes]
        for_failures: list[int] = []
        if roles is not None and usable:
            usable, for_failures = roles.arrange(_well(indices, usable, probed), stream=ask.stream)
        well, out = rest or ((), ())
        spare = [*for_failures, *well, *spare, *out]
        turns = [index for index in (*usable, *for_failures) if index not in probed or index == usable[0]]
        return msgspec.structs.replace(order, usable=usable, spare=spare), turns

    def _listed(self, ask: Ask, now: float) -> tuple[Sequence[int], _Keys]:
        """The targets that can answer this request, each with one key, as they are listed; and their other keys."""
        able: Sequence[int] = range(len(self._candidates))
        if self._capabilities is not None:
            able = self._capabilities.able(ask, able)
        if self._keys is None:
            return able, ()
        chosen = [index for index in self._keys.choose(ask, now) if index in able]
        well, out = self._keys.others(chosen, now)
        return chosen, ([index for index in well if index in able], [index for index in out if index in able])

    def _stay(self, indices: Sequence[int], target: str) -> Sequence[int]:
        """The session's own target first, if it can answer."""
        own = next((index for index in indices if self._candidates[index].target == target), None)
        return indices if own is None else [own, *(index for index in indices if index != own)]


def _well(indices: Sequence[int], usable: Sequence[int], probed: Sequence[int]) -> Sequence[int]:
    """Those of `indices` that are usable; first who is not half-open, where health wants it so."""
    well = [index for index in indices if index in usable]
    if usable[0] in probed or well[0] not in probed:
        return well
    first = next(index for index in well if index not in probed)
    return [first, *(index for index in well if index != first)]


def lineup_of(
    candidates: Sequence[Candidate], health: Health, where: Where | None, sessions: Sessions | None, quota: Quota
) -> Lineup | None:
    """None where the targets are simply asked as they are listed."""
    keys, roles, capabilities = keys_of(candidates, health, quota), roles_of(candidates), capabilities_of(candidates)
    if all(each is None for each in (where, sessions, keys, roles, capabilities)):
        return None
    return Lineup(candidates, health, where, sessions=sessions, keys=keys, roles=roles, capabilities=capabilities)


def where_of(rule: OrderRule | None, model: LatencyModel, costs: Costs, *, races: bool) -> Where | None:
    """What a rule means; None where targets are asked as they are listed. `races`: several are asked together."""
    match rule:
        case None:
            return None
        case Rotate():
            return Rotation()
        case Fastest():
            return ByHistory(rule, model, costs, races=races)
