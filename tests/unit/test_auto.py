"""The plan behind `auto`: what is known is put together, the budget kept, and money."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest

from hedgerow.policy import auto
from hedgerow.policy.allocate import Cell, allocation
from hedgerow.policy.auto import (
    PROMPTS,
    Kind,
    hedged_by,
    hopeful,
    kinds_of,
    planned,
    prompt_tokens,
    share_of,
    shares_of,
    slowest,
)
from hedgerow.policy.latency.cells import SIZES, LatencyModel, Learning, size_of
from hedgerow.policy.latency.distribution import Distribution
from hedgerow.policy.reissue import Aim, Reissue, Steps, finish, single_r
from tests.unit.law_support import LogNormal, smallest

SORTS = ((500, 0.5, -0.7, 0.5), (2_000, 0.25, -0.5, 0.6), (8_000, 0.15, -0.2, 0.7), (32_000, 0.1, 0.3, 0.8))
"""Tokens, weight, mu and sigma: the longer the prompt, the slower and the more uncertain."""


def sampled(mu: float, sigma: float, count: int = 1000) -> Distribution:
    """Its own quantiles, evenly spread: a sample without chance."""
    law = LogNormal(mu, sigma)
    return Distribution.of(law.quantile((rank + 0.5) / count) for rank in range(count))


def mixture(cost: float = 1.0) -> list[Kind]:
    """Costs grow with prompts, by as much as `cost` says."""
    return [
        Kind((size_of(tokens),), weight, tokens**cost, sampled(mu, sigma), sampled(mu, sigma))
        for tokens, weight, mu, sigma in SORTS
    ]


def plan(kinds: Sequence[Kind], aim: Aim, correlation: float = 0.0) -> Sequence[Reissue]:
    return finish(planned(kinds, correlation, aim)).choices


def quantile_of(kinds: Sequence[Kind], choices: Sequence[Reissue], target: float = 0.99) -> float:
    """What the choices come to, from the definition."""

    def reached(t: float) -> float:
        return sum(
            kind.weight
            * (kind.primary.cdf(t) + choice.probability * kind.primary.survival(t) * kind.backup.cdf(t - choice.delay))
            for kind, choice in zip(kinds, choices, strict=True)
        )

    return smallest(lambda t: reached(t) >= target * sum(kind.weight for kind in kinds), 0.0, 100.0)


def test_every_size_has_tokens_that_stand_for_it() -> None:
    assert [size_of(tokens) for tokens in PROMPTS] == list(range(len(SIZES) + 1))
    assert [prompt_tokens("a", size) for size in range(5)] == [500.0, 2000.0, 8000.0, 32000.0, 128000.0]


class TestKinds:
    learning = Learning(window=1000, age=600.0, min_samples=10, warmup=20)

    def model(self) -> LatencyModel:
        model = LatencyModel(self.learning)
        for second in range(101):
            model.observe("a", True, 500, 1.0, False, float(second))
            if second % 2 == 0:
                model.observe("a", True, 100_000, 9.0, False, float(second))
            if second % 25 == 0:
                model.observe("a", True, 2_000, 2.0, False, float(second))
                model.observe("a", True, 8_000, 3.0, False, float(second))
        return model

    def test_nothing_is_planned_while_the_primary_is_cold(self) -> None:
        assert kinds_of(LatencyModel(self.learning), "a", "b", True, prompt_tokens, 0.0) == ()

    def test_sizes_with_too_few_samples_are_one_kind_and_those_nobody_asks_for_none(self) -> None:
        kinds = kinds_of(self.model(), "a", "b", True, prompt_tokens, 100.0)
        assert [kind.sizes for kind in kinds] == [(0,), (1, 2), (4,)]
        assert [kind.weight for kind in kinds] == pytest.approx([1.0, 0.08, 0.5])
        assert [kind.cost for kind in kinds] == pytest.approx([500.0, 5_000.0, 128_000.0])
        assert [kind.primary.n for kind in kinds] == [101, 162, 51]

    def test_of_an_unknown_backup_the_primarys_times_are_assumed(self) -> None:
        model = self.model()
        assert all(kind.backup is kind.primary for kind in kinds_of(model, "a", "b", True, prompt_tokens, 100.0))
        for _ in range(20):
            model.observe("b", True, 500, 5.0, False, 100.0)
        kinds = kinds_of(model, "a", "b", True, prompt_tokens, 100.0)
        assert {kind.backup.n for kind in kinds} == {20}

    def test_what_a_hedge_costs_is_asked_of_its_target(self) -> None:
        asked = []

        def cost(target: str, size: int) -> float:
            asked.append((target, size))
            return 7.0

        kinds = kinds_of(self.model(), "a", "b", True, cost, 100.0)
        assert [kind.cost for kind in kinds] == pytest.approx([7.0, 7.0, 7.0])
        assert asked == [("b", 0), ("b", 1), ("b", 2), ("b", 4)]


@pytest.mark.parametrize("budget", [0.02, 0.05, 0.1])
@pytest.mark.parametrize("correlation", [0.0, 0.3])
def test_one_kind_does_what_is_best_for_it_alone(budget: float, correlation: float) -> None:
    law = sampled(0.0, 1.0)
    (found,) = plan([Kind((0,), 3.0, 7.0, law, law)], Aim(0.99, budget), correlation)
    best = single_r(law, law, target=0.99, budget=budget, correlation=correlation)
    assert found.quantile == pytest.approx(best.quantile, rel=1e-3)
    assert found.probability * law.survival(found.delay) <= budget * 1.01


@pytest.mark.parametrize("budget", [0.02, 0.05, 0.1, 0.2])
@pytest.mark.parametrize("cost", [0.0, 0.5, 1.0])
def test_with_the_budget_kept_the_plan_is_never_worse_than_one_delay_for_all(budget: float, cost: float) -> None:
    kinds = mixture(cost)
    found = plan(kinds, Aim(0.99, budget))
    hedged = hedged_by(kinds, shares_of(kinds), found)
    assert 0.8 * budget < hedged <= 1.01 * budget
    delay = smallest(
        lambda d: sum(kind.weight * kind.primary.survival(d) for kind in kinds) <= budget, 0.0, 100.0
    )  # fmt: skip
    same = [Reissue(delay, 1.0, 0.0)] * len(kinds)
    assert quantile_of(kinds, found) < quantile_of(kinds, same)
    assert found[0].quantile == pytest.approx(quantile_of(kinds, found), rel=1e-3)


def test_five_percent_come_within_half_a_point() -> None:
    for cost in (0.0, 1.0):
        kinds = mixture(cost)
        assert hedged_by(kinds, shares_of(kinds), plan(kinds, Aim(0.99, 0.05))) == pytest.approx(0.05, abs=0.002)


def test_of_two_that_gain_the_same_the_cheaper_one_is_hedged_more() -> None:
    law = sampled(0.0, 1.0)
    cheap, dear = Kind((0,), 1.0, 1.0, law, law), Kind((4,), 1.0, 100.0, law, law)
    found = plan([cheap, dear], Aim(0.99, 0.05))
    shares = [choice.probability * law.survival(choice.delay) for choice in found]
    assert shares[0] > 1.5 * shares[1]


def test_where_hedging_is_of_no_use_it_waits_for_max_delay_or_for_ever() -> None:
    law = Distribution.of([1.0] * 999 + [30.0])
    assert plan([Kind((0,), 1.0, 1.0, law, law)], Aim(0.99, 0.05)) == (Reissue(inf, 0.0, 1.0),)
    assert plan([Kind((0,), 1.0, 1.0, law, law)], Aim(0.99, 0.05, 0.0, 8.0)) == [Reissue(8.0, 1.0, 1.0)]


def test_what_waits_for_max_delay_stays_within_the_budget() -> None:
    law = Distribution.of([1.0] * 50, [30.0] * 50)
    never = Distribution.of([], [30.0] * 100)
    found = plan([Kind((0,), 1.0, 1.0, law, never)], Aim(0.99, 0.05, 0.0, 8.0))
    assert found == [Reissue(8.0, 0.05 / 0.5, inf)]


def test_of_a_target_that_never_answered_only_max_delay_is_left() -> None:
    law = Distribution.of([], [30.0] * 100)
    kinds = [Kind((0,), 1.0, 1.0, law, law)]
    assert plan(kinds, Aim(0.99, 0.05))[0].probability == 0.0
    assert plan(kinds, Aim(0.99, 0.05, 0.0, 8.0)) == [Reissue(8.0, 0.05, inf)]


def test_where_only_a_correlation_speaks_against_hedging_it_is_tried_with_the_least_there_may_be() -> None:
    law, aim = sampled(0.0, 0.4), Aim(0.99, 0.05)
    kinds = [Kind((0,), 1.0, 1.0, law, law)]
    (without,) = plan(kinds, aim, 0.5)
    assert share_of(law, without) < 0.01
    (tried,) = finish(hopeful(kinds, 0.5, 0.0, aim)).choices
    assert tried == plan(kinds, aim, 0.0)[0]
    assert share_of(law, tried) == pytest.approx(0.05, abs=0.002)
    assert finish(hopeful(kinds, 0.5, 0.5, aim)).choices[0] == without  # the pairs have spoken


def test_what_is_of_use_is_planned_by_what_is_likeliest() -> None:
    kinds, aim = mixture(), Aim(0.99, 0.05)
    assert finish(hopeful(kinds, 0.15, 0.0, aim)).choices == plan(kinds, aim, 0.15)


def test_the_same_inputs_make_the_same_plan() -> None:
    assert plan(mixture(), Aim(0.99, 0.05), 0.15) == plan(mixture(), Aim(0.99, 0.05), 0.15)


def test_a_plan_that_begins_where_the_last_one_ended_takes_fewer_solves(monkeypatch: pytest.MonkeyPatch) -> None:
    solves: list[Aim] = []

    def counted(cells: Sequence[Cell], aim: Aim) -> Steps[Sequence[Reissue]]:
        solves.append(aim)
        return allocation(cells, aim)

    monkeypatch.setattr(auto, "allocation", counted)
    kinds, aim = mixture(), Aim(0.99, 0.1)
    first = finish(planned(kinds, 0.0, aim))
    needed = len(solves)
    assert needed > 1
    again = finish(planned(kinds, 0.0, aim, first.start))
    assert len(solves) == needed + 1
    assert again.choices[0].quantile == pytest.approx(first.choices[0].quantile, rel=0.01)


def test_the_slowest_of_those_that_end() -> None:
    assert slowest(Distribution.of([1.0, 2.0, 3.0, 4.0]), 0.75) == 3.0
    assert slowest(Distribution.of([1.0, 2.0, 3.0, 4.0], [9.0] * 4), 0.75) == 3.0
    assert slowest(Distribution.of([], [9.0] * 4), 0.75) == inf


def test_a_plan_that_comes_to_no_hedges_at_all_is_no_fault() -> None:
    short = Kind(
        (0,),
        1.6,
        500.0,
        Distribution((0.1, 0.5, 0.55, 1.0, 10.0, 7000.0), (0.18, 0.23, 0.27, 0.36, 0.64, 1.0), 23, 12),
        Distribution((0.0001, 0.1, 0.25, 0.4, 1.0, 1.3, 10.0), (0.1, 0.22, 0.28, 0.35, 0.64, 0.73, 0.91), 20, 13),
    )
    long = Kind(
        (1, 2, 3, 4),
        0.76,
        41_000.0,
        Distribution(
            (0.0001, 0.1, 0.5, 1.0, 1.6, 2.6, 10.0, 3600.0), (0.03, 0.19, 0.22, 0.39, 0.43, 0.48, 0.62, 0.8), 38, 21
        ),
        Distribution((0.0001, 0.1, 0.4, 1.0, 1.3, 10.0, 7000.0), (0.06, 0.22, 0.29, 0.47, 0.51, 0.82, 1.0), 34, 23),
    )
    kinds = [short, long]
    plan = finish(planned(kinds, 0.15, Aim(0.5, 0.098, 0.0, inf)))
    assert hedged_by(kinds, shares_of(kinds), plan.choices) <= 0.098 * 1.01
