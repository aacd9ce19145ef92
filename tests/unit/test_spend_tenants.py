"""The accounts of tenants: a bounded number is kept, and to be forgotten gains nothing."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Role
from hedgerow.policy.account import UNLIMITED, Limits
from hedgerow.policy.ask import Ask
from hedgerow.policy.budget import Share
from hedgerow.policy.spend import Funds, Spend
from hedgerow.policy.tenants import KEPT, Tenants


def ask(tenant: str, number: int = 0) -> Ask:
    return Ask(f"{tenant}-{number}", stream=True, tenant=tenant)


def launch_all(spend: Spend, tenant: str, *, cost: int = 0, now: float = 0.0) -> int:
    count = 0
    while spend.reserve(one := ask(tenant, count), Role.HEDGE, 1, cost, 0, now) is None:
        spend.settle(one.request_id, 1, None, None, now)
        count += 1
    return count


def known(spend: Spend) -> int:
    number: int = spend.state(0.0)["tenants"]["known"]
    return number


def crowd(spend: Spend, number: int, now: float = 0.0) -> None:
    """So many other tenants send a request each."""
    for index in range(number):
        spend.earn(ask(f"other {index}"), now)


def test_a_bounded_number_of_tenants_is_kept() -> None:
    spend = Spend("fast", UNLIMITED, Funds(tenant=Limits(Share(0.1)), kept=3))
    crowd(spend, 1_000)
    assert known(spend) == 3
    assert KEPT == 1_000


def test_without_limits_for_tenants_none_is_kept() -> None:
    spend = Spend("fast", Limits(Share(0.1)), Funds(tenant=Limits()))
    crowd(spend, 10)
    spend.reserve(ask("t"), Role.HEDGE, 1, 1, 1, 0.0)
    assert known(spend) == 0


def test_the_tenant_not_heard_of_for_longest_makes_room() -> None:
    tenants = Tenants(Limits(Share(0.1)), kept=2)
    first, second = tenants.of("a", 0), tenants.of("b", 0)
    assert tenants.of("a", 0) is first
    tenants.of("c", 0)
    assert (tenants.get("a"), tenants.get("b")) == (first, None)
    assert tenants.of("b", 0) is not second


def test_a_tenant_that_was_forgotten_comes_back_as_poor_as_it_was() -> None:
    spend = Spend("fast", UNLIMITED, Funds(tenant=Limits(Share(0.1, 5), nanousd_per_day=1_000), kept=2))
    assert launch_all(spend, "t", cost=100) == 5
    crowd(spend, 10)
    assert launch_all(spend, "t", cost=100) == 0
    for _ in range(100):
        spend.earn(ask("t"), 0.0)
    assert launch_all(spend, "t", cost=100) == 5
    crowd(spend, 10)
    for _ in range(100):
        spend.earn(ask("t"), 0.0)
    assert launch_all(spend, "t", cost=1) == 0
    assert launch_all(spend, "t", cost=1, now=86_400 * 61 / 60) == 5


def test_time_goes_on_for_those_forgotten() -> None:
    spend = Spend("fast", UNLIMITED, Funds(tenant=Limits(Share(0.0, 5, per_minute=1.0)), kept=1))
    assert launch_all(spend, "t") == 5
    crowd(spend, 1)
    assert launch_all(spend, "t", now=180.0) == 3


def test_a_newcomer_is_seldom_poorer_for_those_forgotten() -> None:
    spend = Spend("fast", UNLIMITED, Funds(tenant=Limits(Share(0.1, 5)), kept=1))
    assert launch_all(spend, "t") == 5
    fresh = [launch_all(spend, f"new {index}") for index in range(20)]
    assert fresh.count(5) >= 15
    assert set(fresh) <= {0, 5}


def test_an_attempt_that_outlives_its_tenants_account_is_settled_in_the_next() -> None:
    spend = Spend("fast", UNLIMITED, Funds(tenant=Limits(Share(0.1, 5), nanousd_per_day=100), kept=1))
    for attempt in (1, 2):
        assert spend.reserve(ask("t"), Role.HEDGE, attempt, 50, 0, 0.0) is None
    crowd(spend, 5)
    spend.settle("t-0", 1, 80, 0, 1.0)
    spend.give_back("t-0", 2, 1.0)
    state = spend.state(1.0, "t")["tenant"]
    assert (state["nanousd"]["day"]["spent"], state["hedges"]["balance"]) == (80, 4.0)


def test_a_reload_reaches_tenants_kept_and_forgotten() -> None:
    spend = Spend("fast", UNLIMITED, funds := Funds(tenant=Limits(Share(0.1, 5)), kept=2))
    assert launch_all(spend, "t") == 5
    crowd(spend, 2)
    spend.earn(ask("u"), 0.0)
    funds.resize(UNLIMITED, Limits(Share(0.5, 3)), 0.0, kept=1)
    assert known(spend) == 1
    assert launch_all(spend, "u") == 3
    spend.earn(ask("t"), 0.0)
    spend.earn(ask("t"), 0.0)
    assert launch_all(spend, "t") == 1


def test_at_least_one_tenant_must_be_kept() -> None:
    with pytest.raises(ValueError, match="at least one tenant"):
        Tenants(kept=0)
    tenants = Tenants(Limits(Share(0.1)), kept=1)
    with pytest.raises(ValueError, match="at least one tenant"):
        tenants.resize(UNLIMITED, 0, 0)


def test_a_tenants_name_may_be_any_text() -> None:
    tenants = Tenants(Limits(Share(0.1)), kept=1)
    assert tenants.of("\ud800", 0).name == "tenant \ud800"


events = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.sampled_from(["request", "hedge", "give_back", "minute"])), max_size=200
)


@given(kept=st.integers(1, 6), events=events)
def test_each_tenants_limits_hold_however_few_are_kept(kept: int, events: list[tuple[str, str]]) -> None:
    share, burst, limit = Fraction(1, 4), 2, 30
    limits = Limits(Share(0.25, burst, per_minute=0.5), nanousd_per_hour=limit)
    spend = Spend("fast", UNLIMITED, Funds(tenant=limits, kept=kept))
    requests, hedges, money = (dict.fromkeys("abcdef", 0) for _ in range(3))
    minutes = 0
    running: list[tuple[str, int]] = []
    for number, (tenant, event) in enumerate(events):
        now = minutes * 60.0
        if event == "minute":
            minutes += 1
        elif event == "request":
            spend.earn(ask(tenant), now)
            requests[tenant] += 1
        elif event == "hedge" and spend.reserve(ask(tenant, number), Role.HEDGE, 1, 5, 0, now) is None:
            hedges[tenant] += 1
            money[tenant] += 5
            running.append((tenant, number))
        elif event == "give_back" and running:
            owner, index = running.pop(0)
            spend.give_back(f"{owner}-{index}", 1, now)
            hedges[owner] -= 1
            money[owner] -= 5
        for name in "abcdef":
            assert hedges[name] <= burst + share * requests[name] + Fraction(minutes, 2)
            assert minutes > 60 or money[name] <= limit
