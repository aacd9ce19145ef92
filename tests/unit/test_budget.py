"""The cap on the number of attempts: its bound holds for every order of requests, time and attempts, and is reached."""

from __future__ import annotations

from fractions import Fraction
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.config.hedge import Cap, Failover, Hedge
from hedgerow.events import Reason
from hedgerow.policy.budget import BURST, FAILOVERS, HEDGES, Budget, Share

shares = st.integers(1, 1_000_000).map(lambda millionths: Fraction(millionths, 1_000_000))
bursts = st.integers(1, 30)
requests_and_asks = st.lists(st.sampled_from(["request", "ask"]), max_size=400)


@given(share=shares, burst=bursts, events=requests_and_asks)
def test_over_any_stretch_hedges_are_at_most_burst_and_share_of_requests(
    share: Fraction, burst: int, events: list[str]
) -> None:
    budget = Budget(float(share), burst)
    above = worst = Fraction(0)  # hedges - share * requests, at most so far over the stretches that end here
    for event in events:
        if event == "request":
            budget.earn()
            above = max(above - share, Fraction(0))
        elif budget.take() is None:
            above += 1
            worst = max(worst, above)
    assert worst <= burst


@given(share=shares, burst=st.integers(2, 30), requests=st.integers(0, 400))
def test_what_the_bound_allows_is_granted_once_the_burst_is_spent(share: Fraction, burst: int, requests: int) -> None:
    budget = Budget(float(share), burst)
    hedges = 0
    for _ in range(burst):
        hedges += budget.take() is None
    for _ in range(requests):
        budget.earn()
        hedges += budget.take() is None
    assert hedges == burst + int(share * requests)


@given(share=shares, burst=bursts, idle=st.integers(0, 400))
def test_requests_in_quiet_times_fill_it_no_higher_than_the_burst(share: Fraction, burst: int, idle: int) -> None:
    budget = Budget(float(share), burst)
    for _ in range(idle):
        budget.earn()
    assert [budget.take() is None for _ in range(burst + 1)] == [True] * burst + [False]


def test_ten_tenths_are_a_whole_hedge() -> None:
    budget = Budget(0.1)
    while budget.take() is None:
        pass
    for _ in range(9):
        budget.earn()
    assert budget.take() is not None
    budget.earn()
    assert budget.take() is None


def test_a_budget_of_all_requests_refuses_no_first_hedge() -> None:
    budget = Budget(1.0)
    for _ in range(1000):
        budget.earn()
        assert budget.take() is None


def test_the_refusal_names_the_key_and_its_value() -> None:
    budget = Budget(0.125, 1)
    assert budget.take() is None
    refusal = budget.take()
    assert refusal is not None
    assert (refusal.reason, refusal.detail) == (Reason.BUDGET, "hedge.budget: 12.5% of requests")


@pytest.mark.parametrize(
    ("share", "burst", "per_minute"),
    [
        (0.0, BURST, 0.0),
        (1e-8, BURST, 0.0),
        (-0.1, BURST, 1.0),
        (1.1, BURST, 0.0),
        (nan, BURST, 0.0),
        (0.1, 0.5, 0.0),
        (0.1, inf, 0.0),
        (0.1, BURST, -1.0),
        (0.1, BURST, inf),
    ],
)
def test_a_budget_that_means_nothing_is_refused(share: float, burst: float, per_minute: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        Budget(share, burst, per_minute)


def spend_all(budget: Budget, now: float = 0.0) -> int:
    taken = 0
    while budget.take(now) is None:
        taken += 1
    return taken


def test_low_traffic_earns_by_the_minute() -> None:
    budget = Budget(0.1, 1, per_minute=1.0)
    assert spend_all(budget, 1000.0) == 1
    assert budget.take(1059.999999) is not None
    assert budget.take(1060.0) is None
    assert budget.take(1060.0) is not None


def test_time_alone_may_earn() -> None:
    budget = Budget(0.0, 1, per_minute=0.5)
    for _ in range(1000):
        budget.earn()
    assert [budget.take(now) is None for now in (0.0, 0.0, 119.0, 120.0)] == [True, False, False, True]
    refusal = budget.take(120.0)
    assert refusal is not None
    assert refusal.detail == "hedge.budget: 0% of requests and 0.5 a minute"


def test_time_earns_no_more_than_the_burst() -> None:
    budget = Budget(0.1, 3, per_minute=60.0)
    assert spend_all(budget) == 3
    assert spend_all(budget, 1e6) == 3


def test_a_clock_that_goes_back_earns_nothing() -> None:
    budget = Budget(0.1, 1, per_minute=1.0)
    spend_all(budget, 100.0)
    assert [budget.take(now) is None for now in (0.0, 159.0, 90.0, 159.9, 160.0)] == [False] * 4 + [True]


@given(
    share=shares,
    burst=bursts,
    per_minute=st.integers(0, 200),
    events=st.lists(st.one_of(st.sampled_from(["request", "ask"]), st.integers(1, 5_000_000)), max_size=300),
)
def test_over_any_stretch_time_adds_its_part_and_no_more(
    share: Fraction, burst: int, per_minute: int, events: list[str | int]
) -> None:
    budget = Budget(float(share), burst, per_minute)
    above = worst = Fraction(0)
    at = 0
    for event in events:
        match event:
            case "request":
                budget.earn()
                above = max(above - share, Fraction(0))
            case int():
                at += event
                above = max(above - Fraction(per_minute * event, 60_000_000), Fraction(0))
            case _ if budget.affords(at):
                budget.pay()
                above += 1
                worst = max(worst, above)
    assert worst <= burst


def test_an_attempt_given_back_may_be_launched_again_but_fills_no_higher_than_the_burst() -> None:
    budget = Budget(0.1, 2)
    spend_all(budget)
    budget.give_back()
    assert spend_all(budget) == 1
    for _ in range(20):
        budget.earn()
    budget.give_back()
    assert spend_all(budget) == 2


def test_a_reload_never_fills_the_balance() -> None:
    budget = Budget(0.1, 10)
    assert [budget.take() for _ in range(8)] == [None] * 8
    budget.resize(Share(0.5, 100), 0)
    assert spend_all(budget) == 2
    for _ in range(20):
        budget.earn()
    assert spend_all(budget) == 10


def test_a_reload_cuts_the_balance_to_a_smaller_burst() -> None:
    budget = Budget(0.1, 10)
    budget.resize(Share(0.1, 3), 0)
    budget.resize(Share(0.1, 10), 0)
    assert spend_all(budget) == 3


def test_what_came_before_a_reload_earned_by_the_old_settings() -> None:
    budget = Budget(0.1, 10, per_minute=1.0)
    spend_all(budget)
    for _ in range(10):
        budget.earn()
    budget.resize(Share(1.0, 10, per_minute=10.0), 60_000_000)
    assert spend_all(budget, 60.0) == 2
    budget.earn()
    assert spend_all(budget, 66.0) == 2


settings_of_some_kind = st.builds(
    Share, st.sampled_from([0.1, 0.5, 1.0]), st.integers(1, 10), st.sampled_from([0.0, 1.0, 60.0])
)


@given(
    first=settings_of_some_kind,
    events=st.lists(
        st.one_of(st.sampled_from(["requests", "asks", "give back"]), st.integers(1, 60), settings_of_some_kind),
        max_size=60,
    ),
)
def test_from_the_start_on_no_more_is_launched_than_the_first_burst_and_each_settings_earnings(
    first: Share, events: list[str | int | Share]
) -> None:
    budget, settings = Budget.of(first), first
    granted, attempts, now = Fraction(first.burst), 0, 0
    for event in events:
        match event:
            case "requests":
                for _ in range(5):
                    budget.earn()
                granted += 5 * Fraction(str(settings.share))
            case "give back" if attempts:
                budget.give_back()
                attempts -= 1
            case "asks":
                attempts += spend_all(budget, now)
            case int():
                now += event
                granted += Fraction(str(settings.per_minute)) * event / 60
            case Share():
                budget.resize(event, now * 1_000_000)
                settings = event
        assert attempts <= granted


def test_a_copy_has_what_was_earned_and_goes_its_own_way() -> None:
    budget = Budget(0.1, 5)
    spend_all(budget)
    for _ in range(20):
        budget.earn()
    other = budget.copy()
    assert (spend_all(budget), spend_all(other)) == (2, 2)


def test_the_poorer_of_two_balances_is_taken_over_as_of_now() -> None:
    rich, poor = Budget(0.1, 5, per_minute=1.0), Budget(0.1, 5, per_minute=1.0)
    spend_all(poor)
    rich.worsen(poor, 180_000_000)
    assert spend_all(rich, 180.0) == 3
    assert spend_all(poor, 180.0) == 3
    rich.worsen(Budget(0.1, 5, per_minute=1.0), 180_000_000)
    assert spend_all(rich, 180.0) == 0


def test_its_state_can_be_read_and_reading_changes_nothing() -> None:
    budget = Budget(0.1, 2, per_minute=0.5)
    spend_all(budget)
    budget.earn()
    expected = {"balance": 0.6, "burst": 2, "share": 0.1, "per_minute": 0.5}
    assert budget.state(60_000_000) == budget.state(60_000_000) == expected


def test_a_configuration_that_says_nothing_has_the_same_defaults() -> None:
    hedge, failover = Hedge(), Failover()
    assert Share(hedge.budget or 0.0, hedge.burst, hedge.per_minute) == HEDGES
    assert Share(failover.budget or 0.0, failover.burst, failover.per_minute) == FAILOVERS
    assert Cap().burst == 10.0


def test_an_outage_adds_a_fifth_by_default() -> None:
    assert (str(HEDGES), str(FAILOVERS)) == ("10% of requests and 1 a minute", "20% of requests and 1 a minute")
    assert (HEDGES.burst, FAILOVERS.burst) == (50, 50)
