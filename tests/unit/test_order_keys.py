"""Several keys of one target: whose turn it is, who is passed over, who is asked after a failure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hedgerow.events import Failure, FailureClass
from hedgerow.policy.ask import Ask
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.policy.health import Health, Watch
from hedgerow.policy.keys import keys_of
from hedgerow.policy.lineup import Lineup
from hedgerow.policy.plan import Candidate
from hedgerow.policy.quota import LIMITED, Quota
from hedgerow.policy.rotate import Rotation
from hedgerow.policy.where import Where
from hedgerow.room import RateLimits, Room


def target(name: str, keys: int = 1) -> list[Candidate]:
    return [Candidate(name, f"{name}{number}", key=number if keys > 1 else 0) for number in range(1, keys + 1)]


class Route:
    """A route of these candidates; `ask` gives the accounts that may be asked, in order."""

    def __init__(self, *candidates: Candidate, where: Where | None = None) -> None:
        self.candidates = candidates
        self.health, self.quota = Health(), Quota()
        keys = keys_of(candidates, self.health, self.quota)
        assert keys is not None
        self._lineup = Lineup(candidates, self.health, where, keys=keys)

    def ask(self, now: float = 0.0, *, session: str = "", tokens: int = 100) -> Sequence[str]:
        order = self._lineup.order(Ask("r", True, tokens, session=session), now)
        hedged, others = ([self.candidates[index].account for index in each] for each in (order.usable, order.spare))
        return [*hedged, "|", *others]

    def fail(self, account: str, retry_after: float | None, now: float = 0.0) -> None:
        candidate = next(each for each in self.candidates if each.account == account)
        failure = Failure(FailureClass.RATE_LIMITED, "", 429, retry_after=retry_after)
        self.health.failed(candidate, failure, now, now)
        self.quota.limited(candidate, retry_after, now)


def test_keys_take_turns_and_the_others_are_for_failures_alone() -> None:
    route = Route(*target("a", 3), *target("b"))
    assert [" ".join(route.ask()) for _ in range(4)] == [
        "a1 b1 | a2 a3",
        "a2 b1 | a1 a3",
        "a3 b1 | a1 a2",
        "a1 b1 | a2 a3",
    ]


def test_a_rate_limit_is_one_key_s_and_the_others_share_its_turns() -> None:
    route = Route(*target("a", 3), *target("b"))
    route.fail("a2", 30.0)
    assert Counter(route.ask(1.0)[0] for _ in range(300)) == {"a1": 150, "a3": 150}
    assert route.ask(1.0)[-1] == "a2"  # it comes last, should nobody else have been of use
    assert Counter(route.ask(31.0)[0] for _ in range(300)) == {"a1": 100, "a2": 100, "a3": 100}


def test_a_rate_limit_that_names_no_time_is_one_for_a_while() -> None:
    route = Route(*target("a", 2))
    route.fail("a1", None)
    assert {route.ask(LIMITED - 0.1)[0] for _ in range(4)} == {"a2"}
    assert {route.ask(LIMITED + 0.1)[0] for _ in range(4)} == {"a1", "a2"}


def test_with_every_key_limited_the_target_is_passed_over() -> None:
    route = Route(*target("a", 2), *target("b"))
    route.fail("a1", 60.0)
    route.fail("a2", 30.0)
    assert route.ask(1.0)[:2] == ["b1", "|"]
    route = Route(*target("a", 2))
    route.fail("a1", 60.0)
    route.fail("a2", 30.0)
    assert sorted(route.ask(1.0)) == ["a1", "a2", "|"]


def test_a_key_with_no_room_left_for_the_request_is_spared() -> None:
    route = Route(*target("a", 2))
    route.quota.learn(route.candidates[0], RateLimits(tokens=Room(500, 10_000, 60.0)), 0.0)
    assert {route.ask(tokens=1_000)[0] for _ in range(4)} == {"a2"}
    assert {route.ask(tokens=100)[0] for _ in range(4)} == {"a1", "a2"}
    assert {route.ask(30.0, tokens=1_000)[0] for _ in range(4)} == {"a1", "a2"}  # by then some has come back
    assert route.quota.headroom(route.candidates[1], 0.0) is None


def test_who_is_listed_twice_hedges_with_another_key() -> None:
    route = Route(*target("a", 2), *target("a", 2))
    for _ in range(4):
        first, second, *_ = route.ask()
        assert {first, second} == {"a1", "a2"}


def test_a_session_keeps_its_key_while_that_has_room() -> None:
    route = Route(*target("a", 4))
    own = {session: route.ask(session=session)[0] for session in map(str, range(40))}
    assert set(own.values()) == {"a1", "a2", "a3", "a4"}
    assert all(route.ask(session=session)[0] == key for session, key in own.items())
    route.fail("a1", 30.0)
    assert all(route.ask(1.0, session=session)[0] == key for session, key in own.items() if key != "a1")
    assert all(route.ask(40.0, session=session)[0] == key for session, key in own.items())


def test_in_rotation_a_target_has_one_turn_however_many_keys() -> None:
    route = Route(*target("a", 3), *target("b"), where=Rotation())
    assert [route.ask()[0] for _ in range(6)] == ["a1", "b1", "a3", "b1", "a2", "b1"]


def test_an_open_breaker_is_the_target_s() -> None:
    route = Route(*target("a", 2), *target("b"))
    route.health.watch({"a": Watch(BreakerSettings(failures=1))})
    route.health.failed(route.candidates[0], Failure(FailureClass.CONNECT, "", 500), 0.0, 0.0)
    assert route.ask(1.0)[0] == "b1"


def test_one_key_each_needs_none_of_this() -> None:
    assert keys_of([*target("a"), *target("a"), *target("b")], Health(), Quota()) is None
