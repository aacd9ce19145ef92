"""The search on small logs whose answer is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any

import msgspec
import numpy as np
import pytest

from hedgerow.errors import ConfigError
from hedgerow.planner import judging, route_search, trial
from hedgerow.planner import scene as scenes
from hedgerow.planner.choices import Aims, candidates, off
from hedgerow.planner.config import policy_from, policy_of
from hedgerow.planner.log import Floats, Log
from hedgerow.planner.plan import Budget, Choice, Option, Plan, Source
from hedgerow.planner.scene import Scene, places_of, scene_of
from hedgerow.planner.search import Options, judge, plan
from hedgerow.planner.verdict import value_at
from hedgerow.policy.price import Price
from hedgerow.policy.settings import Policy
from hedgerow.report.words import percent, seconds

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


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short logs are gone through once."""
    monkeypatch.setattr(scenes, "ENOUGH", 1)


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


def only(found: Plan) -> Option:
    (option,) = found.routes[0].options
    return option


def test_a_heavy_tail_of_independent_attempts_pays_and_comes_near_the_arithmetic() -> None:
    found = planned(log_of(lognormal(1, 10_000)))
    option = only(found)
    assert (option.choice.relation, found.routes[0].recommended) == ("same target", 0)
    assert option.pays
    assert value_at(option.expected, 0.99) == pytest.approx(value_at(option.independent, 0.99), rel=0.1)
    assert value_at(option.expected, 0.99) < 0.8 * value_at(found.routes[0].without, 0.99)
    assert option.oracle_p99 < value_at(option.expected, 0.99)
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
    assert value_at(route.options[0].independent, 0.99) < 0.5 * value_at(route.without, 0.99)
    assert value_at(route.options[0].expected, 0.99) > 0.9 * value_at(route.without, 0.99)
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
    assert value_at(route.options[0].expected, 0.99) < 0.5 * value_at(route.without, 0.99)


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
    assert "holds 1 request of one" in planned(log_of(lognormal(6, 1))).routes[0].verdict


def test_slow_because_long_is_told_from_bad_luck() -> None:
    tokens = np.random.default_rng(7).choice([100, 1_000, 60_000], 3_000, p=[0.6, 0.3, 0.1])
    took = tokens**0.5 * np.random.default_rng(8).lognormal(0.0, 0.05, 3_000) / 20
    route = planned(log_of(took, tokens=tokens.tolist())).routes[0]
    assert route.recommended is None
    assert "because they are long" in route.verdict


def test_long_answers_are_no_bad_luck_either() -> None:
    answers = np.random.default_rng(7).lognormal(6.0, 1.0, 3_000).astype(np.int64) + 1
    took = 0.3 + answers / 70 * np.random.default_rng(8).lognormal(0.0, 0.1, 3_000)
    log = replace(log_of(took), of_first_token=False, output_tokens=answers)
    route = planned(log).routes[0]
    assert route.recommended is None
    assert "because they are long. The length of the answer explains 9" in route.verdict


def test_a_budget_in_money_is_kept_and_needs_prices() -> None:
    log = log_of(lognormal(1))
    prices = {"one": Price.parse(request_usd="0.01")}
    option = only(planned(log, [Budget(usd_per_1000=0.5)], prices=prices))
    assert option.expected.usd_per_1000 == pytest.approx(10 * option.expected.extra)  # a hedge is a cent
    assert 0.4 < (option.expected.usd_per_1000 or 0.0) <= 0.5
    assert f"per 1,000 (+{percent(option.expected.extra)} of the bill)" in option.why
    with pytest.raises(ConfigError, match=r"needs prices of one$"):
        planned(log, [Budget(usd_per_1000=0.5)])
    with pytest.raises(ConfigError, match="tow: the log has no such target; it has one"):
        planned(log, prices={"tow": prices["one"]})


def test_more_is_bought_only_where_it_shortens_the_tail_enough() -> None:
    """Of stragglers that are one in forty a twentieth of the requests buys nearly all there is."""
    slow = np.random.default_rng(9).random(4_000) < 0.025
    took = np.where(slow, 10.0, 1.0) * np.random.default_rng(10).lognormal(0.0, 0.1, 4_000)
    route = planned(log_of(took), [Budget(share=share) for share in (0.03, 0.2)]).routes[0]
    assert [option.pays for option in route.options] == [True, True]
    assert route.recommended == 0
    assert "Cheaper" not in route.verdict
    both = log_of(lognormal(1, 10_000), lognormal(2, 10_000))
    wide = planned(both, [Budget(share=share) for share in (0.02, 0.2)]).routes[0]
    assert wide.recommended == 1
    less = wide.options[0].expected
    cheaper = f"makes it {seconds(value_at(less, 0.99))} for {percent(less.extra)} more requests."
    assert cheaper in wide.verdict


def test_however_many_processes_the_plan_is_the_same_to_the_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_SEVERAL", 1)
    log = log_of(lognormal(11, 800))
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


def test_where_a_fixed_delay_cannot_help_chance_does() -> None:
    """For the p95 a twentieth of the requests is of no use at a fixed delay: those that reach it are slower already."""
    route = planned(log_of(lognormal(12)), target=0.95).routes[0]
    option = route.options[0]
    before, after = (
        next(each.value for each in of.quantiles if each.p == 0.95) for of in (route.without, option.expected)
    )
    assert dict(option.choice.config).get("hedge.rollout") or option.choice.delay == "auto"
    assert policy_of(option.choice).target == 0.95 or option.choice.delay != "auto"
    assert after < 0.95 * before


def test_a_budget_goes_to_the_prompt_sizes_with_the_tail() -> None:
    """Only long prompts straggle: a delay that is learned is never for short ones, and says so."""
    chance = np.random.default_rng(13)
    tokens = chance.choice([100, 60_000], 4_000, p=[0.7, 0.3])
    straggles = (tokens > 100) & (chance.random(4_000) < 0.08)
    took = np.where(straggles, 20.0, 1.0) * chance.lognormal(0.0, 0.2, 4_000)
    option = only(planned(log_of(took, tokens=tokens.tolist())))
    sizes = {smallest: delay for smallest, delay, _ in option.choice.by_size}
    assert (option.choice.delay, option.pays) == ("auto", True)
    assert list(sizes) == [0, 16_000]
    assert sizes[16_000] < 3.0 < sizes[0]


def test_a_different_model_backs_up_only_when_it_is_named() -> None:
    log = log_of(lognormal(15, 600), 0.1 * lognormal(14, 600), names=("here large", "here small"))
    alone, named = (scene_of(log, 0, seed=1, only=only) for only in ((), ("here small",)))
    assert alone is not None
    assert named is not None
    assert [(each.name, each.relation) for each in alone.backups] == [("here large", "same target")]
    assert [(each.name, each.relation) for each in named.backups] == [("here small", "other tier")]
    places = [(each.name, each.relation) for each in scene(replace(log, targets=["a", "b"])).backups]
    assert places == [("a", "same target"), ("b", "other tier")]  # ten times as fast


def scene(log: Log) -> Scene:
    found = scene_of(log, 0, seed=1)
    assert found is not None
    return found


def test_costs_of_the_log_are_used_where_there_are_no_prices() -> None:
    log = replace(log_of(lognormal(1)), usd=np.full(2_400, 0.002))
    expected = only(planned(log)).expected
    assert expected.usd_per_1000 == pytest.approx(2.0 * expected.extra)


def test_rare_requests_that_often_take_the_longest_time_there_is_are_planned_for() -> None:
    """No delay hedges few enough of them, and there is too little of late to learn one."""
    took = np.random.default_rng(3).choice([1.0, 2.0, 3.0], 400, p=[0.5, 0.3, 0.2])
    log = log_of(took)
    rare = planned(replace(log, at=log.at * 18_000.0)).routes[0]
    assert [option.expected.extra for option in rare.options] == [0.0]
    assert rare.recommended is None


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"target": 0.3}, "from 0.5 to below 1"),
        ({"fit": 0.95}, "from 10 % to 90 %"),
        ({"budgets": []}, "no budget"),
        ({"budgets": [Budget(share=2.0)]}, "from 0.1 % to 100 %"),
        ({"budgets": [Budget()]}, "one of them"),
        ({"budgets": [Budget(usd_per_1000=0.0)]}, "more than 0 dollars"),
    ],
)
def test_options_that_cannot_be_say_what_can(options: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Options(**options)


def test_rare_requests_are_learned_from_for_longer() -> None:
    """One in a minute: of the last half hour, the default, too few are known. One in an hour never are enough."""
    log = log_of(lognormal(16, 400))
    rare, rarest = (
        candidates(scene(replace(log, at=log.at * gap)), {"one": 0.05}, Aims(0.99)) for gap in (600, 36_000)
    )
    assert [dict(choice.config).get("hedge.window.age") for choice in rare if choice.delay == "auto"] == ["17h"]
    assert {choice.delay for choice in rarest} & {"auto", "p95"} == set()


def test_rare_requests_say_how_far_away_in_time_what_stands_for_their_hedges_is() -> None:
    """One in 20 minutes: the five that are nearest are up to an hour away, each half as likely as the one nearer."""
    log = log_of(lognormal(16, 600))
    rare = replace(log, at=log.at * 12_000)
    (far,) = [each for each in planned(rare).findings if each.name == "far_neighbours"]
    assert "a hedge of one to one is 20 minutes away in time (median; of one in ten 40 minutes or more)" in far.text
    for near in (replace(rare, at=rare.at / 60), replace(rare, timed=False)):
        assert "far_neighbours" not in {each.name for each in planned(near).findings}


def test_all_targets_with_enough_attempts_may_be_primaries() -> None:
    log = log_of(lognormal(17, 300), lognormal(18, 300))
    assert [route.primary for route in planned(log, every=True).routes] == ["one", "two"]


def test_a_delay_that_nobody_renews_is_held_to_its_budget() -> None:
    """From the middle of the log on all is twice as slow: the old delay would hedge two fifths of the requests."""
    took = np.random.default_rng(19).lognormal(0.0, 0.5, 4_000) * np.where(np.arange(4_000) < 2_000, 1.0, 2.0)
    found = planned(log_of(took))
    stale = only(found).stale_p99
    assert stale is not None
    assert stale > 0.9 * value_at(found.routes[0].without, 0.99)
    wanted = np.ones(60, dtype=bool)
    assert judging._paid(wanted, 0.05, 20.0).sum() == 20 + 2  # as many as may start in a row, and a share of the others


@pytest.mark.parametrize(("known", "pays"), [(True, False), (False, True)])
def test_failures_that_are_over_at_once_make_no_tail_that_hedging_could_shorten(known: bool, pays: bool) -> None:
    """With a tail of slow failures a hedge helps before they are over; who knows better must not promise that."""
    generator = np.random.default_rng(3)
    first, second = (generator.lognormal(-3.0, 0.2, 2_400) for _ in range(2))
    first[generator.random(2_400) < 0.03] = inf
    log = log_of(first, second)
    took = np.where(log.failed, 0.005 if known else 1.0, np.nan)
    (route,) = planned(replace(log, failed_after=took), backups=["two"]).routes
    assert (route.recommended is not None) is pays
    p99 = value_at(route.without, 0.99)
    assert (p99 < 0.1) if known else (p99 > 1.0)


def test_no_hedge_goes_to_a_target_that_turns_attempts_away() -> None:
    """But to another that does not, if there is one."""
    log = replace(log_of(lognormal(1), lognormal(2)), limited={"one": 0.12})
    (route,) = planned(log).routes
    assert {each.choice.backup for each in route.options} == {"two"}
    assert only(planned(log)).pays
    (route,) = planned(replace(log, limited={"one": 0.12, "two": 0.08})).routes
    assert route.recommended is None
    assert "one turns 12 % of the attempts away" in route.verdict
    (route,) = planned(log, backups=["one"]).routes
    assert (route.recommended, route.options[0].pays) == (None, False)


def test_a_larger_budget_is_offered_all_that_a_smaller_one_pays_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """If its own ways were as bad as not to hedge, it would take those of the smaller."""

    def few(scene: Scene, shares: Mapping[str, float], aims: Aims) -> list[Choice]:
        found = candidates(scene, shares, aims)
        off = [("hedge.delay", "off")]
        return [msgspec.structs.replace(each, config=tuple(off)) for each in found] if shares["one"] > 0.1 else found

    monkeypatch.setattr(route_search, "candidates", few)
    less, more = planned(log_of(lognormal(1)), [Budget(share=0.05), Budget(share=0.2)]).routes[0].options
    assert less.expected.extra > 0.01
    assert more.choice == less.choice
    assert value_at(more.expected, 0.99) == value_at(less.expected, 0.99)


@pytest.mark.parametrize(("delays", "chosen"), [(("4.9s", "5s"), "5s"), (("4.8s", "5s"), "4.8s")])
def test_of_ways_that_come_to_the_same_the_one_that_hedges_least_is_taken(
    monkeypatch: pytest.MonkeyPatch, delays: Sequence[str], chosen: str
) -> None:
    """The earlier of these two delays always makes the p99 shorter, here by 0.7 and by 2.3 %."""

    def these(scene: Scene, shares: Mapping[str, float], aims: Aims) -> list[Choice]:
        fixed = candidates(scene, shares, aims)[-1]
        keys = dict(fixed.config)
        return [
            msgspec.structs.replace(fixed, delay=each, config=tuple((keys | {"hedge.delay": each}).items()))
            for each in delays
        ]

    monkeypatch.setattr(route_search, "candidates", these)
    assert only(planned(log_of(lognormal(1)), [Budget(share=0.2)])).choice.delay == chosen


@pytest.mark.parametrize(
    ("slowest", "timeouts"),
    [
        (59.0, {}),
        (100.0, {"timeouts.first_token": "4m"}),
        (400.0, {"timeouts.first_token": "14m", "timeouts.total": "28m"}),
        (30_000.0, {"timeouts.first_token": "1000m", "timeouts.total": "1d"}),
        (79_200.0, {"timeouts.first_token": "1d", "timeouts.total": "1d"}),
    ],
)
def test_timeouts_are_of_the_targets_in_use_and_no_longer_than_a_config_allows(
    slowest: float, timeouts: dict[str, str]
) -> None:
    own, quick, slow = np.minimum(lognormal(1), 50.0), np.minimum(lognormal(2), 50.0), np.minimum(lognormal(3), 50.0)
    slow[7] = slowest
    scene = scene_of(log_of(own, quick, slow, names=("one", "two", "three")), 0, seed=1)
    assert scene is not None
    configs = {backup.name: off(scene, backup) for backup in scene.backups}
    assert configs["one"] == configs["two"] == {"hedge.delay": "off"}
    assert configs["three"] == {"hedge.delay": "off"} | timeouts
    assert policy_from(configs["three"]).delay == "off"
    ways = {each.backup: dict(each.config) for each in candidates(scene, dict.fromkeys(configs, 0.05), Aims(0.99))}
    for backup, config in ways.items():
        expected = timeouts if backup == "three" else {}
        assert {key: value for key, value in config.items() if key.startswith("timeouts.")} == expected


def test_calls_that_take_hours_are_hedged_as_late_as_a_config_allows() -> None:
    """Rare, too, so that nothing can be learned: a fixed delay is all there is."""
    log = log_of(lognormal(1, 1_200) * 3_600.0, lognormal(2, 1_200) * 3_600.0)
    option = only(planned(replace(log, at=log.at * 10_000.0)))
    assert option.choice.delay == "1h"
    assert 0.0 < option.expected.extra <= 0.06


def test_who_may_hedge_everything_is_no_worse_off_than_who_may_hedge_a_fifth() -> None:
    """Most would be hedged, which the guard takes for an outage of all targets: so most of the budget is left."""
    log = log_of(np.where(np.arange(2_400) % 30 == 0, 12.0, lognormal(1) ** 0.3), lognormal(2) ** 0.3)
    fifth, all_ = planned(log, [Budget(share=0.2), Budget(share=1.0)]).routes[0].options
    alone = only(planned(log, [Budget(share=1.0)]))
    assert value_at(alone.expected, 0.99) == value_at(all_.expected, 0.99) <= value_at(fifth.expected, 0.99)
    assert alone.choice == all_.choice


def test_a_primary_that_is_named_twice_is_one() -> None:
    found = planned(log_of(lognormal(1), lognormal(2)), primaries=["two", "one", "two"])
    assert [each.primary for each in found.routes] == ["two", "one"]


@pytest.mark.parametrize(("out", "share"), [(0.15, "2.1 %"), (0.02, None)])
def test_a_verdict_on_answers_says_how_many_requests_have_none(out: float, share: str | None) -> None:
    failing = [np.random.default_rng(seed).random(2_400) < out for seed in (5, 6)]
    first, second = (np.where(each, inf, lognormal(seed)) for seed, each in enumerate(failing, 1))
    (route,) = planned(log_of(first, second), backups=["two"]).routes
    assert route.recommended is not None
    told = f" {share} of the requests fail all the same: p99 is of those that are answered."
    assert (told in route.verdict) is ("fail all the same" in route.verdict) is (share is not None)


def test_a_backup_whose_breaker_holds_hedges_back_is_named() -> None:
    """What fails at one target fails at the other, too, and little else is asked there."""
    failing = np.random.default_rng(5).random(2_400) < 0.02
    first, second = (np.where(failing, inf, lognormal(seed)) for seed in (1, 2))
    (route,) = planned(log_of(first, second), backups=["two"]).routes
    assert route.recommended is None
    assert (
        "two fails so often when it is asked, also after failures, that its breaker holds hedges back" in route.verdict
    )
