"""What `hedgerow probe` found, and what is done about it: targets.<name>.on_cancel_failure, server.probes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from hedgerow.events import Arm, CancelFailed, HedgeSkipped, Reason, RequestBilled, RequestStarted, Role
from hedgerow.policy.cancelling import Probed
from hedgerow.probe import store
from hedgerow.probe.result import Finding, Level, Phase, Result
from tests.effects.support import SILENT, WHOLE, Sent, Story, after, effect_of, every, settings, tell

KEY = "targets.<name>.on_cancel_failure"
FAILS = Probed(False, False, "streams (mid_stream): 400 tokens more; probed 2026-12-01", "2026-12-01")
ONLY_WHOLE = Probed(True, False, "whole answers: 400 tokens more; probed 2026-12-01", "2026-12-01")
WORKS = Probed(True, True, "the lab's log says so; probed 2026-12-01", "2026-12-01")
LATE = after(30.0)
DELAY = {"routes.fast.hedge.delay": "2s", "routes.fast.hedge.outage": {"max_tokens": 1000, "token_ratio": 1}}


NOTHING: Mapping[str, object] = {}
STREAMED = Sent()


def story(
    value: str,
    found: Mapping[str, Probed],
    changes: Mapping[str, object] = NOTHING,
    *,
    first: str = "a",
    sent: Sent = STREAMED,
) -> Story:
    """One request to `first`, which is late, with this value of the key at target `b`."""
    order = [first, *(each for each in "abc" if each != first)]
    told = {"targets.b.on_cancel_failure": value, "routes.fast.targets": order, **DELAY, **changes}
    return tell(settings(told), {first: LATE}, [sent], probed=found)


def hedges(told: Story) -> list[tuple[str, float]]:
    return [(target, at) for _, target, role, at in told.launches if role is Role.HEDGE]


@effect_of(KEY)
@pytest.mark.parametrize(
    ("value", "hedge"),
    [("warn", ("b", 2.0)), ("raise_delay", ("b", 4.0)), ("disable", ("c", 2.0))],
)
def test_a_hedge_to_a_target_that_goes_on_is_told_of_waits_longer_or_goes_elsewhere(
    key: str, value: str, hedge: tuple[str, float]
) -> None:
    told = story(value, {"b": FAILS})
    assert hedges(told) == [hedge]
    assert told.of(CancelFailed) == [CancelFailed("b", True, FAILS.detail, value, 0.0)]


@pytest.mark.parametrize(
    ("value", "hedge"),
    [("warn", ("a", 2.0)), ("raise_delay", ("a", 4.0)), ("disable", ("a", 2.0))],
)
def test_only_raise_delay_spares_the_first_attempt_of_a_target_that_goes_on(
    value: str, hedge: tuple[str, float]
) -> None:
    """What is asked there first is paid for in any case."""
    assert hedges(story(value, {"b": FAILS}, first="b")) == [hedge]


@pytest.mark.parametrize("order", ["acb", "abc", "bac"])
def test_one_target_of_several_that_gets_no_hedge_takes_nobody_out_of_the_experiment(order: str) -> None:
    changes = {**DELAY, "routes.fast.targets": list(order), "routes.fast.experiment": {"holdout": "50%"}}
    disabled = {"targets.b.on_cancel_failure": "disable", "routes.fast.hedge.budget": "off"}
    told = tell(settings({**changes, **disabled}), {order[0]: LATE}, every(40.0, 20), probed={"b": FAILS})
    arms = [each.arm for each in told.of(RequestStarted)]
    assert set(arms) == set(Arm)
    assert len(told.hedged()) == arms.count(Arm.HEDGED)


def test_where_none_gets_a_hedge_nobody_takes_part() -> None:
    changes = {**DELAY, "routes.fast.targets": ["a", "b"], "routes.fast.experiment": {"holdout": "50%"}}
    told = tell(
        settings({**changes, "targets.b.on_cancel_failure": "disable"}),
        {"a": LATE},
        every(40.0, 20),
        probed={"b": FAILS},
    )
    assert {each.arm for each in told.of(RequestStarted)} == {None}


def test_a_hedge_that_could_go_nowhere_else_is_refused_with_a_reason() -> None:
    told = story("disable", {"b": FAILS}, {"routes.fast.targets": ["a", "b"]})
    assert hedges(told) == []
    assert [(each.reason, each.detail) for each in told.of(HedgeSkipped)] == [
        (Reason.CANCEL_FAILURE, "b goes on when cancelled (on_cancel_failure: disable)")
    ]


def test_who_gets_no_hedge_is_still_there_when_an_attempt_fails() -> None:
    told = story("disable", {"b": FAILS}, {"routes.fast.targets": ["a", "b"], "routes.fast.timeouts.first_token": "5s"})
    assert [(target, role) for _, target, role, _ in told.launches] == [("a", Role.PRIMARY), ("b", Role.FAILOVER)]


@pytest.mark.parametrize("value", ["raise_delay", "disable"])
@pytest.mark.parametrize("found", [{}, {"b": WORKS}, {"b": Probed(None, None, "nobody can tell", "2026-12-01")}])
def test_nothing_is_done_about_a_target_of_which_nothing_bad_is_known(value: str, found: Mapping[str, Probed]) -> None:
    told = story(value, found)
    assert hedges(told) == [("b", 2.0)]
    assert told.of(CancelFailed) == []


@pytest.mark.parametrize(
    ("value", "sent", "hedge"),
    [
        ("disable", Sent(), ("b", 2.0)),
        ("disable", Sent(body=WHOLE), ("c", 2.0)),
        ("raise_delay", Sent(), ("b", 2.0)),
        ("raise_delay", Sent(body=WHOLE), ("b", 4.0)),
    ],
)
def test_where_only_whole_answers_go_on_streams_are_hedged_as_ever(
    value: str, sent: Sent, hedge: tuple[str, float]
) -> None:
    assert hedges(story(value, {"b": ONLY_WHOLE}, sent=sent)) == [hedge]


def test_a_raised_delay_keeps_to_max_delay_where_that_holds() -> None:
    learned = {
        "routes.fast.hedge.delay": "p95",
        "routes.fast.hedge.warmup.delay": "3s",
        "routes.fast.hedge.max_delay": "5s",
    }
    assert hedges(story("raise_delay", {"b": FAILS}, learned)) == [("b", 5.0)]


def test_a_race_asks_nobody_who_is_not_to_be_hedged_to() -> None:
    told = story("disable", {"b": FAILS}, {"routes.fast.hedge": {"mode": "race", "width": 2, "budget": "off"}})
    assert [target for _, target, role, _ in told.launches if role is Role.RACER] == ["c"]


def test_targets_in_turn_are_first_as_ever() -> None:
    told = {"targets.b.on_cancel_failure": "disable", "routes.fast.order": "rotate"}
    assert tell(settings(told), {}, every(1.0, 6), probed={"b": FAILS}).firsts() == "abcabc"


@pytest.mark.parametrize(
    ("found", "dearer"), [({}, False), ({"b": WORKS}, False), ({"b": FAILS}, True), ({"b": ONLY_WHOLE}, False)]
)
def test_a_loser_of_which_it_is_known_that_it_goes_on_is_reckoned_to_cost_all_of_its_answer(
    found: Mapping[str, Probed], dearer: bool
) -> None:
    """The same as `billed_on_cancel` would say, which goes before it."""

    def bill(changes: Mapping[str, object], found: Mapping[str, Probed]) -> int | None:
        priced = {"targets.b.price": {"input": 1, "output": 10}, "routes.fast.hedge.max_hedges": 1, **DELAY, **changes}
        told = tell(settings(priced), {"a": after(5.0), "b": SILENT}, [Sent()], probed=found)
        [billed] = told.of(RequestBilled)
        assert billed.bills[1].target == "b"
        return billed.bills[1].nanousd

    full, generated = (bill({"targets.b.billed_on_cancel": value}, {}) for value in ("full", "generated"))
    assert full is not None
    assert generated is not None
    assert full > generated
    assert bill({}, found) == (full if dearer else generated)
    assert bill({"targets.b.billed_on_cancel": "generated"}, found) == generated


@effect_of("server.probes")
def test_results_are_read_from_where_the_settings_say(key: str, tmp_path: Path) -> None:
    now = datetime(2026, 12, 1, tzinfo=UTC)
    beside, elsewhere = tmp_path / "prod.probes.json", tmp_path / "elsewhere.json"
    at = Result(
        at=now,
        base_url="http://a.example/v1",
        model="m",
        protocol="openai",
        witness="the lab's log",
        first_token=0.5,
        token_gap=0.01,
        findings=[Finding(phase=Phase.WHOLE, level=Level.CONFIRMED, stopped=False, tokens_after=7)],
    )
    store.write(beside, {"a": at})
    store.write(elsewhere, {"a": replace(at, findings=[])})
    config = tmp_path / "prod.yaml"
    assert store.file_of(settings({}), config) == beside
    assert store.file_of(settings({key: "elsewhere.json"}, folder=tmp_path), config) == elsewhere
    told = {where: store.probed(settings(), where, now)[0]["a"].whole for where in (beside, elsewhere)}
    assert told == {beside: False, elsewhere: None}
