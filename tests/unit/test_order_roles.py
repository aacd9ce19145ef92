"""Targets for one role only, and regions: who is first, who gets the hedge, who only follows on failures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from hedgerow.events import Failure, FailureClass
from hedgerow.policy.ask import Ask
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.policy.fastest import LEAST, ByHistory
from hedgerow.policy.health import Health, Order, Watch
from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.lineup import Lineup
from hedgerow.policy.order import Fastest
from hedgerow.policy.plan import Candidate
from hedgerow.policy.roles import roles_of
from hedgerow.policy.rotate import Rotation
from hedgerow.policy.where import Where


def any_role(name: str, region: str = "", weight: int = 1) -> Candidate:
    return Candidate(name, name, weight, region=region)


def first_only(name: str, region: str = "") -> Candidate:
    return Candidate(name, name, backs=False, region=region)


def hedge_only(name: str, region: str = "") -> Candidate:
    return Candidate(name, name, leads=False, region=region)


class Route:
    """A route of these candidates; `ask` gives the names that may be asked: hedged to, and then for failures alone."""

    def __init__(self, *candidates: Candidate, where: Where | None = None) -> None:
        self.candidates, self.health = candidates, Health()
        self._lineup = Lineup(candidates, self.health, where, roles=roles_of(candidates))
        self._asked = 0

    def order(self, now: float = 0.0) -> Order:
        self._asked += 1
        return self._lineup.order(Ask(f"r-{self._asked}", True), now)

    def ask(self, now: float = 0.0) -> str:
        order = self.order(now)
        return f"{self.names(order.usable)} {self.names(order.spare)}".strip()

    def names(self, indices: Sequence[int]) -> str:
        return "".join(self.candidates[index].target for index in indices)

    def take_out(self, name: str, seconds: float = 50.0) -> None:
        failure = Failure(FailureClass.RATE_LIMITED, "", retry_after=seconds)
        self.health.failed(Candidate(name, name), failure, 0.0, 0.0)


@pytest.mark.parametrize(
    ("candidates", "out", "asked"),
    [
        ([any_role("a"), hedge_only("b"), any_role("c")], "", "abc"),
        ([hedge_only("b"), any_role("a"), any_role("c")], "", "abc"),
        ([any_role("a"), hedge_only("b"), any_role("c")], "a", "cb a"),
        ([any_role("a"), hedge_only("b")], "a", "b a"),
        ([hedge_only("a"), hedge_only("b")], "", "ab"),
        ([any_role("a"), first_only("b"), any_role("c")], "", "ac b"),
        ([any_role("a"), first_only("b"), any_role("c")], "a", "bc a"),
        ([first_only("a"), first_only("b")], "", "a b"),
        ([any_role("a"), any_role("b")], "ab", "ab"),
    ],
)
def test_everybody_has_the_role_it_may_have(candidates: list[Candidate], out: str, asked: str) -> None:
    route = Route(*candidates)
    for name in out:
        route.take_out(name)
    assert route.ask(1.0) == asked


def test_the_backup_of_another_region_comes_before_those_of_the_same() -> None:
    route = Route(any_role("a", "us"), any_role("b", "us"), any_role("c", "eu"), any_role("d"), any_role("e", "us"))
    assert route.ask() == "acdbe"
    route.take_out("a")
    assert route.ask(1.0) == "bcde a"


def test_who_is_half_open_gets_a_hedge_and_is_not_first() -> None:
    route = Route(any_role("a", "us"), any_role("b", "us"), any_role("c", "eu"))
    route.health.watch({"a": Watch(BreakerSettings(failures=1, open_for=10.0))})
    route.health.failed(route.candidates[0], Failure(FailureClass.SERVER_ERROR, "", 500), 0.0, 0.0)
    assert route.ask(1.0) == "bc a"
    assert route.ask(12.0) == "bca"


def test_a_primary_of_no_region_has_its_backups_in_their_order() -> None:
    assert Route(any_role("a"), any_role("b", "us"), any_role("c", "eu")).ask() == "abc"


def test_alike_targets_need_none_of_this() -> None:
    assert roles_of([any_role("a", "us"), any_role("b", "us")]) is None
    assert roles_of([any_role("a"), any_role("b")]) is None


def test_in_rotation_who_is_for_hedges_only_takes_no_turns_and_leaves_the_others_their_shares() -> None:
    route = Route(any_role("a", weight=3), hedge_only("h"), any_role("b"), where=Rotation())
    assert Counter(route.ask()[0] for _ in range(4_000)) == {"a": 3_000, "b": 1_000}


def test_among_the_fastest_who_is_for_hedges_only_is_not_explored_and_holds_nobody_up() -> None:
    model = LatencyModel()
    where = ByHistory(Fastest(explore=0.2), model, lambda _names, _size: {})
    route = Route(hedge_only("h"), any_role("a"), any_role("b"), where=where)
    where.knows(["h", "a", "b"])
    for name, seconds in (("a", 0.5), ("b", 0.1)):
        for _ in range(LEAST):
            model.observe(name, True, 0, seconds, False, 0.0)
    firsts = Counter(route.ask()[0] for _ in range(1_000))
    assert set(firsts) == {"a", "b"}
    assert 150 < firsts["a"] < 250


def test_a_skipped_backup_is_missed_only_where_the_hedge_would_have_gone_to_it() -> None:
    for candidates, broken in (([any_role("a"), any_role("b"), any_role("c")], True),
                               ([any_role("a"), first_only("b"), any_role("c")], False)):  # fmt: skip
        route = Route(*candidates)
        route.health.watch({"b": Watch(BreakerSettings(failures=1))})
        route.health.failed(candidates[1], Failure(FailureClass.SERVER_ERROR, "", 500), 0.0, 0.0)
        assert route.order(1.0).broken is broken
