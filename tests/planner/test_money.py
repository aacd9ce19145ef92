"""What hedges cost in a plan, and that a budget in money is kept."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hedgerow.planner import scene as scenes
from hedgerow.planner.log import Ints, Log
from hedgerow.planner.money import Money, money_of
from hedgerow.planner.plan import Budget, Option, Plan
from hedgerow.planner.scene import Scene, scene_of
from hedgerow.planner.search import Options, plan
from hedgerow.planner.trial import Flown
from hedgerow.policy.price import Price
from tests.planner.made import SOURCE

COUNT = 3_000
PRICE = Price.parse("2.5", "10")
PROMPTS = np.random.default_rng(1).lognormal(7.0, 1.2, COUNT).astype(np.int64) + 1
ANSWERS = np.random.default_rng(2).lognormal(5.5, 1.0, COUNT).astype(np.int64) + 1


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short logs are gone through once."""
    monkeypatch.setattr(scenes, "ENOUGH", 1)


def log_of(prompts: Ints = PROMPTS, answers: Ints | None = ANSWERS) -> Log:
    """Five requests a second at one target."""
    took = (0.3 + PROMPTS / 8_000) * np.random.default_rng(3).lognormal(0.0, 0.9, COUNT)
    return Log(
        at=np.arange(float(COUNT)) / 5,
        ttft=took,
        failed=np.zeros(COUNT, dtype=bool),
        input_tokens=prompts,
        target=np.zeros(COUNT, dtype=np.int64),
        request=np.full(COUNT, -1),
        targets=["one"],
        timed=True,
        of_first_token=True,
        output_tokens=answers,
    )


def planned(log: Log, *usd: float) -> Plan:
    budgets = [Budget(usd_per_1000=each) for each in usd]
    return plan(log, SOURCE, Options(budgets=budgets, prices={} if log.usd is not None else {"one": PRICE}))


def cost_of(option: Option) -> float:
    assert option.expected.usd_per_1000 is not None
    return option.expected.usd_per_1000


def dearer(log: Log) -> Log:
    """Prompts that become three times as long, and with them slower, in the second half."""
    later = np.arange(COUNT) >= COUNT // 2
    return replace(
        log, input_tokens=log.input_tokens * np.where(later, 3, 1), ttft=log.ttft * np.where(later, 2.0, 1.0)
    )


def told(log: Log) -> Log:
    """What each attempt cost is told by the log, in the second half twice as much."""
    return replace(log, usd=np.where(np.arange(COUNT) < COUNT // 2, 0.004, 0.008))


@pytest.mark.parametrize("log", [log_of(), dearer(log_of()), told(log_of()), replace(log_of(), of_first_token=False)])
def test_a_budget_in_money_is_never_passed(log: Log) -> None:
    for option in planned(log, 0.2, 0.5, 5.0).routes[0].options:
        most = option.budget.usd_per_1000
        assert most is not None
        assert cost_of(option) <= most
        assert cost_of(option) > 0.0 or not option.pays


def test_where_money_buys_less_than_a_configuration_can_say_hedging_does_not_pay() -> None:
    """Hedges of 0.1 % of the requests, at a dollar each, are ten times the budget."""
    log = replace(log_of(), usd=np.full(COUNT, 1.0))
    (route,) = planned(log, 0.1).routes
    (option,) = route.options
    assert (option.pays, route.recommended) == (False, None)
    assert option.why == f"Its hedges cost ${cost_of(option):.3g} per 1,000, more than the budget of $0.100."


def scene(log: Log) -> Scene:
    found = scene_of(log, 0, seed=1)
    assert found is not None
    return found


def money(log: Log) -> Money:
    there = scene(log)
    found = money_of(there, there.backups[0], {"one": PRICE})
    assert found is not None
    return found


def flown(winner: int, hedges: int = 1) -> Flown:
    """All are hedged, and the attempt of this number wins."""
    every = np.ones(COUNT, dtype=np.int64)
    return Flown(np.ones(COUNT), every * hedges, every * 0, every * winner, ())


def test_who_is_broken_off_before_the_first_token_has_read_the_prompt() -> None:
    read, whole = PROMPTS * 2.5e-6, PROMPTS * 2.5e-6 + ANSWERS * 1e-5
    for winner in (0, 1):
        assert money(log_of()).of(flown(winner)) == pytest.approx(read)
        assert money(log_of()).of(flown(winner, 2)) == pytest.approx(2 * read)
        assert money(replace(log_of(), of_first_token=False)).of(flown(winner)) == pytest.approx(whole)


def test_of_tokens_that_are_not_known_the_median_is_taken_and_it_is_said() -> None:
    some = np.arange(COUNT) % 5 == 0
    log = replace(log_of(PROMPTS, np.where(some, 0, ANSWERS)), of_first_token=False)
    costs = money(log).of(flown(0))
    median = np.median(ANSWERS[~some])
    assert costs[~some] == pytest.approx((PROMPTS * 2.5e-6 + ANSWERS * 1e-5)[~some])
    assert costs[some] == pytest.approx((PROMPTS * 2.5e-6 + round(float(median)) * 1e-5)[some])
    texts = [each.text for each in planned(log, 0.5).findings if each.name == "unknown_costs"]
    assert len(texts) == 1
    assert texts[0].startswith("Costs of 20 % of the requests of one with hedges to one are not known")
    assert f"or {round(float(median))} of answer, the median of the others, stand for them" in texts[0]
    known = {each.name for each in planned(log_of(), 0.5).findings}
    assert "unknown_costs" not in known


def test_of_costs_that_the_log_does_not_tell_the_mean_is_taken_and_it_is_said() -> None:
    usd = np.where(np.arange(COUNT) % 4 == 0, np.nan, 0.002)
    found = planned(replace(log_of(), usd=usd), 0.5)
    (option,) = found.routes[0].options
    assert cost_of(option) == pytest.approx(2.0 * option.expected.extra)
    (text,) = [each.text for each in found.findings if each.name == "unknown_costs"]
    assert text.startswith("Costs of 25 % of the requests of one")
