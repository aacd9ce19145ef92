"""Prices and amounts: exact, in whole nano-dollars."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.policy.price import Price, nanousd, show_dollars


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("5", 5_000_000_000),
        ("2.50", 2_500_000_000),
        ("0.000000001", 1),
        ("0.1", 100_000_000),
        ("999999999999.999999999", 999_999_999_999_999_999_999),
    ],
)
def test_dollars_are_read_exactly(text: str, expected: int) -> None:
    assert nanousd(text) == expected


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1e3", ".5", "5.", "1,000", "1_000", " 1", "1\n", "$1", "nan", "inf", "0.0000000001", "٣"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not an amount of dollars"):
        nanousd(text)


@given(st.integers(0, 10**21 - 1))
def test_amounts_are_shown_as_they_are_read(amount: int) -> None:
    assert nanousd(show_dollars(amount).removeprefix("$")) == amount


def test_amounts_are_shown_short() -> None:
    assert [show_dollars(n) for n in (5_000_000_000, 2_500_000_000, 1, -250_000_000)] == [
        "$5",
        "$2.5",
        "$0.000000001",
        "-$0.25",
    ]


def test_an_attempt_costs_its_tokens_and_its_request() -> None:
    price = Price.parse("2.50", "10", "0.005")
    assert price.cost(1_000, 500) == 2_500_000 + 5_000_000 + 5_000_000
    assert Price().cost(1_000, 500) == 0


def test_a_token_may_cost_less_than_can_be_counted_and_half_a_unit_counts_as_one() -> None:
    price = Price.parse("0.0375")  # 37.5 nano-dollars a token
    assert [price.cost(tokens, 0) for tokens in (1, 2, 3)] == [38, 75, 113]
    assert [Price(1_499_999).cost(1, 0), Price(1_500_000).cost(1, 0)] == [1, 2]


def test_numbers_of_tokens_that_cannot_be_cost_nothing() -> None:
    price = Price.parse("1", "1", "0.001")
    assert price.cost(-5, -5) == price.cost(0, 0) == 1_000_000


rates = st.integers(0, 10**14)


@given(rate=rates, out_rate=rates, request=rates, tokens=st.integers(0, 10**7), out_tokens=st.integers(0, 10**7))
def test_the_cost_is_exact_to_half_a_unit(rate: int, out_rate: int, request: int, tokens: int, out_tokens: int) -> None:
    exact = Fraction(rate * tokens + out_rate * out_tokens, 1_000_000) + request
    error = Price(rate, out_rate, request).cost(tokens, out_tokens) - exact
    assert Fraction(-1, 2) < error <= Fraction(1, 2)
