"""The cap on hedges: its bound holds for every order of requests and hedges, and is reached."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Reason
from hedgerow.policy.budget import BURST, Budget

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


@pytest.mark.parametrize(("share", "burst"), [(0.0, BURST), (-0.1, BURST), (1.1, BURST), (0.1, 0.5)])
def test_a_budget_that_means_nothing_is_refused(share: float, burst: float) -> None:
    with pytest.raises(ValueError, match="must be"):
        Budget(share, burst)
