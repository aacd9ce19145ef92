"""Sums over sliding windows: never too low, hardly too high, whatever was added, given back and taken over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hedgerow.policy.window_sum import SLOTS, WindowSum

LENGTH = 600
WIDTH = LENGTH // SLOTS

steps = st.one_of(st.just(0), st.integers(1, 3 * WIDTH), st.integers(LENGTH - 2 * WIDTH, LENGTH + 2 * WIDTH))


@given(added=st.lists(st.tuples(steps, st.integers(0, 10**12)), max_size=80), more=steps)
def test_it_holds_all_of_the_last_window_and_at_most_a_sixtieth_more(added: list[tuple[int, int]], more: int) -> None:
    window = WindowSum(LENGTH)
    at, history = 0, []
    for step, amount in added:
        at += step
        window.add(amount, at)
        history.append((at, amount))
    at += more
    least = sum(amount for when, amount in history if when >= at - LENGTH)
    most = sum(amount for when, amount in history if when > at - LENGTH - WIDTH)
    assert least <= window.sum(at) <= most


def test_it_forgets_after_a_window_and_at_most_a_sixtieth() -> None:
    for start in range(WIDTH):
        window = WindowSum(LENGTH)
        window.add(7, start)
        assert [window.sum(at) for at in (start, start + LENGTH, start + LENGTH + WIDTH)] == [7, 7, 0]


def test_long_silence_forgets_everything() -> None:
    window = WindowSum(LENGTH)
    window.add(7, 0)
    window.add(5, 10**9)
    assert window.sum(10**9) == 5


def test_what_is_given_back_leaves_the_time_when_it_was_added() -> None:
    window = WindowSum(LENGTH)
    window.add(7, 0)
    window.add(5, 300)
    window.give_back(4, 0, 300)
    assert [window.sum(at) for at in (300, LENGTH + WIDTH)] == [8, 5]


def test_it_can_be_given_back_as_long_as_it_counts() -> None:
    window = WindowSum(LENGTH)
    window.add(7, 0)
    window.give_back(7, 0, LENGTH)
    assert window.sum(LENGTH) == 0


def test_what_no_longer_counts_cannot_be_given_back() -> None:
    window = WindowSum(LENGTH)
    window.add(7, 0)
    window.add(5, LENGTH + WIDTH)
    window.give_back(7, 0, LENGTH + WIDTH)
    assert window.sum(LENGTH + WIDTH) == 5
    untouched = WindowSum(LENGTH)
    untouched.give_back(7, 0, 0)
    assert untouched.sum(0) == 0


def test_no_more_is_given_back_than_was_added_then() -> None:
    window = WindowSum(LENGTH)
    window.add(5, 0)
    window.add(5, 300)
    window.give_back(7, 0, 300)
    assert window.sum(300) == 5


def test_a_copy_goes_its_own_way() -> None:
    window = WindowSum(LENGTH)
    window.add(5, 100)
    other = window.copy()
    other.add(1, 200)
    window.add(2, 200)
    assert (window.sum(200), other.sum(200)) == (7, 6)
    assert (window.sum(100 + LENGTH + WIDTH), other.sum(100 + LENGTH + WIDTH)) == (2, 1)


def test_the_greater_amount_of_each_time_is_taken_over() -> None:
    one, other, empty = WindowSum(LENGTH), WindowSum(LENGTH), WindowSum(LENGTH)
    one.add(5, 0)
    other.add(3, 0)
    other.add(4, 300)
    one.worsen(other, 400)
    one.worsen(empty, 400)
    empty.worsen(other, 400)
    assert [window.sum(400) for window in (one, other, empty)] == [9, 7, 7]
    assert [window.sum(LENGTH + WIDTH) for window in (one, other, empty)] == [4, 4, 4]


@given(
    mine=st.lists(st.tuples(st.integers(0, 2 * LENGTH), st.integers(1, 100)), max_size=20).map(sorted),
    others=st.lists(st.tuples(st.integers(0, 2 * LENGTH), st.integers(1, 100)), max_size=20).map(sorted),
    later=st.integers(0, 2 * LENGTH),
)
def test_whatever_was_taken_over_counts_as_long_as_it_would_have(
    mine: list[tuple[int, int]], others: list[tuple[int, int]], later: int
) -> None:
    one, other = WindowSum(LENGTH), WindowSum(LENGTH)
    for window, added in ((one, mine), (other, others)):
        for at, amount in added:
            window.add(amount, at)
    alone = one.copy()
    one.worsen(other, 2 * LENGTH)
    at = 2 * LENGTH + later
    assert one.sum(at) >= max(alone.sum(at), other.sum(at))
    assert one.sum(at) <= alone.sum(at) + other.sum(at)
