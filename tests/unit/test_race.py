"""The race: who is launched when, who wins, what the client is told. All synchronous, all exact."""

from __future__ import annotations

from math import inf

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Reason, Role
from hedgerow.policy.commands import Cancel, Commit, Fail, Happened, Kind, Launch, Skip
from hedgerow.policy.plan import Candidate, Plan, Refusal
from hedgerow.policy.race import Race

A, B, C = (Candidate(name, name) for name in "abc")
PLAN = Plan(delay=2.0, first_token=20.0, total=60.0)


def fails(kind: FailureClass, status: int | None = None, retry_after: float | None = None) -> Failure:
    return Failure(kind, kind.value, status, body=b"{}" if status else None, retry_after=retry_after)


def started(plan: Plan = PLAN, candidates: tuple[Candidate, ...] = (A, B)) -> Race:
    race = Race(plan, candidates)
    assert race.start(0.0) == [Launch(0, 0, Role.PRIMARY)]
    return race


def test_a_fast_primary_wins_alone() -> None:
    race = started()
    assert race.wake_at == 2.0
    assert race.accepted(0, 1.0) == [Commit(0)]
    assert race.over
    assert race.winner == 0
    assert race.wake_at == inf


def test_a_slow_primary_is_hedged_at_the_delay_and_the_faster_answer_wins() -> None:
    race = started()
    assert race.tick(1.999) == ()
    assert race.tick(2.0) == [Launch(1, 1, Role.HEDGE)]
    assert race.accepted(1, 2.5) == [Cancel(0), Commit(1)]


def test_the_primary_may_still_win_after_its_hedge_started() -> None:
    race = started()
    race.tick(2.0)
    assert race.accepted(0, 2.5) == [Cancel(1), Commit(0)]


def test_the_first_of_two_answers_in_one_tick_wins_and_the_other_is_ignored() -> None:
    race = started()
    race.tick(2.0)
    assert race.accepted(1, 3.0) == [Cancel(0), Commit(1)]
    assert race.accepted(0, 3.0) == ()


def test_a_batch_is_taken_in_a_fixed_order_whatever_order_it_comes_in() -> None:
    batch = [
        Happened(Kind.TIME),
        Happened(Kind.FAILED, 1, fails(FailureClass.SERVER_ERROR, 500)),
        Happened(Kind.ACCEPTED, 0),
    ]
    for order in (batch, batch[::-1]):
        race = started()
        race.tick(2.0)
        assert race.step(22.0, order) == [Cancel(1), Commit(0)]


def test_a_failure_launches_the_next_target_at_once() -> None:
    race = started()
    assert race.failed(0, fails(FailureClass.SERVER_ERROR, 500), 0.3) == [Launch(1, 1, Role.FAILOVER)]
    assert race.accepted(1, 0.5) == [Commit(1)]


def test_launch_times_are_absolute_from_the_newest_launch() -> None:
    race = started(Plan(delay=2.0, max_attempts=3, max_hedges=2), (A, B, C))
    race.tick(2.0)
    assert race.wake_at == 4.0
    assert race.failed(0, fails(FailureClass.SERVER_ERROR, 500), 3.0) == [Launch(2, 2, Role.FAILOVER)]
    assert race.wake_at == inf  # three attempts: no more may follow


def test_an_ending_that_launches_nothing_moves_no_launch_time() -> None:
    race = started(Plan(delay=2.0, max_attempts=3, max_hedges=2), (A, B, Candidate("c", "b")))
    race.tick(2.0)
    assert race.failed(1, fails(FailureClass.RATE_LIMITED, 429), 3.0) == []
    assert race.wake_at == 4.0
    assert race.tick(4.0) == [Skip(Reason.TARGETS, "no other target to send it to")]


def test_an_error_never_beats_a_running_rival() -> None:
    race = started()
    race.tick(2.0)
    assert race.failed(1, fails(FailureClass.FATAL_REQUEST, 400), 2.1) == []
    assert race.accepted(0, 9.0) == [Commit(0)]


def test_a_fatal_request_ends_at_once_when_nobody_else_runs() -> None:
    race = started()
    failure = fails(FailureClass.FATAL_REQUEST, 400)
    assert race.failed(0, failure, 0.1) == [Fail(0, failure)]


def test_after_a_fatal_request_nothing_is_launched_any_more() -> None:
    """claude-code-hub's issue 1360: an error was of another class where a hedge ran."""
    race = started(Plan(delay=2.0, max_attempts=3, max_hedges=2), (A, B, C))
    race.tick(2.0)
    race.failed(1, fails(FailureClass.FATAL_REQUEST, 400), 2.1)
    assert race.tick(4.0) == [Skip(Reason.TARGETS, "no other target to send it to")]
    failure = fails(FailureClass.SERVER_ERROR, 500)
    (last,) = race.failed(0, failure, 5.0)
    assert last == Fail(1, fails(FailureClass.FATAL_REQUEST, 400))


@pytest.mark.parametrize(
    "kind", [FailureClass.RATE_LIMITED, FailureClass.QUOTA_EXHAUSTED, FailureClass.UPSTREAM_AUTH], ids=str
)
def test_a_refused_key_sends_the_request_to_other_keys_only(kind: FailureClass) -> None:
    same_key = Candidate("a2", "a")
    race = started(Plan(max_attempts=3), (A, same_key, B))
    assert race.failed(0, fails(kind, 429), 0.1) == [Launch(1, 2, Role.FAILOVER)]


def test_a_missing_model_rules_out_that_target_only() -> None:
    race = started(Plan(max_attempts=3), (A, A, Candidate("a2", "a")))
    assert race.failed(0, fails(FailureClass.UPSTREAM_MISSING_MODEL, 404), 0.1) == [Launch(1, 2, Role.FAILOVER)]


def test_a_first_token_timeout_cancels_the_attempt_and_starts_the_next() -> None:
    race = started(Plan(first_token=0.7, total=60.0))
    late = Failure(FailureClass.TIMEOUT_FIRST_TOKEN, "no first token within 0.7 s")
    assert race.tick(0.7) == [Cancel(0, late), Launch(1, 1, Role.FAILOVER)]
    assert race.wake_at == pytest.approx(1.4)
    assert race.tick(race.wake_at) == [Cancel(1, late), Fail(1, late)]


def test_each_attempt_has_its_own_first_token_timeout() -> None:
    race = started(Plan(delay=0.3, first_token=0.7))
    race.tick(0.3)
    late = Failure(FailureClass.TIMEOUT_FIRST_TOKEN, "no first token within 0.7 s")
    assert race.tick(0.7) == [Cancel(0, late)]
    assert race.tick(1.0) == [Cancel(1, late), Fail(1, late)]


def test_a_candidates_own_limit_takes_the_place_of_the_plans() -> None:
    quick, patient = Candidate("quick", "q", first_token=0.5), Candidate("patient", "p", first_token=9.0)

    def late(seconds: str) -> Failure:
        return Failure(FailureClass.TIMEOUT_FIRST_TOKEN, f"no first token within {seconds} s")

    race = started(Plan(max_hedges=0, max_attempts=3, first_token=2.0, total=60.0), (quick, patient, A))
    assert race.tick(0.5) == [Cancel(0, late("0.5")), Launch(1, 1, Role.FAILOVER)]
    assert race.wake_at == 9.5
    assert race.tick(9.5) == [Cancel(1, late("9")), Launch(2, 2, Role.FAILOVER)]
    assert race.tick(11.5) == [Cancel(2, late("2")), Fail(2, late("2"))]


def test_of_several_that_run_the_first_to_be_late_is_cancelled_first() -> None:
    race = started(Plan(delay=1.0, first_token=5.0), (Candidate("slow", "s", first_token=9.0), A))
    assert race.tick(1.0) == [Launch(1, 1, Role.HEDGE)]
    assert race.wake_at == 6.0
    assert [type(command) for command in race.tick(6.0)] == [Cancel]
    assert (race.running, race.wake_at) == ([0], 9.0)


def test_where_the_plan_has_no_first_token_limit_no_candidate_has_one() -> None:
    race = started(Plan(max_hedges=0, total=60.0), (Candidate("quick", "q", first_token=0.5), A))
    assert race.wake_at == 60.0


def test_the_total_limit_ends_everything_and_launches_nothing() -> None:
    race = started(Plan(delay=0.3, total=1.0))
    race.tick(0.3)
    late = Failure(FailureClass.TIMEOUT_TOTAL, "not answered within 1 s")
    assert race.tick(1.0) == [Cancel(0, late), Cancel(1, late), Fail(1, late)]


def test_a_client_that_leaves_cancels_everything() -> None:
    race = started()
    race.tick(2.0)
    assert race.client_gone(2.1) == [Cancel(0), Cancel(1)]
    assert race.accepted(0, 2.2) == ()
    assert race.tick(99.0) == ()


def test_a_guard_is_asked_when_the_hedge_is_due_and_its_reason_is_told_once() -> None:
    asked: list[tuple[Role, int, int, float]] = []

    def guard(role: Role, attempt: int, candidate: int, now: float) -> Refusal | None:
        asked.append((role, attempt, candidate, now))
        return Refusal(Reason.CLIENT_OPT_OUT, "x-hedgerow-hedge: off")

    race = Race(PLAN, (A, B), guard)
    race.start(0.0)
    assert race.tick(2.0) == [Skip(Reason.CLIENT_OPT_OUT, "x-hedgerow-hedge: off")]
    assert asked == [(Role.HEDGE, 1, 1, 2.0)]
    assert race.wake_at == 20.0


def test_a_refused_hedge_does_not_forbid_failover() -> None:
    race = Race(PLAN, (A, B), lambda role, *_: Refusal(Reason.CLIENT_OPT_OUT) if role is Role.HEDGE else None)
    race.start(0.0)
    race.tick(2.0)
    assert race.failed(0, fails(FailureClass.CONNECT), 3.0) == [Launch(1, 1, Role.FAILOVER)]


def test_a_guard_may_refuse_a_failover_too() -> None:
    race = Race(PLAN, (A, B), lambda role, *_: Refusal(Reason.BUDGET, "spent") if role is Role.FAILOVER else None)
    race.start(0.0)
    lost = fails(FailureClass.CONNECT)
    assert race.failed(0, lost, 1.0) == [Skip(Reason.BUDGET, "spent", Role.FAILOVER), Fail(0, lost)]


def test_a_hedge_goes_to_no_target_that_is_only_for_failures() -> None:
    race = Race(PLAN, (A, B), hedgeable=1)
    race.start(0.0)
    assert race.tick(2.0) == [Skip(Reason.TARGETS, "no other target to send it to")]
    assert race.failed(0, fails(FailureClass.CONNECT), 3.0) == [Launch(1, 1, Role.FAILOVER)]


class TestNotReplayable:
    """A request with side effects is sent again only when it certainly had none."""

    plan = Plan(delay=2.0, replayable=False)

    def test_it_is_not_hedged(self) -> None:
        assert started(self.plan).tick(2.0) == [Skip(Reason.SIDE_EFFECTS)]

    @pytest.mark.parametrize(
        "failure", [Failure(FailureClass.CONNECT, "refused", unsent=True), fails(FailureClass.SERVER_ERROR, 500)]
    )
    def test_it_fails_over_when_refused_or_never_sent(self, failure: Failure) -> None:
        assert started(self.plan).failed(0, failure, 0.1) == [Launch(1, 1, Role.FAILOVER)]

    @pytest.mark.parametrize(
        "kind",
        [FailureClass.CONNECT, FailureClass.PROTOCOL, FailureClass.TIMEOUT_FIRST_TOKEN, FailureClass.EMPTY],
    )
    def test_it_stays_put_when_its_fate_is_unknown(self, kind: FailureClass) -> None:
        assert started(self.plan).failed(0, fails(kind), 0.1) == [Fail(0, fails(kind))]

    def test_it_stays_put_after_an_error_inside_a_200(self) -> None:
        begun = Failure(FailureClass.RATE_LIMITED, "no", 429, in_stream=True)
        assert started(self.plan).failed(0, begun, 0.1) == [Fail(0, begun)]


def test_both_rate_limited_tells_the_shorter_wait() -> None:
    race = started()
    race.failed(0, fails(FailureClass.RATE_LIMITED, 429, 9.0), 0.1)
    shorter = fails(FailureClass.RATE_LIMITED, 429, 3.0)
    assert race.failed(1, shorter, 0.2) == [Fail(1, shorter)]


def test_a_single_target_is_never_hedged_and_says_so() -> None:
    race = started(Plan(delay=1.0), (A,))
    assert race.tick(1.0) == [Skip(Reason.TARGETS, "no other target to send it to")]


def test_a_race_without_candidates_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one candidate"):
        Race(PLAN, ())


def test_max_hedges_bounds_hedges_but_not_failovers() -> None:
    race = started(Plan(delay=1.0, max_hedges=1, max_attempts=3), (A, B, C))
    race.tick(1.0)
    assert race.wake_at == inf
    assert race.failed(0, fails(FailureClass.OVERLOADED, 529), 1.5) == [Launch(2, 2, Role.FAILOVER)]


times = st.floats(0, 5, allow_nan=False)
plans = st.builds(
    Plan,
    delay=st.one_of(times, st.just(inf)),
    max_hedges=st.integers(0, 3),
    max_attempts=st.integers(1, 4),
    first_token=st.one_of(st.floats(0.1, 5), st.just(inf)),
    total=st.floats(0.1, 20),
    replayable=st.booleans(),
    gate_wait=st.one_of(st.floats(0.1, 5), st.just(inf)),
    strict=st.booleans(),
)
failures = st.builds(
    Failure,
    kind=st.sampled_from(FailureClass),
    message=st.just("x"),
    status=st.one_of(st.none(), st.sampled_from([200, 400, 429, 500])),
    body=st.one_of(st.none(), st.just(b"{}")),
    retry_after=st.one_of(st.none(), st.floats(0, 10)),
)
happenings = st.one_of(
    st.builds(Happened, kind=st.just(Kind.ACCEPTED), attempt=st.integers(0, 4)),
    st.builds(
        Happened,
        kind=st.sampled_from([Kind.FAILED, Kind.REJECTED]),
        attempt=st.integers(0, 4),
        failure=failures,
        rank=st.integers(0, 2),
    ),
    st.builds(Happened, kind=st.sampled_from([Kind.TIME, Kind.TIME, Kind.TIME, Kind.CLIENT_GONE])),
)


@settings(max_examples=400)
@given(
    plan=st.builds(msgspec.structs.replace, plans, width=st.integers(1, 4)),
    candidates=st.lists(
        st.builds(Candidate, st.sampled_from("abc"), st.sampled_from("xy"), first_token=st.none() | st.floats(0.1, 5)),
        min_size=1,
        max_size=4,
    ),
    script=st.lists(
        st.tuples(times, st.lists(happenings, max_size=3), st.lists(st.integers(0, 4), max_size=2)), max_size=12
    ),
)
def test_whatever_happens_the_race_keeps_its_promises(
    plan: Plan, candidates: list[Candidate], script: list[tuple[float, list[Happened], list[int]]]
) -> None:
    race = Race(plan, candidates)
    now = 0.0
    commands = list(race.start(now))
    ended_by_itself: set[int] = set()
    for wait, batch, held in script:
        now += wait
        for attempt in held:
            race.held(attempt)
        for event in sorted(batch, key=lambda event: (event.kind.value, event.attempt)):
            was_over, running = race.over, set(race.running)
            fed = race.step(now, [event])
            assert not (was_over and fed)
            if event.kind is Kind.FAILED:
                ended_by_itself |= {event.attempt} & running
            commands += fed
    while not race.over:  # no more news: only time passes, and the race must come to its end
        assert now <= 21.0 + 60.0
        now = max(now, race.wake_at)
        commands += race.tick(now)

    launched = [c.attempt for c in commands if isinstance(c, Launch)]
    committed = [c.attempt for c in commands if isinstance(c, Commit)]
    cancelled = [c.attempt for c in commands if isinstance(c, Cancel)]
    failed = [c for c in commands if isinstance(c, Fail)]
    hedges = [c for c in commands if isinstance(c, Launch) and c.role is Role.HEDGE]
    assert launched == list(range(len(launched)))
    assert len(launched) <= plan.max_attempts
    assert len(hedges) <= plan.max_hedges
    assert len(committed) + len(failed) <= 1
    assert len(set(cancelled)) == len(cancelled)
    assert not set(cancelled) & set(committed)
    assert set(launched) == set(cancelled) | set(committed) | ended_by_itself
    if committed or failed:
        assert isinstance(commands[-1], Commit | Fail)
    assert plan.replayable or not [c for c in commands if isinstance(c, Launch) and c.role in (Role.HEDGE, Role.RACER)]
    assert race.running == []


@given(
    plan=plans,
    script=st.lists(st.tuples(times, st.lists(happenings, min_size=2, max_size=4)), max_size=8),
    data=st.data(),
)
def test_the_order_in_which_one_moments_events_arrive_changes_nothing(
    plan: Plan, script: list[tuple[float, list[Happened]]], data: st.DataObject
) -> None:
    one, other = Race(plan, (A, B, C)), Race(plan, (A, B, C))
    one.start(0.0)
    other.start(0.0)
    now = 0.0
    for wait, batch in script:
        now += wait
        unique = list({(e.kind, e.attempt): e for e in batch}.values())
        shuffled = data.draw(st.permutations(unique))
        assert one.step(now, unique) == other.step(now, shuffled)


@given(plan=plans, now=times, count=st.integers(1, 3))
def test_the_first_wake_up_is_known_before_the_race_is_set_up(plan: Plan, now: float, count: int) -> None:
    """The engine relies on it: it arms its timer first and makes a race only when there is something to decide."""
    race = Race(plan, (A, B, C)[:count])
    race.start(now)
    assert race.wake_at == min(now + plan.delay if plan.hedges else inf, now + plan.first_token, now + plan.total)
    assert race.wake_at == pytest.approx(now + plan.wakes_after)


def rejection(gate: str = "json") -> Failure:
    return Failure(FailureClass.GATE, f"gate {gate}")


class TestGates:
    """An answer that a gate rejected."""

    def test_it_waits_for_a_running_rival_that_is_better(self) -> None:
        race = started()
        race.tick(2.0)
        assert race.rejected(0, rejection(), 2.5) == []
        assert race.accepted(1, 4.0) == [Cancel(0), Commit(1)]
        assert race.winner == 1

    def test_with_nobody_running_the_next_target_starts_at_once(self) -> None:
        race = started()
        assert race.rejected(0, rejection(), 0.5) == [Launch(1, 1, Role.FAILOVER)]
        assert race.failed(1, fails(FailureClass.SERVER_ERROR, 500), 1.0) == [Commit(0)]

    def test_a_hedge_may_start_beside_one_that_waits(self) -> None:
        race = started(Plan(delay=2.0, max_hedges=2, max_attempts=3), (A, B, C))
        race.tick(2.0)
        race.rejected(1, rejection(), 2.5)
        assert race.tick(4.0) == [Launch(2, 2, Role.HEDGE)]

    def test_of_several_rejected_the_one_that_passed_most_gates_wins(self) -> None:
        for ranks, winner in (((0, 1), 1), ((1, 0), 0), ((1, 1), 0)):
            race = started()
            race.tick(2.0)
            race.rejected(0, rejection(), 2.5, ranks[0])
            assert race.rejected(1, rejection(), 3.0, ranks[1]) == [Cancel(1 - winner), Commit(winner)]
            assert race.winner == winner

    def test_it_waits_no_longer_than_gate_wait(self) -> None:
        race = started(Plan(delay=2.0, gate_wait=1.0))
        race.tick(2.0)
        race.rejected(0, rejection(), 2.5)
        assert race.wake_at == 3.5
        assert race.tick(3.5) == [Cancel(1), Commit(0)]
        assert race.over

    def test_the_wait_counts_from_the_first_rejection(self) -> None:
        race = started(Plan(delay=1.0, gate_wait=2.0, max_hedges=2, max_attempts=3), (A, B, C))
        race.tick(1.0)
        race.tick(2.0)
        race.rejected(0, rejection(), 2.5)
        race.rejected(1, rejection(), 3.5)
        assert race.tick(4.5) == [Cancel(1), Cancel(2), Commit(0)]

    def test_the_total_limit_ends_the_waiting_too(self) -> None:
        race = started(Plan(delay=2.0, total=10.0))
        race.tick(2.0)
        race.rejected(0, rejection(), 2.5)
        commands = race.tick(10.0)
        assert commands[-1] == Commit(0)
        assert [type(command) for command in commands] == [Cancel, Commit]

    def test_a_strict_plan_never_delivers_it(self) -> None:
        race = started(Plan(delay=2.0, gate_wait=1.0, strict=True))
        assert race.rejected(0, rejection(), 0.5) == [Cancel(0), Launch(1, 1, Role.FAILOVER)]
        assert race.rejected(1, rejection("schema"), 5.0) == [Cancel(1), Fail(1, rejection("schema"))]

    def test_strict_tells_of_the_gate_before_other_failures(self) -> None:
        race = started(Plan(delay=2.0, strict=True))
        race.tick(2.0)
        race.rejected(0, rejection(), 2.5)
        assert race.failed(1, fails(FailureClass.SERVER_ERROR, 500), 3.0) == [Fail(0, rejection())]

    def test_a_client_that_leaves_cancels_who_waits_too(self) -> None:
        race = started()
        race.tick(2.0)
        race.rejected(0, rejection(), 2.5)
        assert race.client_gone(3.0) == [Cancel(0), Cancel(1)]

    def test_what_must_not_take_effect_twice_is_delivered_at_once(self) -> None:
        race = started(Plan(replayable=False))
        assert race.rejected(0, rejection(), 0.5) == [Commit(0)]

    def test_a_batch_takes_answers_before_rejections(self) -> None:
        race = started()
        race.tick(2.0)
        batch = [Happened(Kind.REJECTED, 0, rejection(), 3), Happened(Kind.ACCEPTED, 1)]
        assert race.step(3.0, batch) == [Cancel(0), Commit(1)]


class TestWidth:
    """Attempts that are launched together."""

    def test_so_many_start_together(self) -> None:
        race = Race(Plan(width=2, max_attempts=3), (A, B, C))
        assert race.start(0.0) == [Launch(0, 0, Role.PRIMARY), Launch(1, 1, Role.RACER)]
        assert race.accepted(1, 0.5) == [Cancel(0), Commit(1)]

    def test_a_failure_in_a_race_launches_the_next(self) -> None:
        race = Race(Plan(width=2, max_attempts=3), (A, B, C))
        race.start(0.0)
        assert race.failed(0, fails(FailureClass.SERVER_ERROR, 500), 0.1) == [Launch(2, 2, Role.FAILOVER)]

    def test_guards_are_asked_for_each_racer(self) -> None:
        no = Refusal(Reason.BUDGET, "spent")
        race = Race(Plan(width=2), (A, B), lambda role, *_: no if role is Role.RACER else None)
        assert race.start(0.0) == [Launch(0, 0, Role.PRIMARY), Skip(Reason.BUDGET, "spent", Role.RACER)]

    def test_what_must_not_take_effect_twice_is_not_raced(self) -> None:
        race = Race(Plan(width=2, replayable=False), (A, B))
        assert race.start(0.0) == [Launch(0, 0, Role.PRIMARY), Skip(Reason.SIDE_EFFECTS, role=Role.RACER)]

    def test_no_more_race_than_there_are_targets(self) -> None:
        race = Race(Plan(width=4, max_attempts=4), (A, B))
        commands = race.start(0.0)
        assert [type(command) for command in commands] == [Launch, Launch, Skip, Skip]


def test_an_attempt_that_is_held_for_its_gates_is_neither_late_nor_hedged() -> None:
    race = started()
    race.held(0)
    assert list(race.tick(2.0)) == []
    assert list(race.tick(20.0)) == []
    assert race.accepted(0, 59.0) == [Commit(0)]


def test_a_held_attempt_does_not_stop_the_hedge_of_a_newer_one() -> None:
    race = started(msgspec.structs.replace(PLAN, max_hedges=2, max_attempts=3), (A, B, C))
    race.tick(2.0)
    race.held(0)
    assert race.tick(4.0) == [Launch(2, 2, Role.HEDGE)]


def test_a_held_attempt_that_is_rejected_sends_the_next_off_at_once() -> None:
    race = started()
    race.held(0)
    assert race.rejected(0, fails(FailureClass.GATE), 3.0) == [Launch(1, 1, Role.FAILOVER)]


def test_holding_says_nothing_of_a_race_that_is_over() -> None:
    race = started()
    race.accepted(0, 1.0)
    race.held(0)
    assert race.wake_at == inf
