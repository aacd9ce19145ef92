"""When a breaker opens, what it lets through while it is not closed, and what closes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from hedgerow.events import BreakerState
from hedgerow.policy.breaker import PATIENCE, Breaker, BreakerSettings

CLOSED, OPEN, HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN
ROW = BreakerSettings(failure_ratio=None, failures=3)


def opened(settings: BreakerSettings = ROW, at: float = 0.0) -> Breaker:
    breaker = Breaker(settings)
    assert [breaker.record(False, False, at) for _ in range(3)] == [False, False, True]
    return breaker


def test_it_opens_at_the_ratio_and_not_before_the_minimum() -> None:
    breaker = Breaker(BreakerSettings(minimum=20))
    for second in range(10):
        assert not breaker.record(True, False, second)
    for second in range(10, 19):
        assert not breaker.record(False, False, second)
    assert breaker.state(18.0) is CLOSED
    assert breaker.record(False, False, 19.0)
    assert (breaker.state(19.0), breaker.why) == (OPEN, "10 of the last 20 attempts failed")
    assert breaker.until == 49.0


def test_results_older_than_the_window_do_not_count() -> None:
    breaker = Breaker(BreakerSettings(minimum=4, window=60.0))
    for _ in range(3):
        breaker.record(False, False, 0.0)
    assert not breaker.record(False, False, 60.0)  # the three are just too old
    assert breaker.view(60.0).failures == 1


def test_results_beyond_the_count_do_not_count() -> None:
    breaker = Breaker(BreakerSettings(minimum=10, count=10))
    for _ in range(1_000):
        breaker.record(True, False, 0.0)
    assert [breaker.record(False, False, 1.0) for _ in range(5)] == [False] * 4 + [True]


def test_failures_in_a_row_are_a_condition_of_their_own() -> None:
    breaker = Breaker(ROW)
    for ok in (False, False, True, False, False):
        assert not breaker.record(ok, False, 0.0)
    assert breaker.record(False, False, 1.0)
    assert breaker.why == "3 failures in a row"


def test_slow_answers_open_it_only_where_slow_is_said_to_be_something() -> None:
    for slow_after, opens in ((None, False), (5.0, True)):
        breaker = Breaker(BreakerSettings(slow_ratio=0.5, slow_after=slow_after, minimum=4))
        results = [breaker.record(True, slow, 0.0) for slow in (False, False, True, True)]
        assert results == [False, False, False, opens]
        assert breaker.why == ("2 of the last 4 attempts took more than 5 s" if opens else "")


def test_with_every_condition_off_it_never_opens() -> None:
    breaker = Breaker(BreakerSettings(failure_ratio=None))
    assert not any(breaker.record(False, True, second) for second in range(500))


def test_open_lets_nothing_through_until_it_is_half_open() -> None:
    breaker = opened()
    assert (breaker.allows(29.9), breaker.state(29.9), breaker.wake(29.9)) == ("no", OPEN, False)
    assert (breaker.allows(30.0), breaker.state(30.0), breaker.wake(30.0)) == ("probe", HALF_OPEN, True)
    assert breaker.why == "was open for 30 s"
    assert not breaker.wake(30.1)  # that is said once


def test_a_probe_at_a_time_and_three_good_ones_close_it() -> None:
    breaker = opened()
    for second in (30.0, 31.0, 32.0):
        assert breaker.allows(second) == "probe"
        ticket = breaker.probe_started(second)
        assert breaker.allows(second) == "no"
        breaker.probe_ended(ticket)
        assert breaker.record(True, False, second + 0.5, second) is (second == 32.0)
    assert (breaker.state(33.0), breaker.allows(33.0), breaker.why) == (CLOSED, "yes", "3 good answers")
    assert breaker.view(33.0).results == 0  # it starts afresh


def test_a_failed_probe_opens_it_again_for_twice_as_long_up_to_the_most() -> None:
    breaker = opened(replace(ROW, open_at_most=100.0))
    now, lengths = 0.0, [breaker.until]
    for _ in range(3):
        now = breaker.until
        assert breaker.record(False, False, now, now)
        assert (breaker.why, breaker.state(now)) == ("a probe failed", OPEN)
        lengths.append(breaker.until - now)
    assert lengths == [30.0, 60.0, 100.0, 100.0]


def test_good_probes_before_a_bad_one_are_forgotten() -> None:
    breaker = opened()
    outcomes = [breaker.record(ok, False, 30.0, 30.0) for ok in (True, True, False)]
    assert outcomes == [False, False, True]
    assert [breaker.record(True, False, 100.0, 100.0) for _ in range(3)] == [False, False, True]


@pytest.mark.parametrize(("closed_for", "length"), [(59.0, 45.0), (60.0, 30.0)])
def test_who_was_closed_for_a_window_starts_with_short_openings_again(closed_for: float, length: float) -> None:
    breaker = opened()
    for _ in range(3):
        breaker.record(True, False, 30.0, 30.0)
    for _ in range(3):
        breaker.record(False, False, 30.0 + closed_for, 30.0 + closed_for)
    assert breaker.until - (30.0 + closed_for) == length


def test_a_slow_probe_is_bad_only_where_slow_is_said_to_be_something() -> None:
    for slow_after, state in ((None, HALF_OPEN), (5.0, OPEN)):
        breaker = opened(replace(ROW, slow_after=slow_after))
        breaker.record(True, True, 36.0, 30.0)
        assert breaker.state(36.0) is state


def test_a_probe_that_says_nothing_gives_its_slot_back_and_changes_nothing() -> None:
    breaker = opened()
    ticket = breaker.probe_started(30.0)
    breaker.probe_ended(ticket)
    breaker.probe_ended(ticket)
    view = breaker.view(31.0)
    assert (view.state, view.probes, breaker.allows(31.0)) == (HALF_OPEN, 0, "probe")


def test_a_probe_that_hangs_holds_its_slot_for_no_longer_than_open_for() -> None:
    breaker = opened()
    hanging = breaker.probe_started(30.0)
    assert (breaker.allows(59.9), breaker.allows(60.0)) == ("no", "probe")
    breaker.probe_started(60.0)
    breaker.probe_ended(hanging)  # it gives back its own slot only
    assert breaker.allows(61.0) == "no"


def test_what_was_launched_before_the_last_change_is_old_news() -> None:
    breaker = opened(at=10.0)
    assert not breaker.record(False, False, 50.0, 9.0)  # half-open: a straggler of the outage
    for _ in range(5):
        assert not breaker.record(True, False, 50.0, 9.0)
    assert breaker.state(50.0) is HALF_OPEN
    for _ in range(3):
        breaker.record(True, False, 50.0, 50.0)
    for _ in range(5):
        assert not breaker.record(False, False, 51.0, 49.0)  # closed: a straggler too
    assert breaker.view(51.0).failures == 0


def test_good_answers_close_it_even_while_open_since_somebody_had_to_be_tried() -> None:
    breaker = opened()
    assert [breaker.record(True, False, 1.0, 0.5) for _ in range(3)] == [False, False, True]
    assert breaker.state(1.0) is CLOSED


def test_failures_while_open_keep_it_open_for_no_longer() -> None:
    breaker = opened()
    for second in range(1, 30):
        assert not breaker.record(False, False, second, second)
    assert breaker.until == 30.0


def test_a_failure_while_open_undoes_the_good_answers_before_it() -> None:
    breaker = opened()
    assert not any(breaker.record(ok, False, 1.0, 0.5) for ok in (True, True, False, True, True))
    assert breaker.record(True, False, 1.0, 0.5)


def test_whoever_asks_for_long_openings_gets_them() -> None:
    assert opened(BreakerSettings(failures=3, open_for=60.0)).until == 60.0


def test_a_half_open_target_waits_for_a_hedge_then_leads_ever_more_rarely() -> None:
    """httpx-hedged's breaker holds back hedges only: requests go on to a target that is known to be down."""
    breaker = opened()
    leading, now = [], 30.0
    while now < 130.0:
        if breaker.leads(now):
            leading.append(now)
            breaker.probe_ended(breaker.probe_started(now))  # overtaken: no verdict
        now += 0.5
    assert leading == [30.0 + PATIENCE, 40.0, 50.0, 70.0, 100.0]


def test_it_is_patient_anew_each_time_it_opens() -> None:
    breaker = opened()
    for second in (35.0, 40.0, 50.0):
        breaker.probe_started(second)
    breaker.record(False, False, 50.0, 50.0)
    breaker.probe_started(breaker.until + PATIENCE)
    assert breaker.leads(breaker.until + 2.0 * PATIENCE)


def test_after_a_good_probe_it_leads_again_at_once() -> None:
    breaker = opened()
    breaker.probe_ended(breaker.probe_started(35.0))
    assert not breaker.leads(36.0)
    breaker.record(True, False, 36.0, 35.0)
    assert breaker.leads(36.0)


def test_other_settings_leave_state_and_results() -> None:
    breaker = opened()
    breaker.reconfigure(BreakerSettings(open_for=1.0))
    assert (breaker.state(29.0), breaker.until) == (OPEN, 30.0)

    breaker = Breaker(BreakerSettings())
    for _ in range(50):
        breaker.record(True, False, 0.0)
    breaker.reconfigure(BreakerSettings(minimum=5, count=10))
    assert [breaker.record(False, False, 0.0) for _ in range(5)] == [False] * 4 + [True]


def test_fewer_results_are_kept_with_a_smaller_count() -> None:
    breaker = Breaker(BreakerSettings(slow_after=1.0))
    for ok, slow in [(False, False)] * 5 + [(True, True)] * 3 + [(False, True)] + [(True, False)] * 8:
        breaker.record(ok, slow, 0.0)
    breaker.reconfigure(BreakerSettings(slow_after=1.0, minimum=5, count=12))
    view = breaker.view(0.0)
    assert (view.results, view.failures, view.slow) == (12, 1, 4)


@given(st.lists(st.tuples(st.sampled_from([0.0, 1.0, 30.0]), st.booleans(), st.booleans()), max_size=60))
def test_it_counts_what_its_window_holds(results: list[tuple[float, bool, bool]]) -> None:
    breaker = Breaker(BreakerSettings(failure_ratio=None, slow_after=None, count=5, minimum=5))
    now, seen = 0.0, []
    for later, ok, slow in results:
        now += later
        breaker.record(ok, slow, now)
        seen.append((now, ok, slow))
    held = [(ok, slow) for at, ok, slow in seen[-5:] if at > now - 60.0]
    view = breaker.view(now)
    failed, slow_ones = sum(not ok for ok, _ in held), sum(slow for _, slow in held)
    assert (view.results, view.failures, view.slow) == (len(held), failed, slow_ones)


@pytest.mark.parametrize(
    "wrong",
    [
        {"failure_ratio": 0.0},
        {"failure_ratio": 1.1},
        {"slow_ratio": 0.0},
        {"slow_after": 0.0},
        {"failures": 0},
        {"minimum": 0},
        {"minimum": 101},
        {"window": 0.0},
        {"open_for": float("inf")},
        {"open_at_most": 0.0},
        {"probes": 0},
        {"successes": 0},
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        BreakerSettings(**wrong)


results = st.lists(st.tuples(st.floats(0.0, 30.0), st.booleans(), st.booleans()), max_size=120)
SMALL = BreakerSettings(slow_ratio=0.75, slow_after=1.0, minimum=5, count=12, window=60.0)


@given(results=results)
def test_it_opens_exactly_when_the_definition_says_so(results: list[tuple[float, bool, bool]]) -> None:
    breaker, now, seen = Breaker(SMALL), 0.0, []
    for wait, ok, slow in results:
        now += wait
        seen.append((now, ok, slow))
        window = [one for one in seen if one[0] > now - SMALL.window][-SMALL.count :]
        failed, late = sum(not ok for _, ok, _ in window), sum(slow for _, _, slow in window)
        must_open = (
            (not ok or slow)  # nothing opens at a good result
            and len(window) >= SMALL.minimum
            and (failed >= 0.5 * len(window) or late >= 0.75 * len(window))
        )
        assert breaker.record(ok, slow, now) is must_open
        if must_open:
            return
        view = breaker.view(now)
        assert (view.results, view.failures, view.slow) == (len(window), failed, late)


@given(results=st.lists(st.booleans(), max_size=200), minimum=st.integers(2, 50))
def test_it_never_opens_below_the_minimum(results: list[bool], minimum: int) -> None:
    breaker = Breaker(BreakerSettings(minimum=minimum))
    for index, ok in enumerate(results, 1):
        if breaker.record(ok, False, 0.0):
            assert index >= minimum
            return


@dataclass
class Attempt:
    launched_at: float
    ticket: int | None


class BreakerMachine(RuleBasedStateMachine):
    """Attempts come and go in every way; whoever asks first is launched."""

    SETTINGS = BreakerSettings(failure_ratio=0.5, minimum=4, failures=3, probes=2, successes=2, open_for=10.0)

    def __init__(self) -> None:
        super().__init__()
        self.breaker = Breaker(self.SETTINGS)
        self.now = 0.0
        self.running: list[Attempt] = []

    @rule(seconds=st.sampled_from([0.0, 0.1, 1.0, 9.9, 10.0, 50.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def launch(self) -> None:
        self.breaker.wake(self.now)
        allows = self.breaker.allows(self.now)
        assert (allows == "yes") == (self.breaker.state(self.now) is CLOSED)
        if allows != "no":
            ticket = self.breaker.probe_started(self.now) if allows == "probe" else None
            self.running.append(Attempt(self.now, ticket))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), how=st.sampled_from(["good", "bad", "superseded"]))
    def end(self, data: st.DataObject, how: str) -> None:
        attempt = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        if attempt.ticket is not None:
            self.breaker.probe_ended(attempt.ticket)
        before = self.breaker.state(self.now)
        changed = how != "superseded" and self.breaker.record(how == "good", False, self.now, attempt.launched_at)
        after = self.breaker.state(self.now)
        assert changed == (before is not after)
        if how == "good":
            assert after in (before, CLOSED)
        elif how == "bad":
            assert after in (before, OPEN)

    @invariant()
    def probes_are_bounded_and_those_that_run(self) -> None:
        held = [a for a in self.running if a.ticket is not None and a.launched_at > self.now - self.SETTINGS.open_for]
        assert self.breaker.view(self.now).probes == len(held) <= self.SETTINGS.probes

    def teardown(self) -> None:
        for attempt in self.running:
            if attempt.ticket is not None:
                self.breaker.probe_ended(attempt.ticket)
        later = self.now + 1_000.0
        assert self.breaker.view(later).probes == 0
        assert self.breaker.allows(later) != "no"  # whatever happened, it is tried again
        for _ in range(2):
            self.breaker.record(True, False, later, later)
        assert self.breaker.state(later) is CLOSED


TestBreaker = BreakerMachine.TestCase
