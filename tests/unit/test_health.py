"""Which targets are out or have an open breaker, for how long, in which order the others are used, and what happens
when nobody is left."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import BreakerChanged, BreakerState, Failure, FailureClass, TargetTakenOut
from hedgerow.policy import health as health_module
from hedgerow.policy.breaker import PATIENCE, BreakerSettings
from hedgerow.policy.failures import blames_target
from hedgerow.policy.health import MAX_OUT, Health, Order, Watch
from hedgerow.policy.plan import Candidate

A, A2, B = Candidate("a", "key-a"), Candidate("a2", "key-a"), Candidate("b", "key-b")
EVERYONE = (A, A2, B)
X, Y, Z = Candidate("x", "key-x"), Candidate("y", "key-y"), Candidate("z", "key-z")
BOOM = Failure(FailureClass.SERVER_ERROR, "boom", 500)
ROW = BreakerSettings(failure_ratio=None, failures=3)
OPEN, HALF_OPEN, CLOSED = BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED


def watched(settings: BreakerSettings = ROW, *, per_model: bool = False) -> Health:
    return Health({name: Watch(settings, per_model) for name in ("x", "y", "z")})


def broken(*targets: tuple[Candidate, float]) -> Health:
    health = watched()
    for target, at in targets:
        break_down(health, target, at)
    return health


def break_down(health: Health, target: Candidate, at: float, model: str = "") -> None:
    for _ in range(3):
        health.failed(target, BOOM, at, at, model)


def places(order: Order) -> tuple[list[int], list[int], bool]:
    return list(order.usable), list(order.spare), order.broken


def limited(retry_after: float | None) -> Failure:
    return Failure(FailureClass.RATE_LIMITED, "slow down", 429, retry_after=retry_after)


def test_a_rate_limit_takes_out_every_target_of_its_account_for_retry_after() -> None:
    health = Health()
    event = health.failed(A, limited(7.0), 10.0)
    assert event == TargetTakenOut("a", FailureClass.RATE_LIMITED, "slow down", 10.0, 17.0)
    assert list(health.usable(EVERYONE, 16.999)) == [2]
    assert list(health.usable(EVERYONE, 17.0)) == [0, 1, 2]


def test_a_rate_limit_without_retry_after_takes_nobody_out() -> None:
    health = Health()
    assert health.failed(A, limited(None), 0.0) is None
    assert list(health.usable(EVERYONE, 0.0)) == [0, 1, 2]


def test_a_huge_retry_after_is_capped() -> None:
    health = Health()
    health.failed(A, limited(3600.0), 0.0)
    assert list(health.usable(EVERYONE, MAX_OUT)) == [0, 1, 2]


def test_a_missing_model_takes_out_its_target_only() -> None:
    health = Health()
    health.failed(A, Failure(FailureClass.UPSTREAM_MISSING_MODEL, "gone", 404), 0.0)
    assert list(health.usable(EVERYONE, 1.0)) == [1, 2]


@pytest.mark.parametrize("kind", [FailureClass.UPSTREAM_AUTH, FailureClass.QUOTA_EXHAUSTED], ids=str)
def test_a_refused_key_takes_out_its_account(kind: FailureClass) -> None:
    health = Health()
    assert health.failed(A, Failure(kind, "no", 401), 0.0) is not None
    assert list(health.usable(EVERYONE, 1.0)) == [2]


@pytest.mark.parametrize(
    "kind", [FailureClass.FATAL_REQUEST, FailureClass.SERVER_ERROR, FailureClass.TIMEOUT_FIRST_TOKEN], ids=str
)
def test_other_failures_take_nobody_out(kind: FailureClass) -> None:
    health = Health()
    assert health.failed(A, Failure(kind, "x", 500), 0.0) is None
    assert health.usable(EVERYONE, 0.0) == range(3)


def test_it_is_said_once_not_at_every_failure() -> None:
    health = Health()
    assert health.failed(A, Failure(FailureClass.UPSTREAM_AUTH, "no", 401), 0.0) is not None
    assert health.failed(A2, limited(1.0), 0.5) is None


def test_when_all_are_out_the_one_that_is_back_soonest_is_tried_first() -> None:
    health = Health()
    health.failed(A, limited(60.0), 0.0)
    health.failed(B, limited(5.0), 0.0)
    assert list(health.usable(EVERYONE, 1.0)) == [2, 0, 1]


def test_of_those_that_are_all_out_only_the_one_that_is_back_first_is_worth_a_try() -> None:
    health = Health({name: Watch(BreakerSettings(minimum=1, failure_ratio=0.1)) for name in ("a", "b")})
    health.failed(A, limited(60.0), 0.0)
    out = health.order([A, A2], 1.0)
    assert list(health.least_bad(out, [A, A2], 1.0).spare) == [0]
    health.failed(B, Failure(FailureClass.SERVER_ERROR, "x", 500), 1.0, 0.5)
    mixed = health.order(EVERYONE, 1.0)
    assert mixed.usable == []
    assert health.least_bad(mixed, EVERYONE, 1.0) is mixed  # its breaker may be wrong about B
    health.failed(B, limited(5.0), 1.0)
    assert list(health.least_bad(health.order(EVERYONE, 1.0), EVERYONE, 1.0).spare) == [2]


def test_a_good_answer_brings_a_target_back() -> None:
    health = Health()
    health.failed(A, limited(60.0), 0.0)
    health.recovered(A2)
    assert list(health.usable(EVERYONE, 1.0)) == [0, 1, 2]


def test_nobody_stays_in_the_books_once_back() -> None:
    health = Health()
    health.failed(A, limited(5.0), 0.0)
    assert health.out_until(A2, 4.0) == 5.0
    assert health.out_until(A2, 5.0) is None
    health.order(EVERYONE, 5.0)
    assert health.out == {}


def test_all_is_well_until_somebody_is_not() -> None:
    health = watched()
    assert health.order((X, Y, Z), 0.0) == Order(range(3))
    assert health.order((X,) * 50, 0.0) == Order(range(50))
    assert (health.allows(X, 0.0), health.launched(X, 0.0)) == ("yes", None)


def test_an_open_target_is_skipped_and_said_to_be_broken() -> None:
    health = watched()
    events = [health.failed(X, BOOM, 7.0, 6.0) for _ in range(3)]
    assert events == [None, None, BreakerChanged("x", "", OPEN, "3 failures in a row", 7.0, 37.0)]
    assert places(health.order((X, Y, Z), 36.9)) == ([1, 2], [0], True)
    assert (health.allows(X, 36.9), health.launched(X, 36.9)) == ("no", None)


def test_a_target_that_would_not_have_been_hedged_to_breaks_nothing() -> None:
    health = broken((Z, 0.0))
    assert places(health.order((X, Y, Z), 1.0)) == ([0, 1], [2], False)
    assert places(health.order((X, Z, Y), 1.0)) == ([0, 2], [1], True)
    assert places(health.order((X, Z), 1.0)) == ([0], [1], True)


def test_out_for_a_rate_limit_is_not_broken() -> None:
    health = watched()
    health.failed(X, limited(7.0), 0.0)
    assert places(health.order((X, Y, Z), 1.0)) == ([1, 2], [0], False)


def test_a_half_open_target_stands_behind_the_first_that_is_well() -> None:
    health = broken((X, 0.0))
    order = health.order((X, Y, Z), 30.0)
    assert (places(order), list(order.probes)) == (([1, 0, 2], [], False), [0])
    assert order.changed == [BreakerChanged("x", "", HALF_OPEN, "was open for 30 s", 30.0)]
    assert not health.order((X, Y, Z), 30.0).changed
    assert list(health.order((Y, Z, X), 30.0).usable) == [0, 1, 2]  # in its place, but not first
    assert list(health.order((X,), 30.0).usable) == [0]


def test_a_half_open_target_no_hedge_has_tried_gets_a_request_of_its_own() -> None:
    health = broken((X, 0.0))
    assert list(health.order((X, Y), 30.0 + PATIENCE - 0.1).usable) == [1, 0]
    assert list(health.order((X, Y), 30.0 + PATIENCE).usable) == [0, 1]
    probe = health.launched(X, 30.0 + PATIENCE)
    assert probe is not None
    assert places(health.order((X, Y), 35.1)) == ([1], [0], True)  # one at a time
    health.ended(probe)  # superseded
    assert list(health.order((X, Y), 35.2).usable) == [1, 0]


def test_good_probes_bring_it_back() -> None:
    health = broken((X, 0.0))
    for second in (30.0, 31.0, 32.0):
        probe = health.launched(X, second)
        assert probe is not None
        health.ended(probe)
        event = health.answered(X, second + 0.5, second)
    assert event == BreakerChanged("x", "", CLOSED, "3 good answers", 32.5)
    assert health.order((X, Y), 33.0) == Order(range(2))


def test_a_failed_probe_opens_it_again() -> None:
    health = broken((X, 0.0))
    event = health.failed(X, BOOM, 31.0, 30.0)
    assert event == BreakerChanged("x", "", OPEN, "a probe failed", 31.0, 76.0)


def test_a_half_open_target_that_is_out_is_no_probe() -> None:
    health = broken((X, 0.0))
    health.failed(X, limited(50.0), 0.0)
    order = health.order((X, Y), 30.0)
    assert (places(order), list(order.probes)) == (([1], [0], False), [])


def test_all_open_the_one_that_is_back_soonest_is_tried_first() -> None:
    health = broken((X, 5.0), (Y, 1.0), (Z, 3.0))
    order = health.order((X, Y, Z), 10.0)
    assert (places(order), list(order.best)) == (([], [1, 2, 0], True), [1, 2, 0])
    health.failed(Y, limited(100.0), 10.0)
    assert list(health.order((X, Y, Z), 10.0).best) == [2, 0, 1]


def test_all_open_good_answers_close_the_one_that_gave_them() -> None:
    health = broken((X, 0.0), (Y, 0.0))
    events = [health.answered(X, 1.5, 1.0) for _ in range(3)]
    assert [event.state for event in events if event is not None] == [CLOSED]
    assert places(health.order((X, Y), 2.0)) == ([0], [1], True)


def test_slow_first_tokens_open_it_and_slow_whole_answers_do_not() -> None:
    health = watched(BreakerSettings(slow_after=5.0, minimum=3))
    whole = [health.answered(X, 9.0, 0.0, stream=False) for _ in range(10)]
    streams = [health.answered(Y, 9.0, 0.0) for _ in range(3)]
    assert (any(whole), [event is not None for event in streams]) == (False, [False, False, True])


def test_a_total_limit_counts_as_slow_where_the_attempt_was() -> None:
    late = Failure(FailureClass.TIMEOUT_TOTAL, "late")
    health = watched(BreakerSettings(slow_after=5.0, minimum=3))
    assert not any(health.failed(X, late, 9.0, 8.0) for _ in range(10))  # launched just before
    assert [health.failed(X, late, 9.0, 0.0) is not None for _ in range(3)] == [False, False, True]
    assert health.breakers(9.0)["x", ""].why == "3 of the last 3 attempts took more than 5 s"


def test_a_total_limit_counts_as_failed_where_the_attempt_had_all_of_it() -> None:
    health = watched()
    late = Failure(FailureClass.TIMEOUT_TOTAL, "late")
    for _ in range(3):
        event = health.failed(X, late, 60.0, 0.0, stream=False, had_all_its_time=True)
    assert isinstance(event, BreakerChanged)


def test_models_of_clients_are_kept_apart_where_targets_pass_them_on() -> None:
    health = watched(per_model=True)
    break_down(health, X, 0.0, "m-1")
    assert places(health.order((X, Y), 1.0, "m-1")) == ([1], [0], True)
    assert places(health.order((X, Y), 1.0, "m-2")) == ([0, 1], [], False)
    assert [health.allows(X, 1.0, model) for model in ("m-1", "m-2")] == ["no", "yes"]

    health = watched()
    break_down(health, X, 0.0, "m-1")
    assert places(health.order((X, Y), 1.0, "m-2")) == ([1], [0], True)  # one model, whatever it is asked for as


def test_clients_cannot_make_it_keep_more_and_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health_module, "MOST_BREAKERS", 3)
    health = watched(per_model=True)
    break_down(health, X, 0.0, "broken")
    for index in range(10):
        health.answered(X, 1.0, 0.5, f"m-{index}")
    assert set(health.breakers(1.0)) == {("x", "broken"), ("x", "m-8"), ("x", "m-9")}
    for index in range(10):
        break_down(health, X, 1.0, f"bad-{index}")
    assert len(health.breakers(1.0)) == 3
    assert health.allows(X, 1.0, "broken") == "yes"  # forgotten at last
    assert health.allows(X, 1.0, "bad-9") == "no"


def test_a_reload_keeps_what_is_known_of_targets_that_stay() -> None:
    health = broken((X, 0.0), (Y, 0.0))
    health.failed(Z, limited(50.0), 0.0)
    health.watch({"x": Watch(BreakerSettings(open_for=1.0)), "z": Watch(ROW)})
    assert health.allows(X, 29.0) == "no"
    assert health.allows(Y, 29.0) == "yes"
    assert set(health.breakers(29.0)) == {("x", "")}
    assert places(health.order((X, Y, Z), 29.0)) == ([1], [0, 2], True)
    health.watch({"x": Watch(ROW, per_model=True)})  # what was counted together cannot be told apart
    assert health.allows(X, 29.0) == "yes"


def test_a_reload_changes_how_targets_are_judged() -> None:
    health = watched(BreakerSettings())
    health.failed(X, BOOM, 0.0, 0.0)
    health.watch({"x": Watch(BreakerSettings(failures=2))})
    assert health.failed(X, BOOM, 0.0, 0.0) is not None


def test_targets_that_are_not_watched_have_no_breaker() -> None:
    health = Health()
    assert not any(health.failed(X, BOOM, 0.0, 0.0) for _ in range(500))
    assert not any(health.answered(X, 0.0, 0.0) for _ in range(500))
    assert health.order((X, Y), 0.0) == Order(range(2))


@pytest.mark.parametrize(
    ("failure", "blamed"),
    [
        (Failure(FailureClass.FATAL_REQUEST, "bad", 400), False),
        (Failure(FailureClass.CONTENT_POLICY, "filtered", 400), False),
        (Failure(FailureClass.UPSTREAM_AUTH, "no", 401), False),
        (Failure(FailureClass.UPSTREAM_MISSING_MODEL, "gone", 404), False),
        (Failure(FailureClass.QUOTA_EXHAUSTED, "paid up", 429), False),
        (limited(7.0), False),
        (limited(None), True),
        (BOOM, True),
        (Failure(FailureClass.SERVER_ERROR, "an error frame", 500, body=b"{}", in_stream=True), True),
        (Failure(FailureClass.OVERLOADED, "busy", 529), True),
        (Failure(FailureClass.CONNECT, "refused", unsent=True), True),
        (Failure(FailureClass.PROTOCOL, "cut"), True),
        (Failure(FailureClass.EMPTY, "nothing came"), True),
        (Failure(FailureClass.EMPTY, "whole, with nothing in it", 200, body=b"{}"), False),
        (Failure(FailureClass.TIMEOUT_FIRST_TOKEN, "late"), True),
        (Failure(FailureClass.TIMEOUT_STALL, "silent"), True),
        (Failure(FailureClass.TIMEOUT_TOTAL, "late"), False),
        (Failure(FailureClass.GATE, "json: it does not parse"), True),
    ],
    ids=lambda value: f"{value.kind}: {value.message}" if isinstance(value, Failure) else None,
)
def test_whom_a_failure_blames(failure: Failure, blamed: bool) -> None:
    assert blames_target(failure) is blamed
    health = watched()
    changed = [isinstance(health.failed(X, failure, 0.0, 0.0), BreakerChanged) for _ in range(3)]
    assert changed == [False, False, blamed]


def test_twenty_bad_requests_open_nothing() -> None:
    health = watched(BreakerSettings(failures=5, slow_after=5.0, minimum=5))
    bad = Failure(FailureClass.FATAL_REQUEST, "bad", 400)
    assert not any(health.failed(X, bad, 9.0, 0.0) for _ in range(20))  # however slowly they were refused
    assert health.breakers(0.0) == {}


def test_thirty_lost_races_open_nothing() -> None:
    """Nobody is told of an attempt that was superseded, and as it was no probe there is no slot to give back."""
    health = watched(BreakerSettings(failures=5))
    for second in range(30):
        assert health.launched(X, second) is None
        health.answered(Y, second + 1.0, second + 0.5)
    health.answered(X, 31.0, 30.0)
    view = health.breakers(31.0)["x", ""]
    assert (view.state, view.failures, view.in_a_row) == (CLOSED, 0, 0)


steps = st.lists(
    st.tuples(
        st.sampled_from(["answered", "boom", "limited", "start", "superseded"]),
        st.sampled_from([X, Y, Z]),
        st.sampled_from([0.0, 0.5, 20.0, 40.0]),
    ),
    max_size=60,
)


@given(steps=steps)
def test_every_candidate_has_its_place_whatever_happens(steps: list[tuple[str, Candidate, float]]) -> None:
    health, now = watched(), 0.0
    probes = []
    for what, target, wait in steps:
        now += wait
        if what == "answered":
            health.answered(target, now, now)
        elif what == "boom":
            health.failed(target, BOOM, now, now)
        elif what == "limited":
            health.failed(target, limited(7.0), now, now)
        elif what == "start" and (probe := health.launched(target, now)) is not None:
            probes.append(probe)
        elif probes:
            health.ended(probes.pop())
        order = health.order((X, Y, Z), now)
        assert sorted([*order.usable, *order.spare]) == [0, 1, 2]
        assert set(order.probes) <= set(order.usable)
        for index, candidate in enumerate((X, Y, Z)):
            allows = health.allows(candidate, now)
            assert (index in order.usable) == (allows != "no" and health.out_until(candidate, now) is None)
            assert (index in order.probes) == (index in order.usable and allows == "probe")
        if len(order.usable) > len(order.probes) and order.usable[0] in order.probes:
            assert order.usable[0] == min(order.usable)  # it leads in its own place only
