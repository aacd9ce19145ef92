"""The gate for extra attempts: who pays how much, when it is refunded, and what a refusal says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine

import msgspec
import pytest

from hedgerow.events import Reason, Role
from hedgerow.policy.account import DAY, HOUR, MINUTE, MONTH, PACE, UNLIMITED, Limits
from hedgerow.policy.ask import Ask
from hedgerow.policy.budget import Share
from hedgerow.policy.price import nanousd
from hedgerow.policy.spend import Funds, Spend

DOLLAR = nanousd("1")
ASK = Ask("r", stream=True, tenant="t")


def reserve(
    spend: Spend, attempt: int = 1, *, cost: int = 0, tokens: int = 0, now: float = 0.0, role: Role = Role.HEDGE
) -> str | None:
    """The refusal's text, None when the attempt is paid for."""
    refusal = spend.reserve(ASK, role, attempt, cost, tokens, now)
    if refusal is None:
        return None
    assert refusal.reason is Reason.BUDGET
    return refusal.detail


def launch_all(spend: Spend, *, role: Role = Role.HEDGE, now: float = 0.0, first: int = 1) -> int:
    """Launch until refused."""
    count = 0
    while reserve(spend, first + count, role=role, now=now) is None:
        count += 1
    return count


def spent(spend: Spend, scope: str, window: str, now: float = 0.0) -> int:
    account = spend.state(now, "t")[scope]
    amount: int = (account["tokens"] if window == "minute" else account["nanousd"])[window]["spent"]
    return amount


def test_without_limits_everything_is_allowed() -> None:
    spend = Spend("fast", UNLIMITED)
    assert [reserve(spend, n, cost=DOLLAR, tokens=10**6) for n in range(100)] == [None] * 100


def test_a_primary_is_no_extra_attempt() -> None:
    spend = Spend("fast", Limits(Share(0.1, 1), Share(0.1, 1), nanousd_per_hour=0))
    assert reserve(spend, 0, cost=DOLLAR, role=Role.PRIMARY) is None
    assert spend.state(0.0)["open"] == 0
    assert launch_all(spend) == 1


def test_hedges_and_failovers_have_a_share_each_and_racers_count_as_hedges() -> None:
    spend = Spend("fast", Limits(Share(0.1, 3), Share(0.2, 5)))
    assert reserve(spend, role=Role.RACER) is None
    assert launch_all(spend) == 2
    assert launch_all(spend, role=Role.FAILOVER) == 5
    for _ in range(10):
        spend.earn(ASK, 0.0)
    assert launch_all(spend, role=Role.RACER) == 1
    assert launch_all(spend, role=Role.FAILOVER) == 2


def test_a_request_earns_in_every_scope() -> None:
    limits = Limits(Share(0.1, 1))
    spend = Spend("fast", limits, Funds(limits, limits))
    assert launch_all(spend) == 1
    for _ in range(10):
        spend.earn(ASK, 0.0)
    assert launch_all(spend) == 1


def test_low_traffic_is_hedged_once_a_minute() -> None:
    spend = Spend("fast", Limits(Share(0.1, 1, per_minute=1.0)))
    hedged = []
    for minute in range(6):
        spend.earn(ASK, minute * 60.0)
        hedged.append(launch_all(spend, now=minute * 60.0))
    assert hedged == [1] * 6


@pytest.mark.parametrize(
    ("limits", "role", "text"),
    [
        (Limits(Share(0.1, 1)), Role.HEDGE, "10% of requests"),
        (Limits(Share(0.1, 1, per_minute=2.0)), Role.RACER, "10% of requests and 2 a minute"),
        (Limits(failovers=Share(0.2, 1)), Role.FAILOVER, "failovers, 20% of requests"),
        (Limits(nanousd_per_hour=5 * DOLLAR), Role.HEDGE, "$5 an hour"),
        (Limits(nanousd_per_day=nanousd("7.5")), Role.FAILOVER, "$7.5 a day"),
        (Limits(nanousd_per_month=9 * DOLLAR), Role.HEDGE, "$9 a month"),
        (Limits(tokens_per_minute=1_500), Role.HEDGE, "1500 tokens a minute"),
    ],
)
def test_a_refusal_names_scope_and_limit(limits: Limits, role: Role, text: str) -> None:
    for name, spend in {
        "route fast": Spend("fast", limits, Funds()),
        "tenant t": Spend("fast", UNLIMITED, Funds(tenant=limits)),
        "global": Spend("fast", UNLIMITED, Funds(limits)),
    }.items():
        assert reserve(spend, 1, cost=5 * DOLLAR, tokens=1_000, role=role) is None
        assert reserve(spend, 2, cost=5 * DOLLAR, tokens=1_000, role=role) == f"{name}: {text}"


def test_the_narrowest_scope_speaks_first() -> None:
    limits = Limits(nanousd_per_hour=0)
    funds = Funds(limits, limits)
    assert reserve(Spend("fast", limits, funds), cost=1) == "route fast: $0 an hour"
    assert reserve(Spend("fast", UNLIMITED, funds), cost=1) == "tenant t: $0 an hour"


def test_a_limit_may_be_reached_to_the_unit_and_not_passed() -> None:
    spend = Spend("fast", Limits(nanousd_per_hour=DOLLAR))
    assert reserve(spend, 1, cost=DOLLAR - 1) is None
    assert reserve(spend, 2, cost=2) is not None
    assert reserve(spend, 3, cost=1) is None
    assert reserve(spend, 4, cost=1) is not None
    assert reserve(spend, 5, cost=0) is None


@pytest.mark.parametrize(
    ("limits", "length"),
    [
        (Limits(nanousd_per_hour=10), HOUR),
        (Limits(nanousd_per_day=10), DAY),
        (Limits(nanousd_per_month=10), MONTH),
        (Limits(tokens_per_minute=10), MINUTE),
    ],
)
def test_what_is_spent_comes_back_after_the_window_and_at_most_a_sixtieth(limits: Limits, length: int) -> None:
    seconds = length / 1e6
    assert seconds in (3_600, 86_400, 31 * 86_400, 60)
    spend = Spend("fast", limits)
    assert reserve(spend, 1, cost=10, tokens=10, now=1.0) is None
    spend.settle("r", 1, 10, 10, 1.0)
    assert reserve(spend, 2, cost=1, tokens=1, now=1.0 + seconds) is not None
    assert reserve(spend, 3, cost=10, tokens=10, now=1.0 + seconds * 61 / 60) is None


def test_at_the_end_the_rest_of_the_reservation_is_refunded() -> None:
    spend = Spend("fast", Limits(nanousd_per_day=100, tokens_per_minute=100))
    assert reserve(spend, 1, cost=100, tokens=100) is None
    assert reserve(spend, 2, cost=1, tokens=0) is not None
    spend.settle("r", 1, 40, 30, 1.0)
    assert reserve(spend, 3, cost=61) is not None
    assert reserve(spend, 3, tokens=71) is not None
    assert reserve(spend, 3, cost=60, tokens=70) is None
    assert spend.state(1.0)["route"]["over"] == {"attempts": 0, "nanousd": 0, "tokens": 0}


def test_what_is_not_known_stays_as_reserved() -> None:
    spend = Spend("fast", UNLIMITED)
    reserve(spend, 1, cost=100, tokens=100)
    spend.settle("r", 1, None, None, 0.0)
    assert (spent(spend, "route", "hour"), spent(spend, "route", "minute")) == (100, 100)
    reserve(spend, 2, cost=100, tokens=100)
    spend.settle("r", 2, 0, None, 0.0)
    assert (spent(spend, "route", "hour"), spent(spend, "route", "minute")) == (100, 200)


def test_an_attempt_that_comes_to_more_is_paid_for_and_counted() -> None:
    spend = Spend("fast", Limits(nanousd_per_hour=100))
    reserve(spend, 1, cost=100, tokens=10)
    spend.settle("r", 1, 130, 12, 5.0)
    assert spent(spend, "route", "hour", 5.0) == 130
    assert spend.state(5.0)["route"]["over"] == {"attempts": 1, "nanousd": 30, "tokens": 2}
    assert reserve(spend, 2, cost=0, now=5.0) is not None  # the overrun is in the way of all others


def test_an_overrun_counts_from_the_end_of_the_attempt_on() -> None:
    spend = Spend("fast", Limits(nanousd_per_hour=100))
    reserve(spend, 1, cost=100, now=0.0)
    spend.settle("r", 1, 130, 0, 600.0)
    assert [spent(spend, "route", "hour", now) for now in (3_600.0, 3_660.0, 4_200.0, 4_260.0)] == [130, 30, 30, 0]


@pytest.mark.parametrize("role", [Role.HEDGE, Role.FAILOVER])
def test_an_attempt_that_was_never_sent_is_refunded_with_its_number(role: Role) -> None:
    """What Finagle took for a backup request is gone even where that is not sent in the end (B7)."""
    limits = Limits(Share(0.1, 1), Share(0.1, 1), nanousd_per_hour=10, tokens_per_minute=10)
    spend = Spend("fast", limits, Funds(limits, limits))
    before = spend.state(0.0, "t")
    for attempt in range(5):
        assert reserve(spend, attempt, cost=10, tokens=10, role=role) is None
        spend.give_back("r", attempt, 0.0)
    after = spend.state(0.0, "t")
    assert after["tenant"] is not None
    assert (before["route"], before["global"]) == (after["route"], after["global"])
    assert after["tenant"] == after["route"]


def test_a_settled_attempt_has_used_up_its_number_even_if_it_cost_nothing() -> None:
    spend = Spend("fast", Limits(Share(0.1, 1)))
    reserve(spend)
    spend.settle("r", 1, 0, 0, 0.0)
    assert launch_all(spend) == 0


@pytest.mark.parametrize(
    ("seems", "cost", "held", "in_the_end", "over"),
    [
        (40, 70, 100, 70, 0),
        (40, None, 100, 40, 0),
        (150, 70, 150, 70, 0),
        (150, None, 150, 150, 50),
        (150, 120, 150, 120, 20),
        (150, 200, 150, 200, 100),
    ],
)
def test_until_an_attempt_is_billed_the_larger_of_what_is_expected_is_held(
    seems: int, cost: int | None, held: int, in_the_end: int, over: int
) -> None:
    spend = Spend("fast", Limits(nanousd_per_hour=200), Funds(tenant=Limits(nanousd_per_hour=200)))
    assert reserve(spend, cost=100) is None
    spend.over("r", 1, seems, 0, 60.0)
    spend.over("r", 2, seems, 0, 60.0)  # nobody knows it
    for scope in ("route", "global", "tenant"):
        assert spent(spend, scope, "hour", 60.0) == held
    assert reserve(spend, 2, cost=201 - held, now=60.0) is not None
    spend.settle("r", 1, cost, 0, 600.0)
    for scope in ("route", "global", "tenant"):
        assert spent(spend, scope, "hour", 600.0) == in_the_end
        assert spend.state(600.0, "t")[scope]["over"] == {"attempts": int(over > 0), "nanousd": over, "tokens": 0}
    assert spend.state(600.0)["open"] == 0


def test_a_guess_gives_nothing_back() -> None:
    spend = Spend("fast", UNLIMITED)
    for attempt, cost in ((1, 40), (2, 150)):
        assert reserve(spend, attempt, cost=100, tokens=100) is None
        spend.over("r", attempt, cost, cost, 1.0, guessed=True)
    assert reserve(spend, 3, cost=100, tokens=100) is None
    spend.settle("r", 1, None, None, 1.0)
    spend.settle("r", 2, None, None, 1.0)
    spend.settle("r", 3, 60, 60, 1.0, guessed=True)
    assert [spent(spend, "route", window, 1.0) for window in ("hour", "minute")] == [350, 350]


def test_each_attempt_is_settled_once() -> None:
    spend = Spend("fast", Limits(Share(0.1, 5)))
    reserve(spend, 1, cost=100)
    reserve(spend, 2, cost=100)
    for _ in range(3):
        spend.settle("r", 1, 40, 0, 0.0)
        spend.give_back("r", 1, 0.0)
    assert spent(spend, "route", "hour") == 140
    assert launch_all(spend, first=3) == 3


def test_attempts_that_are_not_known_change_nothing() -> None:
    spend = Spend("fast", Limits(Share(0.1, 5)))
    before = spend.state(0.0)
    spend.settle("r", 1, 100, 100, 0.0)
    spend.give_back("r", 1, 0.0)
    assert spend.state(0.0) == before


def test_an_attempt_reserved_again_is_paid_for_again() -> None:
    spend = Spend("fast", UNLIMITED)
    reserve(spend, 1, cost=100)
    reserve(spend, 1, cost=50)
    spend.give_back("r", 1, 0.0)
    spend.give_back("r", 1, 0.0)
    assert spent(spend, "route", "hour") == 100


def test_costs_below_zero_earn_nothing() -> None:
    spend = Spend("fast", UNLIMITED)
    reserve(spend, 1, cost=10, tokens=10)
    reserve(spend, 2, cost=-1_000, tokens=-1_000)
    assert (spent(spend, "route", "hour"), spent(spend, "route", "minute")) == (10, 10)
    spend.settle("r", 2, -1_000, -1_000, 0.0)
    assert (spent(spend, "route", "hour"), spent(spend, "route", "minute")) == (10, 10)


def test_when_one_scope_refuses_nobody_pays() -> None:
    """Finagle takes from one bucket and then asks another: where that refuses, the first stays without it (B7)."""
    roomy, tight = Limits(Share(0.5, 10), nanousd_per_hour=100), Limits(Share(0.5, 10), nanousd_per_hour=10)
    for route, tenant, everybody in ((tight, roomy, roomy), (roomy, tight, roomy), (roomy, roomy, tight)):
        spend = Spend("fast", route, Funds(everybody, tenant))
        spend.earn(ASK, 0.0)
        before = spend.state(0.0, "t")
        assert reserve(spend, cost=11) is not None
        assert spend.state(0.0, "t") == before
        assert reserve(spend, cost=10) is None
        assert all(spent(spend, scope, "hour") == 10 for scope in ("route", "tenant", "global"))


def test_routes_share_what_is_global_and_keep_their_own() -> None:
    funds = Funds(Limits(nanousd_per_day=100))
    one, other = (Spend(name, Limits(nanousd_per_day=70), funds) for name in ("one", "other"))
    assert reserve(one, cost=70) is None
    assert reserve(one, cost=1) == "route one: $0.00000007 a day"
    assert reserve(other, cost=31) == "global: $0.0000001 a day"
    assert reserve(other, cost=30) is None


def test_a_tenant_has_one_account_over_all_routes_and_others_have_theirs() -> None:
    funds = Funds(tenant=Limits(Share(0.1, 2)))
    one, other = (Spend(name, UNLIMITED, funds) for name in ("one", "other"))
    assert reserve(one) is None
    assert launch_all(other) == 1
    stranger = Ask("s", stream=True, tenant="u")
    assert one.reserve(stranger, Role.HEDGE, 1, 0, 0, 0.0) is None
    for _ in range(10):
        one.earn(ASK, 0.0)
    assert launch_all(other) == 1


def test_requests_without_a_key_are_one_tenant() -> None:
    spend = Spend("fast", UNLIMITED, Funds(tenant=Limits(Share(0.1, 1))))
    refusals = [spend.reserve(Ask(name, stream=True), Role.HEDGE, 1, 0, 0, 0.0) for name in ("x", "y")]
    assert refusals[0] is None
    assert refusals[1] is not None
    assert refusals[1].detail == "tenants without a key: 10% of requests"


def test_a_reload_keeps_balances_and_what_was_spent() -> None:
    limits = Limits(Share(0.1, 10), Share(0.2, 50), nanousd_per_hour=100)
    spend = Spend("fast", limits, funds := Funds(limits, limits))
    for attempt in range(8):
        assert reserve(spend, attempt, cost=10) is None
    wider = Limits(Share(0.2, 100), Share(0.2, 50), nanousd_per_hour=200)
    spend.resize(wider, 0.0)
    funds.resize(wider, wider, 0.0)
    assert all(spent(spend, scope, "hour") == 80 for scope in ("route", "tenant", "global"))
    assert launch_all(spend, first=8) == 2
    assert reserve(spend, 20, cost=121, role=Role.FAILOVER) is not None
    assert reserve(spend, 20, cost=120, role=Role.FAILOVER) is None


def test_an_attempt_that_runs_through_a_reload_is_settled_all_the_same() -> None:
    spend = Spend("fast", Limits(nanousd_per_hour=100))
    reserve(spend, 1, cost=100)
    spend.resize(Limits(nanousd_per_hour=50), 1.0)
    assert reserve(spend, 2, cost=1, now=1.0) is not None
    spend.settle("r", 1, 20, 0, 2.0)
    assert reserve(spend, 2, cost=30, now=2.0) is None


def test_a_limit_that_a_reload_brings_knows_what_was_spent_before() -> None:
    spend = Spend("fast", UNLIMITED)
    reserve(spend, 1, cost=100, tokens=100)
    spend.resize(Limits(nanousd_per_month=100, tokens_per_minute=100), 1.0)
    assert reserve(spend, 2, cost=1, now=1.0) == "route fast: $0.0000001 a month"
    assert reserve(spend, 2, tokens=1, now=1.0) == "route fast: 100 tokens a minute"


def test_switching_a_share_off_and_on_does_not_fill_it() -> None:
    spend = Spend("fast", Limits(Share(0.1, 10)))
    assert launch_all(spend) == 10
    spend.resize(UNLIMITED, 0.0)
    assert reserve(spend, 11) is None
    spend.resize(Limits(Share(0.1, 10)), 0.0)
    assert launch_all(spend) == 0
    spend.give_back("r", 11, 0.0)  # it was launched when nothing counted
    assert launch_all(spend) == 0


def test_time_that_goes_back_is_taken_as_standing_still() -> None:
    spend = Spend("fast", Limits(Share(0.1, 1, per_minute=1.0), nanousd_per_hour=10))
    assert reserve(spend, 1, cost=10, now=1_000.0) is None
    spend.settle("r", 1, 4, 0, 10.0)
    assert spent(spend, "route", "hour", 5.0) == 4
    assert reserve(spend, 3, cost=6, now=5.0, role=Role.FAILOVER) is None
    spend.settle("r", 3, 0, 0, 10.0)
    assert spent(spend, "route", "hour", 5.0) == 4
    assert reserve(spend, 2, cost=6, now=1_059.0) is not None
    assert reserve(spend, 2, cost=6, now=1_060.0) is None


@pytest.mark.parametrize("field", ["nanousd_per_hour", "nanousd_per_day", "nanousd_per_month", "tokens_per_minute"])
def test_limits_below_zero_are_refused(field: str) -> None:
    with pytest.raises(ValueError, match=f"{field} must be at least 0"):
        msgspec.convert({field: -1}, Limits)


def test_the_state_is_plain_data() -> None:
    limits = Limits(Share(0.1, 10), None, nanousd_per_day=100)
    spend = Spend("fast", limits, Funds(tenant=limits, kept=7))
    reserve(spend, cost=60, tokens=5)
    state = spend.state(0.0, "t")
    assert json.loads(json.dumps(state)) == state
    money = {
        "hour": {"spent": 60, "limit": None},
        "day": {"spent": 60, "limit": 100},
        "month": {"spent": 60, "limit": None},
    }
    account = {
        "hedges": {"balance": 9.0, "burst": 10, "share": 0.1, "per_minute": 0.0},
        "failovers": None,
        "nanousd": money,
        "tokens": {"minute": {"spent": 5, "limit": None}},
        "over": {"attempts": 0, "nanousd": 0, "tokens": 0},
    }
    assert state == {
        "open": 1,
        "route": account,
        "global": account | {"hedges": None, "nanousd": money | {"day": {"spent": 60, "limit": None}}},
        "tenants": {"known": 1, "kept": 7},
        "tenant": account,
    }
    assert spend.state(0.0)["tenant"] is spend.state(0.0, "nobody")["tenant"] is None


def gather(request: Callable[[int], Coroutine[None, None, bool]]) -> list[bool]:
    async def all_at_once() -> list[bool]:
        return await asyncio.gather(*(request(number) for number in range(1_000)))

    return asyncio.run(all_at_once())


def test_a_thousand_at_once_are_counted_to_the_unit() -> None:
    spend = Spend("fast", Limits(Share(0.1, 10)), Funds(Limits(nanousd_per_hour=100 * 7)))

    async def request(number: int) -> bool:
        ask = Ask(str(number), stream=True)
        spend.earn(ask, 0.0)
        await asyncio.sleep(0)  # all have come before the first is hedged
        paid = spend.reserve(ask, Role.HEDGE, 1, 7, 0, 0.0) is None
        await asyncio.sleep(0)
        if paid and number % 2:
            spend.give_back(ask.request_id, 1, 0.0)
        elif paid:
            spend.settle(ask.request_id, 1, 7, 0, 0.0)
        return paid

    # A full balance earns nothing: ten may start, however many came before.
    assert sum(gather(request)) == 10
    assert spend.state(0.0)["open"] == 0
    assert spend.state(0.0)["route"]["hedges"]["balance"] == 5.0
    assert spent(spend, "global", "hour") == 5 * 7


def test_a_thousand_that_reserve_at_once_spend_the_limit_to_the_unit() -> None:
    limits = Limits(Share(0.25, 200), nanousd_per_hour=150 * 7, tokens_per_minute=10_000)
    spend = Spend("fast", UNLIMITED, Funds(limits))

    async def request(number: int) -> bool:
        await asyncio.sleep(0)
        return spend.reserve(Ask(str(number), stream=True), Role.HEDGE, 1, 7, 3, 0.0) is None

    assert sum(gather(request)) == 150
    assert (spent(spend, "global", "hour"), spent(spend, "global", "minute")) == (150 * 7, 150 * 3)
    assert spend.state(0.0)["global"]["hedges"]["balance"] == 50.0


def test_plans_aim_a_little_higher_while_the_budget_is_saved_and_lower_while_it_is_spent() -> None:
    spend = Spend("r", Limits(hedges=Share(0.1, 10.0)))
    assert spend.pace(0.0) == 1.0 + PACE
    for number in range(10):
        assert spend.reserve(Ask(str(number), True, 10, None, 0.0), Role.HEDGE, 1, 0, 0, 0.0) is None
        if number == 4:
            assert spend.pace(0.0) == 1.0
    assert spend.pace(0.0) == 1.0 - PACE
    assert Spend("r", Limits()).pace(0.0) == 1.0


def test_half_of_the_burst_is_kept_until_a_delay_is_learned() -> None:
    spend = Spend("r", Limits(hedges=Share(0.1, 10.0)))
    for number in range(5):
        assert spend.may_guess(0.0)
        spend.reserve(Ask(str(number), True, 10, None, 0.0), Role.HEDGE, 1, 0, 0, 0.0)
    assert spend.may_guess(0.0)
    spend.reserve(Ask("5", True, 10, None, 0.0), Role.HEDGE, 1, 0, 0, 0.0)
    assert not spend.may_guess(0.0)
    assert Spend("r", Limits()).may_guess(0.0)
