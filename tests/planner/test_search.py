"""The search on small logs whose answer is known."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest

from hedgerow.errors import ConfigError
from hedgerow.planner import trial
from hedgerow.planner.config import policy_of
from hedgerow.planner.log import Floats, Log
from hedgerow.planner.plan import Budget, Option, Outcome, Plan, Source
from hedgerow.planner.scene import places_of
from hedgerow.planner.search import Options, judge, plan
from hedgerow.policy.price import Price
from hedgerow.policy.settings import Policy

SOURCE = Source(
    files=("log.csv",),
    format="csv",
    columns=(),
    read=0,
    used=0,
    bad=(),
    notes=(),
    started_at=None,
    seconds=0.0,
    of_first_token=True,
)
FIVE = (Budget(share=0.05),)


def log_of(*ttft: Floats, names: Sequence[str] = ("one", "two"), tokens: Sequence[int] = (0,)) -> Log:
    """Ten requests a second, each asked of every target at once; inf has failed."""
    count, of = len(ttft[0]), len(ttft)
    took = np.stack(ttft, axis=1).ravel()
    return Log(
        at=np.repeat(np.arange(count) * 0.1, of),
        ttft=np.where(np.isfinite(took), took, np.nan),
        failed=~np.isfinite(took),
        input_tokens=np.resize(np.repeat(tokens, of), count * of),
        target=np.tile(np.arange(of), count),
        request=np.repeat(np.arange(count), of),
        targets=names[:of],
        timed=True,
        of_first_token=True,
    )


def lognormal(seed: int, count: int = 2_400) -> Floats:
    return np.random.default_rng(seed).lognormal(0.0, 1.0, count)


def planned(log: Log, budgets: Sequence[Budget] = FIVE, **options: object) -> Plan:
    return plan(log, SOURCE, Options(budgets=budgets, **options))  # type: ignore[arg-type]


def p99(outcome: Outcome) -> float:
    return next(each.value for each in outcome.quantiles if each.p == 0.99)


def only(found: Plan) -> Option:
    (option,) = found.routes[0].options
    return option


def test_a_heavy_tail_of_independent_attempts_pays_and_comes_near_the_arithmetic() -> None:
    found = planned(log_of(lognormal(1)))
    option = only(found)
    assert (option.choice.relation, found.routes[0].recommended) == ("same target", 0)
    assert option.pays
    assert p99(option.expected) == pytest.approx(p99(option.independent), rel=0.1)
    assert p99(option.expected) < 0.8 * p99(found.routes[0].without)
    assert option.oracle_p99 < p99(option.expected)
    assert option.expected.extra == pytest.approx(0.05, abs=0.01)


def test_what_is_tried_is_what_the_config_says() -> None:
    """The recommended config, judged like somebody's own, comes to what the plan expects."""
    log = log_of(lognormal(1))
    found = planned(log)
    option = only(found)
    again = judge(log, "one", places_of(["one", "one"]), policy_of(option.choice), Options())
    assert again == option.expected


def test_a_log_whose_attempts_are_slow_together_does_not_pay_and_says_so() -> None:
    """Every twentieth spell of forty requests is ten times as slow, for hedges too."""
    spell = np.where(np.arange(4_000) // 40 % 20 == 7, 10.0, 1.0)
    route = planned(log_of(spell * np.random.default_rng(2).lognormal(0.0, 0.2, 4_000))).routes[0]
    assert p99(route.options[0].independent) < 0.5 * p99(route.without)
    assert p99(route.options[0].expected) > 0.9 * p99(route.without)
    assert (route.recommended, route.options[0].pays) == (None, False)
    assert "slow together" in route.verdict


def test_another_target_is_hedged_to_where_it_is_well_while_the_primary_is_slow() -> None:
    """Pairs of one request: what is slow at one is not at the other."""
    spell = np.where(np.arange(4_000) // 10 % 25 == 7, 10.0, 1.0)
    chance = np.random.default_rng(3)
    one, two = spell * chance.lognormal(0.0, 0.2, 4_000), chance.lognormal(0.05, 0.2, 4_000)
    route = planned(log_of(one, two)).routes[0]
    choice = route.options[0].choice
    assert (choice.primary, choice.backup, choice.relation) == ("one", "two", "other target")
    assert route.recommended == 0
    assert p99(route.options[0].expected) < 0.5 * p99(route.without)


def test_in_an_outage_of_one_provider_the_other_answers_and_the_budget_holds() -> None:
    one = lognormal(4)
    one[1_500:1_700] = np.inf
    found = planned(log_of(one, 0.7 * lognormal(5)))
    route, option = found.routes[0], only(found)
    assert option.choice.backup == "two"
    assert route.without.failovers > 0.0  # without hedges failures are still asked of the other
    assert route.without.failed == option.expected.failed == 0.0
    assert option.expected.extra < 0.05 + 12 / 1_200  # the share and what may start in a row
    outage = [span for span in route.timeline if span.failed]
    assert sum(span.failed for span in outage) == 200
    assert 0.1 * 1_500 - 10 < outage[0].start <= 0.1 * 1_500


def test_too_short_a_log_recommends_nothing_and_says_how_long_it_should_be() -> None:
    route = planned(log_of(lognormal(6, 600))).routes[0]
    assert (route.recommended, route.options[0].pays) == (None, False)
    assert "300 requests to judge by" in route.verdict
    assert "10,000" in route.verdict
    (empty,) = planned(log_of(lognormal(6, 60))).routes
    assert (empty.options, empty.recommended) == ((), None)
    assert "60 requests of one" in empty.verdict


def test_slow_because_long_is_told_from_bad_luck() -> None:
    tokens = np.random.default_rng(7).choice([100, 1_000, 60_000], 3_000, p=[0.6, 0.3, 0.1])
    took = tokens**0.5 * np.random.default_rng(8).lognormal(0.0, 0.05, 3_000) / 20
    route = planned(log_of(took, tokens=tokens.tolist())).routes[0]
    assert route.recommended is None
    assert "because they are long" in route.verdict


def test_a_budget_in_money_is_kept_and_needs_prices() -> None:
    log = log_of(lognormal(1))
    prices = {"one": Price.parse(request_usd="0.01")}
    option = only(planned(log, [Budget(usd_per_1000=0.5)], prices=prices))
    assert option.expected.usd_per_1000 == pytest.approx(10 * option.expected.extra)  # a hedge is a cent
    assert option.expected.usd_per_1000 == pytest.approx(0.5, rel=0.1)
    with pytest.raises(ConfigError, match="needs prices of one"):
        planned(log, [Budget(usd_per_1000=0.5)])


def test_more_is_bought_only_where_it_shortens_the_tail_enough() -> None:
    """Of stragglers that are one in forty a twentieth of the requests buys nearly all there is."""
    slow = np.random.default_rng(9).random(4_000) < 0.025
    took = np.where(slow, 10.0, 1.0) * np.random.default_rng(10).lognormal(0.0, 0.1, 4_000)
    route = planned(log_of(took), [Budget(share=share) for share in (0.03, 0.2)]).routes[0]
    assert [option.pays for option in route.options] == [True, True]
    assert route.recommended == 0


def test_however_many_processes_the_plan_is_the_same_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_SEVERAL", 1)
    log = log_of(lognormal(11, 1_200))
    told: list[tuple[int, int]] = []
    alone = plan(log, SOURCE, Options(budgets=FIVE), lambda done, of, _: told.append((done, of)))
    together = planned(log, jobs=2)
    assert msgspec.json.encode(alone) == msgspec.json.encode(together)
    assert msgspec.json.encode(alone) != msgspec.json.encode(planned(log, seed=2))
    assert told[-1][0] == told[-1][1]
    assert told == sorted(told)


def test_a_name_that_is_not_in_the_log_is_told_with_those_that_are() -> None:
    with pytest.raises(ConfigError, match="three: the log has no such target; it has one, two"):
        planned(log_of(lognormal(1, 200), lognormal(2, 200)), primaries=["three"])
    with pytest.raises(ConfigError, match="too few attempts in this log"):
        judge(log_of(lognormal(1, 60)), "one", places_of(["one", "one"]), Policy(), Options())
