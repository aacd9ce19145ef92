"""The fastest first: cold start, exploring, no flutter, races; the cheapest of those that are nearly as fast."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping
from math import inf

import pytest

from hedgerow.policy.ask import Ask
from hedgerow.policy.fastest import LEAST, ByHistory
from hedgerow.policy.health import Health
from hedgerow.policy.latency.cells import LatencyModel, Learning
from hedgerow.policy.lineup import Lineup
from hedgerow.policy.order import Fastest
from hedgerow.policy.plan import Candidate

Takes = Callable[[random.Random], float]
SMALL, LARGE = 100, 100_000


def exactly(seconds: float) -> Takes:
    return lambda _: seconds


def about(seconds: float) -> Takes:
    """Log-normal around a median, as times to the first token are."""
    return lambda draw: draw.lognormvariate(0.0, 0.4) * seconds


class Route:
    """A route by history in virtual time: a request a second. `width` are asked together, else `delay` hedges."""

    def __init__(
        self,
        rule: Fastest,
        takes: Mapping[str, Takes],
        *,
        width: int = 1,
        delay: float = inf,
        prices: Mapping[str, float] | None = None,
    ) -> None:
        self.takes = dict(takes)
        self.model = LatencyModel(Learning())
        self.health = Health()
        costs = prices or {}
        self.where = ByHistory(rule, self.model, lambda _names, _size: costs, races=width > 1)
        self.candidates = [Candidate(name, name) for name in takes]
        self.where.knows([each.target for each in self.candidates])
        self._lineup = Lineup(self.candidates, self.health, self.where)
        self._width, self._delay = width, delay
        self._draw = random.Random(7)
        self.now = 0.0
        self._sent = 0

    def ask(self, tokens: int = SMALL, *, stream: bool = True) -> str:
        """Who is asked, in order; the request is answered, and what came of it is learned."""
        self.now += 1.0
        self._sent += 1
        if self._sent % 5 == 0:
            for _ in self.where.refreshing(self.now):
                pass
        ask = Ask(f"r-{self._sent}", stream, tokens)
        order = [self.candidates[index].target for index in self._lineup.order(ask, self.now).usable]
        starts = [0.0] * self._width if self._width > 1 else [0.0, self._delay]
        ends = {name: start + self.takes[name](self._draw) for name, start in zip(order, starts, strict=False)}
        won_at = min(ends.values())
        for (name, end), start in zip(ends.items(), starts, strict=False):
            if start < won_at:
                self.model.observe(name, stream, tokens, min(end, won_at) - start, end > won_at, self.now)
        return "".join(order)

    def orders(self, times: int, tokens: int = SMALL) -> Counter[str]:
        return Counter(self.ask(tokens) for _ in range(times))

    def firsts(self, times: int, tokens: int = SMALL) -> Counter[str]:
        return Counter(self.ask(tokens)[0] for _ in range(times))


FOUR = {"a": exactly(0.9), "b": exactly(0.5), "c": exactly(0.1), "d": exactly(0.2)}
NO_LOOKING = Fastest(explore=0.0)


def test_it_begins_with_a_few_requests_for_each_in_turn() -> None:
    route = Route(NO_LOOKING, FOUR)
    assert [route.ask()[0] for _ in range(8)] == list("abcdabcd")
    assert route.firsts(4 * LEAST - 8) == dict.fromkeys("abcd", LEAST - 2)
    route.orders(5)
    assert set(route.orders(20)) == {"cdba"}


def test_who_never_answers_does_not_make_the_beginning_last() -> None:
    route = Route(NO_LOOKING, {**FOUR, "a": exactly(inf), "b": exactly(inf)}, delay=1.0)
    route.orders(4 * LEAST)
    assert {order[:2] for order in route.orders(100)} == {"cd"}


def test_a_target_that_is_new_after_a_reload_is_looked_at_first() -> None:
    route = Route(NO_LOOKING, FOUR)
    route.orders(100)
    route.candidates.append(Candidate("e", "e"))
    route.where.knows(["a", "b", "c", "d", "e"])
    route.takes["e"] = exactly(0.05)
    assert route.firsts(LEAST) == {"e": LEAST}
    route.orders(5)
    assert set(route.orders(20)) == {"ecdba"}
    route.where.sweep(["a", "b", "c", "d"])
    route.candidates.pop()
    assert set(route.orders(20)) == {"cdba"}


@pytest.mark.parametrize("explore", [0.0, 0.05, 0.2])
def test_a_share_of_the_requests_measures_the_others_in_turn(explore: float) -> None:
    route = Route(Fastest(explore=explore), FOUR)
    route.orders(4 * LEAST)
    firsts = route.firsts(4_000)
    others = 4_000 - firsts["c"]
    assert others == pytest.approx(4_000 * explore, rel=0.15)
    assert all(abs(firsts[each] - others / 3) <= 1 for each in "abd")


def test_beside_one_that_is_explored_the_fastest_is_the_backup() -> None:
    route = Route(Fastest(explore=0.5), FOUR)
    route.orders(4 * LEAST + 5)
    assert set(route.orders(100)) == {"cdba", "dcba", "bcda", "acdb"}


def test_it_follows_when_another_becomes_the_fastest() -> None:
    route = Route(Fastest(), {name: about(seconds) for name, seconds in zip("abc", (0.9, 0.5, 0.2), strict=True)})
    route.orders(2_000)
    assert route.firsts(500).most_common(1)[0][0] == "c"
    route.takes["c"] = about(2.0)
    assert route.orders(1_000)
    assert route.firsts(500).most_common(1)[0][0] == "b"
    route.takes["a"] = about(0.1)  # only who is explored can show that
    assert route.orders(2_000)
    assert route.firsts(500).most_common(1)[0][0] == "a"


def test_two_that_are_as_fast_as_each_other_do_not_take_turns() -> None:
    pair = {"a": about(0.5), "b": about(0.5)}
    changes = {margin: leads(Route(Fastest(margin=margin), pair), 5_000) for margin in (0.0, 0.1)}
    assert changes[0.1] <= 2 < 5 <= changes[0.0]


def leads(route: Route, times: int) -> int:
    """How often the fastest is another than before."""
    route.orders(100)
    changes, before = 0, ""
    for _ in range(times):
        route.ask()
        order = route.where.view()["rankings"][0]["order"][0]
        changes += order != before
        before = order
    return changes


def test_the_quantile_tells_a_steady_one_from_one_that_is_mostly_fast() -> None:
    def jumpy(draw: random.Random) -> float:
        return 0.1 if draw.random() < 0.8 else 3.0

    for quantile, first in ((0.5, "a"), (0.9, "b")):
        route = Route(Fastest(quantile=quantile, explore=0.0), {"a": jumpy, "b": exactly(0.5)})
        route.orders(200)
        assert route.firsts(100) == {first: 100}


def test_each_kind_of_request_has_its_own_fastest_where_all_are_known_by_it() -> None:
    route = Route(NO_LOOKING, {"a": exactly(0.5), "b": exactly(0.5)})
    for name, small, large in (("a", 0.1, 0.9), ("b", 0.3, 0.4)):
        for tokens, seconds in ((SMALL, small), (LARGE, large)):
            for _ in range(100):
                route.model.observe(name, True, tokens, seconds, False, 0.0)
    assert (route.ask(SMALL), route.ask(LARGE)) == ("ab", "ba")
    assert route.ask(LARGE, stream=False) == "ab"  # of whole answers nothing is known: by all there is


def test_a_size_that_one_target_is_not_known_by_is_compared_by_all_sizes() -> None:
    route = Route(NO_LOOKING, {"a": exactly(1.0), "b": exactly(1.0)})
    for _ in range(100):
        route.model.observe("a", True, LARGE, 2.0, False, 0.0)
        route.model.observe("a", True, SMALL, 0.1, False, 0.0)
        route.model.observe("a", True, SMALL, 0.1, False, 0.0)
        route.model.observe("b", True, SMALL, 0.5, False, 0.0)
    assert route.ask(LARGE) == "ab"  # and not "ba", as prompts of two sizes would say


def test_of_four_the_two_fastest_race_and_go_on_to_be_known() -> None:
    route = Route(Fastest(), FOUR, width=2)
    route.orders(4 * LEAST + 5)
    raced = Counter("".join(sorted(order[:2])) for order in (route.ask() for _ in range(2_000)))
    assert raced["cd"] > 0.94 * 2_000
    assert set(raced) == {"cd", "bd", "ad"}  # the explored run beside the second, who can be outrun


def test_a_race_follows_when_its_losers_change() -> None:
    route = Route(
        Fastest(), {name: about(each) for name, each in zip("abcd", (0.9, 0.5, 0.1, 0.2), strict=True)}, width=2
    )
    route.orders(2_000)
    assert set(route.orders(500).most_common(1)[0][0][:2]) == {"c", "d"}
    route.takes["a"] = about(0.05)
    route.orders(2_000)
    assert set(route.orders(500).most_common(1)[0][0][:2]) == {"c", "a"}


PRICES = {"a": 1.0, "b": 2.0, "c": 9.0, "d": 8.0}


@pytest.mark.parametrize(
    ("within", "order"), [(0.0, "cdba"), (0.5, "cdba"), (1.1, "dcba"), (4.5, "bdca"), (20.0, "abdc")]
)
def test_the_cheapest_within_a_share_of_the_fastest_is_first_and_the_others_follow_by_speed(
    within: float, order: str
) -> None:
    route = Route(Fastest(within=within, explore=0.0), FOUR, prices=PRICES)
    route.orders(4 * LEAST + 5)
    assert set(route.orders(100)) == {order}


def test_at_the_edge_of_nearly_as_fast_the_cheapest_does_not_flutter() -> None:
    pair = {"a": about(1.2), "b": about(1.0)}
    rules = [Fastest(within=0.2, explore=0.1, margin=margin) for margin in (0.0, 0.2)]
    changes = [leads(Route(rule, pair, prices=PRICES), 5_000) for rule in rules]
    assert changes[1] <= 3 < 10 <= changes[0]


def test_with_nothing_known_the_cheapest_is_the_cheapest() -> None:
    route = Route(Fastest(within=0.2), FOUR, prices=PRICES)
    assert route.ask()
    assert route.where.view()["rankings"][0]["order"] == ["a", "b", "d", "c"]


@pytest.mark.parametrize(
    "wrong", [{"quantile": 0.0}, {"quantile": 1.0}, {"margin": 1.0}, {"explore": 1.1}, {"within": -0.1}]
)
def test_what_cannot_work_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must be"):
        Fastest(**wrong)
