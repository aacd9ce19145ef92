"""Cells: what goes where, who answers for whom, when an answer is made anew, what a reload keeps."""

from __future__ import annotations

from itertools import chain

import pytest

from hedgerow.policy.latency.cells import SIZES, Cells, LatencyModel, Learning, size_of
from hedgerow.policy.latency.distribution import Distribution

FEW = Learning(window=100, age=60.0, min_samples=10, warmup=20)
SMALL, LARGE = 100, 100_000


def learn(cells: Cells, seconds: float, count: int, stream: bool = True, tokens: int = SMALL, now: float = 0.0) -> None:
    for _ in range(count):
        cells.observe("a", stream, tokens, seconds, False, now)


def knows(known: Distribution | None) -> tuple[int, float]:
    """How many samples, and about what they say at the median."""
    assert known is not None
    return known.n, round(known.quantile(0.5), 1)


@pytest.mark.parametrize(
    ("tokens", "size"),
    [(0, 0), (999, 0), (1_000, 1), (3_999, 1), (4_000, 2), (16_000, 3), (63_999, 3), (64_000, 4), (10**7, 4)],
)
def test_sizes_begin_at_round_numbers_of_tokens(tokens: int, size: int) -> None:
    assert size_of(tokens) == size
    assert 0 <= size <= len(SIZES)


def test_nothing_is_known_before_the_target_is_warm() -> None:
    cells = Cells(FEW)
    assert cells.distribution("a", True, SMALL, 0.0) is None
    learn(cells, 1.0, 19)
    assert cells.distribution("a", True, SMALL, 0.0) is None
    learn(cells, 1.0, 1)
    assert knows(cells.distribution("a", True, SMALL, 0.0)) == (20, 1.0)
    assert cells.distribution("b", True, SMALL, 0.0) is None


def test_at_leasts_warm_a_target_too() -> None:
    cells = Cells(FEW)
    for _ in range(20):
        cells.observe("a", True, SMALL, 1.0, True, 0.0)
    known = cells.distribution("a", True, SMALL, 0.0)
    assert known is not None
    assert (known.n, known.events) == (20, 0)


def test_a_cell_with_too_few_samples_answers_with_all_sizes_then_with_all_of_the_target() -> None:
    cells = Cells(FEW)
    learn(cells, 1.0, 20, stream=True, tokens=SMALL)
    learn(cells, 9.0, 9, stream=True, tokens=LARGE)
    learn(cells, 5.0, 9, stream=False, tokens=SMALL)
    assert knows(cells.distribution("a", True, SMALL, 0.0)) == (20, 1.0)  # its own
    assert knows(cells.distribution("a", True, LARGE, 0.0)) == (29, 1.0)  # all streamed
    assert knows(cells.distribution("a", False, SMALL, 0.0)) == (38, 1.0)  # all of the target
    learn(cells, 9.0, 1, stream=True, tokens=LARGE)
    assert knows(cells.distribution("a", True, LARGE, 0.0)) == (10, 9.0)
    learn(cells, 5.0, 1, stream=False, tokens=LARGE)
    assert knows(cells.distribution("a", False, SMALL, 0.0)) == (10, 5.0)  # all whole
    assert knows(cells.distribution("a", False, LARGE, 0.0)) == (10, 5.0)


def test_a_cell_whose_samples_are_too_old_asks_its_parent_and_an_idle_target_is_cold_again() -> None:
    cells = Cells(FEW)
    learn(cells, 9.0, 30, tokens=LARGE, now=0.0)
    learn(cells, 1.0, 30, tokens=SMALL, now=50.0)
    assert knows(cells.distribution("a", True, LARGE, 60.0)) == (30, 9.0)
    assert knows(cells.distribution("a", True, LARGE, 61.0)) == (30, 1.0)
    assert cells.distribution("a", True, LARGE, 111.0) is None


def test_an_answer_is_kept_until_a_twentieth_is_new() -> None:
    cells = Cells(FEW)
    learn(cells, 1.0, 40)
    first = cells.distribution("a", True, SMALL, 0.0)
    learn(cells, 2.0, 1)
    assert cells.distribution("a", True, SMALL, 0.0) is first
    learn(cells, 2.0, 1)
    assert knows(cells.distribution("a", True, SMALL, 0.0)) == (42, 1.0)


def test_or_until_a_twentieth_is_too_old() -> None:
    cells = Cells(FEW)
    learn(cells, 1.0, 2, now=0.0)
    learn(cells, 2.0, 38, now=30.0)
    first = cells.distribution("a", True, SMALL, 60.0)
    assert knows(first) == (40, 2.0)
    assert cells.distribution("a", True, SMALL, 60.0) is first
    assert knows(cells.distribution("a", True, SMALL, 61.0)) == (38, 2.0)


def test_rates_tell_the_sizes_apart() -> None:
    cells = Cells(FEW)
    assert cells.rates("a", True, 0.0) == (0.0,) * 5
    for tenth in range(101):
        cells.observe("a", True, SMALL, 1.0, False, tenth / 10)
        if tenth % 10 == 0:
            cells.observe("a", True, LARGE, 1.0, False, tenth / 10)
    assert cells.rates("a", True, 10.0) == pytest.approx((10.0, 0.0, 0.0, 0.0, 1.0))
    assert cells.rates("a", False, 10.0) == (0.0,) * 5


def test_a_reload_keeps_what_was_learned_and_obeys_the_new_rules() -> None:
    cells = Cells(FEW)
    learn(cells, 9.0, 50)
    learn(cells, 1.0, 50)
    assert knows(cells.distribution("a", True, SMALL, 0.0))[0] == 100
    cells.resize(Learning(window=50, age=10.0, min_samples=50, warmup=50))
    assert knows(cells.distribution("a", True, SMALL, 0.0)) == (50, 1.0)
    assert cells.distribution("a", True, SMALL, 10.001) is None
    learn(cells, 1.0, 50, tokens=LARGE, now=11.0)
    assert knows(cells.distribution("a", True, LARGE, 11.0))[0] == 50  # a cell made later obeys them too


def test_what_has_become_empty_and_targets_that_are_gone_are_swept_away() -> None:
    cells = Cells(FEW)
    learn(cells, 1.0, 20, tokens=SMALL, now=0.0)
    learn(cells, 1.0, 20, tokens=LARGE, now=60.0)
    cells.observe("gone", True, SMALL, 1.0, False, 60.0)
    cells.sweep(61.0, ["a", "other"])
    assert list(cells._targets) == ["a"]
    assert sum(cell is not None for cell in chain(*cells._targets["a"].cells)) == 1
    assert knows(cells.distribution("a", True, LARGE, 61.0))[0] == 20
    cells.sweep(121.0, ["a"])
    assert not any(chain(*cells._targets["a"].cells))
    assert cells.distribution("a", True, LARGE, 121.0) is None
    learn(cells, 1.0, 20, now=122.0)
    assert knows(cells.distribution("a", True, SMALL, 122.0))[0] == 20


def test_the_model_hands_on_to_its_cells() -> None:
    model = LatencyModel(FEW)
    for number in range(20):
        model.observe("a", True, SMALL, 1.0 if number >= 10 else 9.0, False, 0.0)
    assert knows(model.first_token("a", True, SMALL, 0.0)) == (20, 1.0)
    model.resize(Learning(window=10, age=60.0, min_samples=10, warmup=10))
    assert (
        knows(model.first_token("a", True, SMALL, 0.0)) == knows(model.first_token("a", True, LARGE, 0.0)) == (10, 1.0)
    )
    model.sweep(0.0, ["a"])
    assert model.first_token("a", True, SMALL, 0.0) is not None
    model.forget("a")
    assert model.first_token("a", True, SMALL, 0.0) is None
    model.sweep(0.0, [])


@pytest.mark.parametrize(
    "rules",
    [
        {"window": 0},
        {"age": 0.0},
        {"min_samples": 0},
        {"warmup": 0},
        {"window": 200, "min_samples": 201},
        {"window": 200, "warmup": 201},
    ],
)
def test_rules_that_cannot_work_are_refused(rules: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        Learning(**rules)
