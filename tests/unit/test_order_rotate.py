"""Rotation: turns by weight, spread evenly, whoever is left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass
from hedgerow.policy.ask import Ask
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.policy.health import Health, Watch
from hedgerow.policy.lineup import Lineup
from hedgerow.policy.plan import Candidate
from hedgerow.policy.rotate import Rotation

ASK = Ask("r", stream=True)


def places(**weights: int) -> list[Candidate]:
    return [Candidate(name, name, weight) for name, weight in weights.items()]


class Route:
    """A route that rotates."""

    def __init__(self, candidates: Sequence[Candidate], health: Health | None = None) -> None:
        self.candidates = candidates
        self.health = health or Health()
        self._lineup = Lineup(candidates, self.health, Rotation())

    def ask(self, now: float = 0.0) -> str:
        """The targets of the next request, in their order."""
        order = self._lineup.order(ASK, now)
        return "".join(self.candidates[index].target for index in (*order.usable, *order.spare))

    def take_out(self, name: str, seconds: float, now: float = 0.0) -> None:
        candidate = next(each for each in self.candidates if each.target == name)
        self.health.failed(candidate, Failure(FailureClass.RATE_LIMITED, "", retry_after=seconds), now, now)


def firsts(orders: Iterable[str]) -> Counter[str]:
    return Counter(order[0] for order in orders)


def test_turns_go_round_and_the_next_in_turn_takes_the_hedge() -> None:
    route = Route(places(a=1, b=1, c=1))
    assert [route.ask() for _ in range(6)] == ["abc", "bca", "cab", "abc", "bca", "cab"]


def test_turns_by_weight_are_spread_and_not_in_a_row() -> None:
    route = Route(places(a=5, b=1, c=1))
    assert "".join(route.ask()[0] for _ in range(14)) == "aabacaa" * 2  # nginx's own example


def test_a_target_that_is_listed_twice_has_twice_its_weight() -> None:
    route = Route([*places(a=1), *places(a=1, b=1)])
    assert firsts(route.ask() for _ in range(9)) == {"a": 6, "b": 3}


def test_over_10_000_requests_shares_are_fair_within_1_percent() -> None:
    route = Route(places(a=3, b=2, c=1, d=1))
    asked = firsts(route.ask() for _ in range(10_000))
    for name, weight in (("a", 3), ("b", 2), ("c", 1), ("d", 1)):
        fair = 10_000 * weight / 7
        assert abs(asked[name] - fair) <= 0.01 * fair


def test_who_is_skipped_loses_its_turns_to_all_others_by_weight_and_makes_none_up() -> None:
    route = Route(places(a=3, b=2, c=1))
    route.take_out("a", 100.0)
    assert firsts(route.ask(now=1.0) for _ in range(3_000)) == {"b": 2_000, "c": 1_000}
    assert firsts(route.ask(now=200.0) for _ in range(6)) == {"a": 3, "b": 2, "c": 1}


def test_over_10_000_requests_shares_are_fair_although_targets_come_and_go() -> None:
    """Every tenth of a second a request; one target after the other is out for a while."""
    route = Route(places(a=3, b=2, c=1, d=1))
    fair: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for number in range(10_000):
        now = number / 10
        if number % 250 == 0:
            route.take_out("abcd"[number // 250 % 4], 15.0, now)
        order = route.ask(now)
        well = [each for each in route.candidates if route.health.out_until(each, now) is None]
        assert set(order[: len(well)]) == {each.target for each in well}
        asked[order[0]] += 1
        for each in well:
            fair[each.target] += each.weight / sum(other.weight for other in well)  # type: ignore[assignment]
    for name in "abcd":
        assert abs(asked[name] - fair[name]) <= 0.01 * fair[name]


def test_a_target_that_is_tried_again_has_no_turns_to_make_up_for() -> None:
    candidates = places(a=1, b=1, c=1)
    breaker = BreakerSettings(failures=1, open_for=10.0, open_at_most=10.0, successes=1)
    route = Route(candidates, Health({name: Watch(breaker) for name in "abc"}))
    route.health.failed(candidates[0], Failure(FailureClass.SERVER_ERROR, ""), 0.0, 0.0)
    half_open = [route.ask(now=10.0 + number / 100) for number in range(300)]
    assert firsts(half_open) == {"b": 150, "c": 150}  # only hedges try it
    route.health.answered(candidates[0], 15.0, 14.0)
    assert "".join(route.ask(now=16.0)[0] for _ in range(6)).count("a") == 2


def test_with_nobody_well_who_is_back_first_is_asked() -> None:
    route = Route(places(a=1, b=1))
    route.take_out("a", 50.0)
    route.take_out("b", 20.0)
    assert [route.ask(now=1.0) for _ in range(3)] == ["ba"] * 3


@given(st.lists(st.integers(1, 9), min_size=1, max_size=6), st.integers(1, 5))
def test_every_round_gives_each_its_weight_exactly(weights: list[int], rounds: int) -> None:
    candidates = [Candidate(str(index), str(index), weight) for index, weight in enumerate(weights)]
    route = Route(candidates)
    asked = firsts(route.ask() for _ in range(sum(weights) * rounds))
    assert asked == {str(index): weight * rounds for index, weight in enumerate(weights)}
