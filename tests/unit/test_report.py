"""The report: what is counted, what is compared with what, and what is said of it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
import pytest

from hedgerow.cost import Certainty
from hedgerow.events import Arm, FailureClass, Outcome, Reason
from hedgerow.report.advice import Configured
from hedgerow.report.analysis import analyse
from hedgerow.report.facts import Request
from hedgerow.report.gathering import Side, gather
from hedgerow.report.result import Percentile, Range, Route
from hedgerow.report.statistics import Z
from hedgerow.report.terminal import facts
from hedgerow.report.verdict import more_requests
from hedgerow.report.words import money
from tests.unit.report_support import USD, request, times

HEDGED, HOLDOUT = Arm.HEDGED, Arm.HOLDOUT


def route(requests: Sequence[Request], configured: Configured | None = None) -> Route:
    (found,) = analyse(requests, 1, configured={"fast": configured} if configured else None).report.routes
    return found


def names(found: Route) -> list[str]:
    return [each.name for each in found.advice]


def p(found: Route, percentile: float, what: str = "first_token") -> Percentile:
    all_of_it: Sequence[Percentile] = getattr(found, what)
    return next(each for each in all_of_it if each.percentile == percentile)


def took(one: Request) -> float:
    return (one.first_token_at or 0.0) - one.started_at


def long_tailed(count: int, scale: float = 1.0, seed: int = 3) -> list[float]:
    """A tenth takes about ten times as long."""
    random = np.random.default_rng(seed)
    slow = random.random(count) < 0.1
    return [float(each) for each in np.where(slow, 10.0 * scale, 1.0) * random.lognormal(0.0, 0.2, count)]


def experiment(cut: float, hedged: int = 18_000, holdout: int = 2_000) -> list[Request]:
    """Both sides, the slow ones of the hedged `cut` times as slow as the others'."""
    return [*times(long_tailed(hedged, cut), HEDGED), *times(long_tailed(holdout, seed=4), HOLDOUT)]


# --- what is counted -------------------------------------------------------------------------------------------------


def side(*requests: Request) -> Side:
    return gather(requests)["fast"].sides[None]


def test_a_failure_is_slower_than_any_answer() -> None:
    failed = request(None, outcome=Outcome.FAILED, failure=FailureClass.SERVER_ERROR)
    broken = request(1.5, outcome=Outcome.FAILED_AFTER_COMMIT, failure=FailureClass.TIMEOUT_STALL)
    told = side(request(1.0), failed, broken)
    assert (list(told.first_token), list(told.total)) == ([1.0, 1.5, inf], [3.0, inf, inf])
    assert (told.requests, told.failed) == (3, 2)


def test_what_nobody_could_have_answered_says_nothing_of_times() -> None:
    told = side(request(None, outcome=Outcome.FAILED, failure=FailureClass.FATAL_REQUEST), request(1.0))
    assert (list(told.first_token), told.refused, told.failed) == ([1.0], 1, 0)


def test_who_left_before_the_first_token_is_counted_apart() -> None:
    before, after = (request(each, outcome=Outcome.CLIENT_GONE) for each in (None, 1.0))
    told = side(before, after)
    assert (told.left, list(told.first_token), list(told.total)) == (1, [1.0], [])


def test_hedges_their_wins_and_why_there_were_none() -> None:
    told = side(request(hedge_won=True), request(hedge_won=False), request(skipped=Reason.BUDGET), request())
    assert (told.hedges, told.wins, told.due, dict(told.skipped)) == (2, 1, 3, {Reason.BUDGET: 1})


def test_extra_cost_is_what_attempts_cost_that_did_not_win() -> None:
    told = side(
        request(cost=3 * USD),
        request(hedge_won=True, cost=3 * USD, lost=USD, certainty=Certainty.AT_LEAST),
        request(hedge_won=False, cost=3 * USD, lost=2 * USD, certainty=Certainty.ESTIMATED),
        request(),
    )
    assert dict(told.by_certainty) == {Certainty.AT_LEAST: USD, Certainty.ESTIMATED: 2 * USD}
    assert (told.nanousd, told.unpriced, list(told.cost_nanousd)) == (12 * USD, 1, [3 * USD, 4 * USD, 5 * USD, 0])


def test_what_was_saved_is_the_estimate_less_what_it_took() -> None:
    """The last would have taken longer, nobody knows how long: it counts with what it took."""
    told = side(request(2.0, hedge_won=True, unhedged=9.0), request(1.0, unhedged=1.0), request(2.0, hedge_won=True))
    assert (told.saved, told.estimated, list(told.unhedged)) == (7.0, 2, [1.0, 2.0, 9.0])


def test_targets_have_what_their_attempts_did() -> None:
    (a, b) = route([request(1.0, cost=USD), request(2.0, hedge_won=True, cost=USD, lost=USD // 2)]).targets
    assert (a.name, dict(a.attempts), dict(a.outcomes)) == ("a", {"primary": 2}, {"superseded": 1, "won": 1})
    assert (a.nanousd, a.nanousd_lost, a.first_token_p50) == (USD + USD // 2, USD // 2, 1.0)
    assert (b.name, dict(b.attempts), b.hedges_won, b.first_token_p99) == ("b", {"hedge": 1}, 1, 1.5)


def test_time_goes_in_even_steps() -> None:
    requests = [request(at=60.0 * minute + 7.0, hedge_won=minute == 1 or None) for minute in (0, 1, 1, 5)]
    found = [(each.at, each.requests, each.hedge_rate, each.win_rate) for each in route(requests).timeline]
    assert found == [(0.0, 1, 0.0, None), (60.0, 2, 1.0, 1.0), (300.0, 1, 0.0, None)]


# --- what is compared ------------------------------------------------------------------------------------------------


def test_the_sides_are_compared_percentile_by_percentile() -> None:
    found = route(experiment(0.5))
    p50, p99 = p(found, 50.0), p(found, 99.0)
    assert p99.hedged is not None
    assert p99.holdout is not None
    assert p99.change is not None
    assert p99.difference is not None
    assert p99.change.value == pytest.approx(p99.hedged / p99.holdout - 1.0)
    assert p99.difference.value == pytest.approx(p99.hedged - p99.holdout)
    assert p99.change.interval is not None
    assert p99.change.interval.low is not None
    assert p99.change.interval.low < -0.5 < (p99.change.interval.high or 0.0) < -0.4
    assert p50.change is not None
    assert p50.change.interval is not None
    assert (p50.change.interval.low or 0.0) < 0.0 < (p50.change.interval.high or 0.0)


def test_percentiles_with_too_few_beyond_them_have_no_interval() -> None:
    found = p(route(experiment(0.5)), 99.9)
    assert found.change is not None
    assert (found.change.interval, found.more_holdout) == (None, 8_000)


def test_what_takes_no_part_is_not_compared() -> None:
    found = route([*experiment(0.5), *times([1e6] * 5_000, None)])
    assert (found.not_taking_part, found.hedged.requests) == (5_000, 18_000)
    assert p(found, 99.0) == p(route(experiment(0.5)), 99.0)


def test_without_an_experiment_there_is_the_model() -> None:
    found = route([request(1.0, unhedged=1.0), request(2.0, hedge_won=True, unhedged=8.0)])
    assert (found.holdout, found.verdict.word) == (None, "no_verdict")
    assert (p(found, 99.0).hedged, p(found, 99.0).modelled, p(found, 99.0).change) == (2.0, 8.0, None)
    assert found.cost.seconds_saved == 6.0


def test_the_same_requests_and_seed_say_the_same_whatever_else_is_read() -> None:
    own = experiment(0.7)
    others = [request(2.0, arm, route="other", at=float(index)) for index in range(500) for arm in (HEDGED, HOLDOUT)]
    alone, beside = analyse(own, 5).report, analyse([*others, *own], 5).report
    assert beside.routes[0] == alone.routes[0]
    assert analyse(own, 6).report.routes[0] != alone.routes[0]


def test_routes_are_pooled_by_their_requests() -> None:
    slow = [request(took(each), each.arm, route="slow") for each in experiment(0.5)]
    both = analyse([*experiment(1.0, 36_000, 4_000), *slow], 1).report
    assert both.pooled is not None
    changes = [p(each, 99.0).change for each in both.routes]
    pooled = both.pooled.first_token["p99"]
    assert pooled.value == pytest.approx(
        sum(w * (c.value if c else 0.0) for w, c in zip((2 / 3, 1 / 3), changes, strict=True))
    )
    assert pooled.interval is not None
    assert (pooled.interval.low or 0.0) < pooled.value < (pooled.interval.high or 0.0) < 0.0
    assert set(both.pooled.first_token) == {"p50", "p90", "p95", "p99"}
    assert analyse(experiment(0.5), 1).report.pooled is None


def test_a_second_saved_has_a_price_where_seconds_are_saved_for_certain() -> None:
    """One hedged request in ten loses an attempt for half a dollar: five cents a request."""
    hedged = [
        request(each, HEDGED, cost=USD, lost=USD // 2, hedge_won=False if index % 10 == 0 else None)
        for index, each in enumerate(long_tailed(18_000, 0.2))
    ]
    found = route([*hedged, *times(long_tailed(2_000), HOLDOUT, cost=USD)]).cost
    assert found.share == pytest.approx(0.05)
    assert found.measured_nanousd is not None
    assert found.measured_nanousd.value == pytest.approx(0.05 * USD)
    assert found.measured_seconds is not None
    price = found.measured_per_second
    assert price is not None
    assert price.value == pytest.approx(0.05 * USD / found.measured_seconds.value)
    assert price.interval is not None
    assert (price.interval.low or inf) < price.value < (price.interval.high or 0.0)
    nothing_saved = [*hedged, *times(long_tailed(2_000, 0.2), HOLDOUT, cost=USD)]
    assert route(nothing_saved).cost.measured_per_second is None


def dear_winners(dear: int, held: int | None = USD) -> list[Request]:
    """One hedged request in ten is won by a backup that costs `dear`, and loses an attempt for a cent."""
    hedged = [
        request(each, HEDGED, cost=dear, lost=USD // 100, hedge_won=True)
        if index % 10 == 0
        else request(each, HEDGED, cost=USD)
        for index, each in enumerate(long_tailed(18_000, 0.2))
    ]
    return [*hedged, *times(long_tailed(2_000), HOLDOUT, cost=held)]


def test_what_a_dearer_winner_costs_is_in_the_verdict_and_the_price_of_a_second() -> None:
    """Of 31 dollars for a win in ten the losers' share is a cent in forty; the bill is four times as high."""
    found = route(dear_winners(31 * USD))
    change, more = found.cost.measured_change, found.cost.measured_nanousd
    assert (found.cost.share or 0.0) < 0.001
    assert change is not None
    assert change.interval is not None
    assert change.value == pytest.approx(3.001)
    assert (change.interval.low or 0.0) < change.value < (change.interval.high or 0.0) < 3.3
    assert more is not None
    assert more.value == pytest.approx(3.001 * USD)
    assert found.verdict.word == "pays"
    assert "for 300 % more per request (95 % interval +" in found.verdict.text
    assert "$" in found.verdict.text.partition("interval")[2]
    assert "expensive" in names(found)
    assert dict(facts(found))["cost per request"].startswith("+300 %, $3.00, against those held out (+2")


def test_a_cheaper_winner_makes_hedging_cheaper() -> None:
    found = route(dear_winners(0))
    assert "for 9.9 % less per request" in found.verdict.text
    assert "each second saved" not in found.verdict.text
    assert "expensive" not in names(found)


def test_sides_whose_costs_are_not_known_are_not_compared_in_money() -> None:
    found = route(dear_winners(31 * USD, None)).cost
    assert (found.measured_change, found.measured_per_second, found.measured_seconds is None) == (None, None, False)


def test_money_that_is_saved_has_its_sign_first() -> None:
    found = [money(each) for each in (-USD // 20, USD // 20, -2_000 * USD, 0)]
    assert found == ["-$0.0500", "$0.0500", "-$2,000", "$0"]


# --- what is said of it ----------------------------------------------------------------------------------------------


def test_it_pays_where_the_interval_is_below_nothing() -> None:
    found = route(experiment(0.5)).verdict
    assert found.word == "pays"
    assert found.text.startswith("pays: p99 of the first token is ")


@pytest.mark.parametrize("cut", [1.0, 1.3])
def test_it_does_not_pay_where_a_cut_that_is_worth_it_can_be_ruled_out(cut: float) -> None:
    found = route(experiment(cut, 40_000, 40_000)).verdict
    assert found.word == "does_not_pay"
    assert ("so it is slower" in found.text) is (cut > 1.0)


def test_a_cut_that_is_certain_and_small_does_not_pay() -> None:
    assert route(experiment(0.98, 40_000, 40_000)).verdict.word == "does_not_pay"


def test_otherwise_more_requests_are_asked_for() -> None:
    found = route(experiment(0.96)).verdict
    assert (found.word, found.more_requests is not None) == ("not_enough_data", True)
    few = route(experiment(0.5, 900, 100)).verdict
    assert (few.word, few.more_requests) == ("not_enough_data", 9_000)  # 900 more held out, of one in ten
    assert "9,000 more requests" in few.text


def test_how_many_more_goes_by_the_width_of_the_interval() -> None:
    """With an error of `e` and a cut of `c`, the normal theory asks for ((1.96 + 0.84) e / c)² times as many."""
    error, cut = 0.1, 0.2
    low, high = (np.expm1(-cut + sign * Z * error) for sign in (-1, 1))
    found = more_requests(float(np.expm1(-cut)), Range(float(low), float(high)), 10_000)
    assert found == pytest.approx(10_000 * ((1.96 + 0.8416) * error / cut) ** 2 - 10_000, rel=0.02)
    assert more_requests(-0.2, Range(None, 0.1), 10_000) is None


def test_sides_of_the_wrong_size_are_no_comparison() -> None:
    found = route(experiment(0.5), Configured(0.05, None))
    assert (found.verdict.word, names(found)[0]) == ("no_verdict", "sample_mismatch")
    good = route(experiment(0.5), Configured(0.1, None))
    assert (good.verdict.word, good.mismatch) == ("pays", 1.0)


@pytest.mark.parametrize("arm", [HEDGED, HOLDOUT])
def test_one_side_alone_is_no_comparison(arm: Arm) -> None:
    found = route(times(long_tailed(2_000), arm))
    assert (found.verdict.word, p(found, 99.0).change) == ("no_verdict", None)


def test_where_most_fail_there_is_no_percentile() -> None:
    failed = [request(None, arm, outcome=Outcome.FAILED, failure=FailureClass.OVERLOADED) for arm in (HEDGED, HOLDOUT)]
    found = route([*experiment(0.5), *failed * 500])
    assert found.verdict.word == "not_enough_data"
    assert "no first token" in found.verdict.text


CASES: list[tuple[str, list[Request], Configured | None]] = [
    ("rare_wins", times([1.0] * 200, None, hedge_won=False), None),
    ("over_budget", times([1.0] * 200, None, hedge_won=True), Configured(0.0, 0.1, 50.0)),
    ("short_tail", times([1.0] * 200, None), None),
    ("budget_exhausted", times([1.0] * 200, None, skipped=Reason.BUDGET), None),
    ("throttled", times([1.0] * 200, None, skipped=Reason.OUTAGE), None),
    ("nothing_hedged", times([1.0] * 200, None, skipped=Reason.KILL_SWITCH), None),
    ("unpriced", times([1.0] * 5, None, cost=None), None),
    (
        "failures_differ",
        [
            *times(long_tailed(1_000), HOLDOUT),
            *times(long_tailed(1_000), HEDGED),
            *[request(None, HEDGED, outcome=Outcome.FAILED, failure=FailureClass.SERVER_ERROR)] * 100,
        ],
        None,
    ),
    (
        "clients_leave",
        [
            *times(long_tailed(1_000), HEDGED),
            *times(long_tailed(1_000), HOLDOUT),
            *[request(None, HOLDOUT, outcome=Outcome.CLIENT_GONE)] * 100,
        ],
        None,
    ),
    (
        "expensive",
        [
            *times(long_tailed(2_000), HOLDOUT, cost=USD),
            *times(long_tailed(2_000), HEDGED, cost=USD, lost=USD, hedge_won=True),
        ],
        None,
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "requests", "configured"), CASES, ids=[each[0] for each in CASES])
def test_advice(name: str, requests: list[Request], configured: Configured | None) -> None:
    assert name in names(route(requests, configured))


def test_where_all_is_well_there_is_no_advice() -> None:
    hedged = [
        request(each, HEDGED, hedge_won=True if index % 20 == 0 else None, cost=USD, lost=USD // 2)
        for index, each in enumerate(long_tailed(4_000, 0.5))
    ]
    held_out = times(long_tailed(1_000), HOLDOUT, cost=USD)
    assert names(route([*hedged, *held_out], Configured(0.2, 0.1, 50.0))) == []
