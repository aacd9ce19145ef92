"""Budgets of further attempts and what they cost: of a route, of everybody, of each client; exact counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from hedgerow.events import Reason, Role
from tests.effects.support import (
    BASE,
    BROKEN,
    SILENT,
    STREAM,
    Sent,
    Story,
    document,
    effect_of,
    effects_of,
    every,
    settings,
    tell,
)
from tests.effects.test_hedging import LONG, UNWORRIED
from tests.engine.scripted import Script

HOUR, DAY = 3_600.0, 86_400.0
PRICED = {
    "targets.a.price": {"request": 1},
    "targets.b.price": {"request": 1},
    "routes.<name>.targets": ["a", "b"],
    "routes.<name>.failover.budget": "off",
}
"""Every attempt costs a dollar."""
FAILING = {**UNWORRIED, "routes.<name>.hedge.delay": "off"}


def hedging(changes: Mapping[str, object], sent: Sequence[Sent]) -> Story:
    """A first target that says nothing."""
    return tell(settings({**UNWORRIED, **changes}), {"a": SILENT}, sent)


def failing(changes: Mapping[str, object], sent: Sequence[Sent]) -> Story:
    """A first target whose every attempt fails."""
    return tell(settings({**FAILING, **changes}), {"a": BROKEN}, sent)


# --- attempts after a failure ----------------------------------------------------------------------------------------


@effect_of("routes.<name>.failover.budget")
@pytest.mark.parametrize(
    ("budget", "expected"), [("off", list(range(8))), ("100%", list(range(8))), ("50%", [0, 2, 4, 6]), ("25%", [0, 4])]
)
def test_failovers_are_a_share_of_the_requests(key: str, budget: str, expected: list[int]) -> None:
    few = {"routes.<name>.failover.burst": 1, "routes.<name>.failover.per_minute": 0}
    story = failing({key: budget, **few}, every(1.0, 8))
    assert story.failed_over() == expected
    assert story.reasons(Role.FAILOVER) == [Reason.BUDGET] * (8 - len(expected))
    assert [client.status for client in story.clients] == [200 if at in expected else 500 for at in range(8)]


@effect_of("routes.<name>.failover.burst")
@pytest.mark.parametrize("burst", [1, 3])
def test_so_many_failovers_may_start_in_a_row(key: str, burst: int) -> None:
    few = {"routes.<name>.failover.budget": "0.1%", "routes.<name>.failover.per_minute": 0}
    assert failing({key: burst, **few}, every(1.0, 10)).failed_over() == list(range(burst))


@effect_of("routes.<name>.failover.per_minute")
@pytest.mark.parametrize(("rate", "expected"), [(0, [0]), (1, [0, 2, 4]), (2, [0, 1, 2, 3, 4])])
def test_so_many_failovers_are_earned_each_minute(key: str, rate: int, expected: list[int]) -> None:
    few = {"routes.<name>.failover.budget": "0.1%", "routes.<name>.failover.burst": 1}
    assert failing({key: rate, **few}, every(30.0, 5)).failed_over() == expected


# --- money and tokens ------------------------------------------------------------------------------------------------

LENGTHS = {"usd_per_hour": HOUR, "usd_per_day": DAY, "usd_per_month": 31 * DAY}


@effects_of({f"routes.<name>.spend.{name}": length for name, length in LENGTHS.items()}, "length")
@pytest.mark.parametrize(
    ("most", "expected"),
    [(2, [0, 1, 6]), ("3.99", [0, 1, 2, 6]), (3.0, [0, 1, 2, 6]), ("off", list(range(7)))],
)
def test_further_attempts_cost_no_more_in_any_such_window(
    key: str, length: float, most: object, expected: list[int]
) -> None:
    sent = [*every(10.0, 5), Sent(length * 0.9), Sent(length * 1.1 + 10.0)]
    story = hedging({**PRICED, key: most}, sent)
    assert story.hedged() == expected
    assert story.reasons() == story.reasons(Role.FAILOVER) == [Reason.BUDGET] * (7 - len(expected))


TOKENS = len(STREAM) // 4 + 500
"""Of the prompt, and of an answer as it is expected when the client sets no limit."""


@effect_of("routes.<name>.spend.tokens_per_minute")
@pytest.mark.parametrize(
    ("most", "expected"),
    [(2 * TOKENS, [0, 1, 4]), (3 * TOKENS - 1, [0, 1, 4]), (3 * TOKENS, [0, 1, 2, 4]), ("off", [0, 1, 2, 3, 4])],
)
def test_further_attempts_take_no_more_tokens_in_a_minute(key: str, most: object, expected: list[int]) -> None:
    off = {"routes.<name>.failover.budget": "off", "routes.<name>.targets": ["a", "b"]}
    assert hedging({key: most, **off}, [*every(1.0, 4), Sent(200.0)]).hedged() == expected


def test_money_is_that_of_hedges_and_failovers_together() -> None:
    changes = {**UNWORRIED, **PRICED, "routes.<name>.spend.usd_per_hour": 3}
    story = tell(settings(changes), {"a": [BROKEN, SILENT, BROKEN, SILENT]}, every(10.0, 4))
    assert (story.failed_over(), story.hedged()) == ([0, 2], [1])


BACKUP = {
    "routes.<name>.targets": ["b", "a"],
    "targets.b.price": {},
    "routes.<name>.spend.usd_per_hour": 1,
    "routes.<name>.failover.budget": "off",
    "targets.b.breaker.failure_ratio": "off",
}
"""The priced target is the one that hedges go to."""


def paid(key: str, dollars: object, body: bytes = STREAM) -> int:
    """How many hedges a dollar pays for."""
    one = Sent(body=body)
    story = tell(settings({**UNWORRIED, **BACKUP, key: dollars}), {"b": SILENT}, every(10.0, 12, like=one))
    return len(story.hedged())


@effect_of("targets.<name>.price.request")
@pytest.mark.parametrize(("dollars", "count"), [("0.5", 2), (0.25, 4), ("0.3", 3), (0, 12)])
def test_a_request_costs_its_price(key: str, dollars: object, count: int) -> None:
    assert paid(key, dollars) == count


@effect_of("targets.<name>.price.input")
@pytest.mark.parametrize(("dollars", "count"), [(100, 9), (200, 4), (0, 12)])
def test_a_prompt_costs_its_tokens(key: str, dollars: object, count: int) -> None:
    assert paid(key, dollars, LONG) == count  # of some 1,000 tokens


@effect_of("targets.<name>.price.output")
@pytest.mark.parametrize(("dollars", "most", "count"), [(400, None, 5), (400, 1000, 2), (800, None, 2), (0, None, 12)])
def test_an_answer_costs_the_tokens_it_may_have(key: str, dollars: object, most: int | None, count: int) -> None:
    body = STREAM if most is None else STREAM.replace(b'"stream"', b'"max_tokens":%d,"stream"' % most)
    assert paid(key, dollars, body) == count


# --- of all routes, and of each client -------------------------------------------------------------------------------

TWO = document({"routes.slow": {"targets": ["a", "b"], "hedge": {"delay": "1s", "budget": "off"}}}, BASE)
ALL_PRICED = {**PRICED, "targets.c.price": {}}
SLOW = STREAM.replace(b"fast", b"slow")
KEYS = [[(b"authorization", b"Bearer one")], [(b"authorization", b"Bearer two")], []]


def shared(key: str, value: object, changes: Mapping[str, object], script: Script = SILENT, times: int = 4) -> Story:
    """Two routes with no limits of their own, asked in turn."""
    off = {
        "routes.slow.hedge.outage": {"max_tokens": 1000},
        "routes.slow.failover": {"budget": "off"},
        "routes.<name>.failover.budget": "off",
    }
    sent = [Sent(float(place), (STREAM, SLOW)[place % 2]) for place in range(2 * times)]
    return tell(settings({**UNWORRIED, **off, **changes, key: value}, base=TWO), {"a": script}, sent)


def of_tenants(key: str, value: object, changes: Mapping[str, object], script: Script = SILENT) -> list[int]:
    """How many further attempts each of three clients gets; each asks four times."""
    sent = [Sent(float(place), headers=KEYS[place % 3]) for place in range(12)]
    off = {"routes.<name>.failover.budget": "off"}
    story = tell(settings({**UNWORRIED, **off, **changes, key: value}), {"a": script}, sent)
    further = story.failed_over() if script is BROKEN else story.hedged()
    return [sum(1 for each in further if each % 3 == tenant) for tenant in range(3)]


ONE_AT_ONCE = {"server.budget.burst": 1, "server.tenant_budget.burst": 1}
OFF = {"routes.<name>.hedge.delay": "off", "routes.slow.hedge": {"delay": "off"}}
ONLY_FAILOVERS = {"routes.<name>.hedge.delay": "off"}


@effect_of("server.budget.hedges")
@pytest.mark.parametrize(("share", "expected"), [("off", list(range(8))), ("50%", [0, 2, 4, 6]), ("25%", [0, 4])])
def test_hedges_of_all_routes_are_a_share_of_their_requests(key: str, share: str, expected: list[int]) -> None:
    assert shared(key, share, ONE_AT_ONCE).hedged() == expected


@effect_of("server.budget.failovers")
@pytest.mark.parametrize(("share", "expected"), [("off", list(range(8))), ("50%", [0, 2, 4, 6]), ("25%", [0, 4])])
def test_failovers_of_all_routes_are_a_share_of_their_requests(key: str, share: str, expected: list[int]) -> None:
    assert shared(key, share, {**ONE_AT_ONCE, **OFF}, BROKEN).failed_over() == expected


@effect_of("server.budget.burst")
@pytest.mark.parametrize("burst", [1, 3])
def test_so_many_hedges_of_all_routes_may_start_in_a_row(key: str, burst: int) -> None:
    assert shared(key, burst, {"server.budget.hedges": "0.1%"}).hedged() == list(range(burst))
    assert shared(key, burst, {"server.budget.failovers": "0.1%", **OFF}, BROKEN).failed_over() == list(range(burst))


def in_turn(changes: Mapping[str, object], length: float) -> list[int]:
    """Which of four requests are hedged: one to each route, a third in the same window, the last in the next."""
    moments = [(0.0, STREAM), (1.0, SLOW), (0.5 * length, STREAM), (1.1 * length + 2.0, SLOW)]
    sent = [Sent(at, body) for at, body in moments]
    return tell(settings({**UNWORRIED, **ALL_PRICED, **changes}, base=TWO), {"a": SILENT}, sent).hedged()


def of_two_clients(changes: Mapping[str, object], length: float) -> list[int]:
    """Which of five requests are hedged: two clients ask twice in a window, the first once more in the next."""
    moments = [0.0, 1.0, 0.5 * length, 0.5 * length + 1.0, 1.1 * length + 2.0]
    sent = [Sent(at, headers=KEYS[index % 2]) for index, at in enumerate(moments)]
    return hedging({**ALL_PRICED, **changes}, sent).hedged()


@effects_of({f"server.budget.{name}": length for name, length in LENGTHS.items()}, "length")
@pytest.mark.parametrize(("most", "expected"), [("off", [0, 1, 2, 3]), (2, [0, 1, 3])])
def test_all_routes_together_cost_no_more(key: str, length: float, most: object, expected: list[int]) -> None:
    assert in_turn({key: most}, length) == expected


@effects_of({f"server.tenant_budget.{name}": length for name, length in LENGTHS.items()}, "length")
@pytest.mark.parametrize(("most", "expected"), [("off", [0, 1, 2, 3, 4]), (1, [0, 1, 4])])
def test_a_client_costs_no_more(key: str, length: float, most: object, expected: list[int]) -> None:
    assert of_two_clients({key: most}, length) == expected


@effect_of("server.budget.tokens_per_minute")
@pytest.mark.parametrize(("most", "expected"), [("off", [0, 1, 2, 3]), (2 * TOKENS, [0, 1, 3])])
def test_all_routes_together_take_no_more_tokens_in_a_minute(key: str, most: object, expected: list[int]) -> None:
    assert in_turn({key: most}, 60.0) == expected


@effect_of("server.tenant_budget.tokens_per_minute")
@pytest.mark.parametrize(("most", "expected"), [("off", [0, 1, 2, 3, 4]), (TOKENS, [0, 1, 4])])
def test_a_client_takes_no_more_tokens_in_a_minute(key: str, most: object, expected: list[int]) -> None:
    assert of_two_clients({key: most}, 60.0) == expected


@effect_of("server.tenant_budget.hedges")
@pytest.mark.parametrize(("share", "expected"), [("off", [4, 4, 4]), ("50%", [2, 2, 2]), ("25%", [1, 1, 1])])
def test_hedges_of_a_client_are_a_share_of_its_requests(key: str, share: str, expected: list[int]) -> None:
    assert of_tenants(key, share, ONE_AT_ONCE) == expected


@effect_of("server.tenant_budget.failovers")
@pytest.mark.parametrize(("share", "expected"), [("off", [4, 4, 4]), ("50%", [2, 2, 2]), ("25%", [1, 1, 1])])
def test_failovers_of_a_client_are_a_share_of_its_requests(key: str, share: str, expected: list[int]) -> None:
    assert of_tenants(key, share, {**ONE_AT_ONCE, **ONLY_FAILOVERS}, BROKEN) == expected


@effect_of("server.tenant_budget.burst")
@pytest.mark.parametrize("burst", [1, 3])
def test_so_many_hedges_of_a_client_may_start_in_a_row(key: str, burst: int) -> None:
    assert of_tenants(key, burst, {"server.tenant_budget.hedges": "0.1%"}) == [burst] * 3
