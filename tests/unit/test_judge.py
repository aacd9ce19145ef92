"""The judgement of one route by itself: no sequence of events gets past its caps, and nothing of a request stays."""

from __future__ import annotations

from fractions import Fraction
from math import inf

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.events import (
    AttemptEnded,
    Failure,
    FailureClass,
    FirstToken,
    Outcome,
    Reason,
    RequestBilled,
    Role,
    Usage,
    UsageSource,
)
from hedgerow.policy.account import Limits
from hedgerow.policy.ask import EXPECTED_OUTPUT, Ask
from hedgerow.policy.billing import bills
from hedgerow.policy.budget import Share
from hedgerow.policy.judge import Judge, Shared
from hedgerow.policy.order import Fastest
from hedgerow.policy.outage import ThrottleSettings
from hedgerow.policy.plan import Candidate, Refusal
from hedgerow.policy.price import Price
from hedgerow.policy.rules import Choice
from hedgerow.policy.settings import Conditions, Policy
from hedgerow.policy.spend import Funds
from hedgerow.policy.terms import Listed, OnCancel, Terms

A, B = Candidate("a", "one"), Candidate("b", "two")
AFTER_2S = Choice(2.0, 1.0, "fixed")
UNSENT = Failure(FailureClass.CONNECT, "refused", unsent=True)
SENT = Failure(FailureClass.SERVER_ERROR, "broken", status=500)
DAY = 1_000_000
"""A budget in nano-dollars that a few dozen attempts spend."""


def judge_of(policy: Policy, draw: float = 0.0, funds: Funds | None = None, **prices: Price) -> Judge:
    judge = Judge(
        "fast", policy, Shared(lambda: draw, funds=funds, terms={name: Terms(price) for name, price in prices.items()})
    )
    judge.knows([A, B])
    return judge


def ended(
    ask: Ask,
    role: Role,
    outcome: Outcome,
    now: float,
    *,
    attempt: int = 1,
    failure: Failure | None = None,
    usage: Usage | None = None,
    target: str = "b",
    launched_at: float | None = None,
) -> AttemptEnded:
    times = now - 1.0 if launched_at is None else launched_at, None, None, now
    return AttemptEnded(
        ask.request_id,
        attempt,
        target,
        role,
        outcome,
        *times,
        failure.status if failure is not None and outcome is Outcome.FAILED else 200,
        0,
        failure,
        usage,
        ask.stream,
        ask.input_tokens,
        sent_at=times[0],
        output_limit=ask.max_output_tokens,
    )


def won(ask: Ask, role: Role, now: float, *, attempt: int = 0, target: str = "a", took: float = 1.0) -> FirstToken:
    return FirstToken(ask.request_id, attempt, target, role, now - took, now, ask.stream, ask.input_tokens)


def hedge(judge: Judge, ask: Ask, now: float, choice: Choice = AFTER_2S, attempt: int = 1) -> Refusal | None:
    return judge.may(ask, choice, Role.HEDGE, attempt, A, B, now)


# --- the caps --------------------------------------------------------------------------------------------------------

ENDS = st.sampled_from(
    [
        (Outcome.WON, None, None),
        (Outcome.WON, None, Usage(100, 30)),
        (Outcome.SUPERSEDED, None, None),
        (Outcome.SUPERSEDED, None, Usage(None, 3)),
        (Outcome.CLIENT_GONE, None, None),
        (Outcome.FAILED, SENT, None),
        (Outcome.FAILED, UNSENT, None),
        (Outcome.FAILED_AFTER_COMMIT, SENT, None),
        None,  # no end is ever told
    ]
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from([Role.HEDGE, Role.HEDGE, Role.FAILOVER, None]),
        st.integers(1, 3),  # attempts asked for
        ENDS,
        st.sampled_from([0.0, 0.001, 1.0, 61.0, 4000.0]),
        st.booleans(),  # whether the configuration is read again
    ),
    max_size=120,
)


@given(
    steps=STEPS,
    share=st.sampled_from([0.0, 0.05, 0.333333, 1.0]),
    burst=st.sampled_from([1.0, 3.5, 10.0]),
    per_minute=st.sampled_from([0.5, 1.0, 7.0]),
    shadow=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_no_sequence_of_events_gets_past_the_caps(
    steps: list[tuple[Role | None, int, tuple[Outcome, Failure | None, Usage | None] | None, float, bool]],
    share: float,
    burst: float,
    per_minute: float,
    *,
    shadow: bool,
) -> None:
    limits = Limits(Share(share, burst, per_minute), Share(share, burst, per_minute), nanousd_per_day=DAY)
    policy = Policy(delay=2.0, limits=limits, shadow=shadow)
    judge = judge_of(policy, b=Price(1_000_000, 100_000_000))
    now, requests, spent = 0.0, 0, {Role.HEDGE: 0, Role.FAILOVER: 0}
    paid: list[tuple[float, int]] = []
    for number, (role, attempts, end, pause, reload) in enumerate(steps):
        ask = Ask(f"r-{number}", True, 100, 30, now)
        judge.arrived(ask, now)
        requests += 1
        for attempt in range(1, attempts + 1) if role is not None else ():
            assert role is not None
            refusal = judge.may(ask, AFTER_2S, role, attempt, A, B, now)
            if refusal is not None and refusal.reason is not Reason.SHADOW:
                assert refusal.reason is Reason.BUDGET
                continue
            spent[role] += 1
            sent = end is None or end[1] is not UNSENT
            if end is not None and refusal is None:
                outcome, failure, usage = end
                judge.over(ended(ask, role, outcome, now, attempt=attempt, failure=failure, usage=usage))
                spent[role] -= not sent
            paid.append((now, 3_100 if sent else 0))
        judge.finished(ask.request_id, attempts + 1, now)
        minutes = Fraction(int(now * 1_000_000), 60_000_000)
        cap = Fraction(str(burst)) + Fraction(str(share)) * requests + Fraction(str(per_minute)) * minutes
        assert spent[Role.HEDGE] <= cap
        assert spent[Role.FAILOVER] <= cap
        assert judge.spend.state(now)["route"]["nanousd"]["day"]["spent"] <= DAY
        assert (len(judge._lessons), judge.spend.state(now)["open"]) == (0, 0)
        now += pause
        if reload:
            judge.change(msgspec.structs.replace(policy, min_delay=now), now)


def test_a_thousand_reservations_at_once_are_exact() -> None:
    funds = Funds(Limits(nanousd_per_day=777 * 600), Limits(Share(1.0, 300.0)))
    judge = judge_of(Policy(delay=2.0, limits=Limits(Share(1.0, 1e6))), funds=funds, b=Price(request=600))
    asks = [Ask(f"r-{number}", True, tenant=f"t{number % 4}") for number in range(1000)]
    for ask in asks:
        judge.arrived(ask, 0.0)
    refusals = [hedge(judge, ask, 2.0) for ask in asks]
    assert sum(refusal is None for refusal in refusals) == 777
    for ask, refusal in zip(asks, refusals, strict=True):
        if refusal is None:
            judge.over(ended(ask, Role.HEDGE, Outcome.FAILED, 3.0, failure=UNSENT))
    assert judge.spend.state(3.0)["global"]["nanousd"]["day"]["spent"] == 0
    assert sum(hedge(judge, ask, 4.0) is None for ask in asks) == 777


# --- what an attempt costs -------------------------------------------------------------------------------------------

PRICED = Policy(delay=2.0, limits=Limits(Share(0.1, 10.0), Share(0.1, 10.0), nanousd_per_day=10**12))


@pytest.mark.parametrize("role", [Role.HEDGE, Role.FAILOVER])
@pytest.mark.parametrize("billed", [True, False])
@pytest.mark.parametrize(
    ("outcome", "failure", "usage", "tokens"),
    [
        (Outcome.WON, None, Usage(90, 20), 90 + 2 * 20),
        (Outcome.WON, None, None, 100 + 2 * 50),  # not known: what was reserved stands
        (Outcome.SUPERSEDED, None, None, 100),  # its prompt was read, and nothing came
        (Outcome.SUPERSEDED, None, Usage(90, 7), 90 + 2 * 7),
        (Outcome.WON, None, Usage(90, 20, source=UsageSource.ESTIMATED), 100 + 2 * 50),  # a guess gives nothing back
        (Outcome.KEPT, None, Usage(90, 20, source=UsageSource.ESTIMATED), 100 + 2 * 50),
        (Outcome.SUPERSEDED, None, Usage(90, 7, source=UsageSource.ESTIMATED), 90 + 2 * 7),
        (Outcome.CLIENT_GONE, None, Usage(90, 7, source=UsageSource.ESTIMATED), 90 + 2 * 7),
        (Outcome.CLIENT_GONE, None, None, 100),
        (Outcome.CLIENT_GONE, None, Usage(None, 7), 100 + 2 * 7),
        (Outcome.FAILED, SENT, None, 0),  # an error status is not billed
        (Outcome.FAILED, UNSENT, None, 0),
        (Outcome.FAILED_AFTER_COMMIT, SENT, Usage(None, 80), 100 + 2 * 50),
    ],
)
def test_it_comes_to_what_it_used(
    role: Role, outcome: Outcome, failure: Failure | None, usage: Usage | None, tokens: int, *, billed: bool
) -> None:
    judge = judge_of(PRICED, b=Price(1_000_000, 2_000_000))
    ask = Ask("r", True, 100, 50)
    judge.arrived(ask, 0.0)
    assert judge.may(ask, AFTER_2S, role, 1, A, B, 2.0) is None
    assert judge.spend.state(2.0)["route"]["nanousd"]["day"]["spent"] == 200
    end = ended(ask, role, outcome, 3.0, failure=failure, usage=usage)
    judge.over(end)
    unsent = failure is UNSENT
    assert judge.spend.state(3.0)["route"]["nanousd"]["day"]["spent"] == (0 if unsent else 200)  # until it is certain
    if billed:
        judge.billed(RequestBilled("r", "fast", 3.0, bills([end], judge.terms)))
    judge.finished("r", 2, 3.0)
    state = judge.spend.state(3.0)
    assert (state["open"], state["route"]["nanousd"]["day"]["spent"]) == (0, tokens)
    balance = state["route"]["hedges" if role is Role.HEDGE else "failovers"]["balance"]
    assert balance == (10.0 if failure is UNSENT else 9.0)


@pytest.mark.parametrize("usage", [Usage(100, 70), None])
def test_what_a_loser_is_billed_is_settled_by_what_the_winner_tells(usage: Usage | None) -> None:
    """Where cancels save nothing it was as long as that; until it is known, the larger of both guesses."""
    terms = {name: Terms(Price(1_000_000, 2_000_000), stream=OnCancel.FULL) for name in "ab"}
    judge = Judge("fast", PRICED, Shared(lambda: 0.0, terms=terms))
    judge.knows([A, B])
    ask = Ask("r", True, 100)
    assert judge.may(ask, AFTER_2S, Role.HEDGE, 1, A, B, 2.0) is None
    lost = ended(ask, Role.HEDGE, Outcome.SUPERSEDED, 3.0)
    won = ended(ask, Role.PRIMARY, Outcome.WON, 9.0, attempt=0, usage=usage, target="a")
    spent = []
    for event in (lost, won, RequestBilled("r", "fast", 9.0, bills([lost, won], judge.terms))):
        if isinstance(event, RequestBilled):
            judge.billed(event)
        else:
            judge.over(event)
        spent.append(judge.spend.state(9.0)["route"]["nanousd"]["day"]["spent"])
    reserved = 100 + 2 * EXPECTED_OUTPUT
    assert spent == [reserved, reserved, reserved if usage is None else 100 + 2 * 70]
    assert judge.spend.state(9.0)["open"] == 0


def test_a_client_without_a_limit_is_expected_to_want_a_usual_answer() -> None:
    judge = judge_of(PRICED, b=Price(0, 1_000_000))
    assert hedge(judge, Ask("r", True), 2.0) is None
    assert judge.spend.state(2.0)["route"]["nanousd"]["day"]["spent"] == EXPECTED_OUTPUT


def test_an_attempt_whose_end_is_never_told_has_cost_what_was_expected() -> None:
    judge = judge_of(PRICED, b=Price(1_000_000))
    assert hedge(judge, Ask("r", True, 100), 2.0) is None
    judge.finished("r", 2, 3.0)
    state = judge.spend.state(3.0)
    assert (state["open"], state["route"]["nanousd"]["day"]["spent"]) == (0, 100)


# --- the order of guards ---------------------------------------------------------------------------------------------


def test_chance_is_asked_before_what_can_be_spent_and_after_what_forbids_all() -> None:
    choice = Choice(1.0, 0.5, "auto")
    assert hedge(judge_of(PRICED, draw=0.49), Ask("r", True), 1.0, choice) is None
    refused = hedge(judge_of(PRICED, draw=0.5), Ask("r", True), 1.0, choice)
    assert refused == Refusal(Reason.PROBABILITY, "hedged with a probability of 0.5")
    switched_off = msgspec.structs.replace(PRICED, kill_switch=True)
    refused = hedge(judge_of(switched_off, draw=0.5), Ask("r", True), 1.0, choice)
    assert refused is not None
    assert refused.reason is Reason.KILL_SWITCH


def test_an_unlimited_deadline_forbids_nothing_and_a_passed_one_everything() -> None:
    assert hedge(judge_of(PRICED), Ask("r", True, deadline_at=inf), 2.0) is None
    refused = hedge(judge_of(PRICED), Ask("r", True, deadline_at=2.0), 2.0)
    assert refused is not None
    assert refused.reason is Reason.DEADLINE


def test_failovers_mind_nothing_but_the_budget() -> None:
    policy = msgspec.structs.replace(
        PRICED, kill_switch=True, rollout=0.0, shadow=True, conditions=Conditions(background=True, streaming=False)
    )
    judge = judge_of(policy)
    answers = [judge.may(Ask(f"r-{n}", True), AFTER_2S, Role.FAILOVER, 1, A, B, 0.0) for n in range(11)]
    assert answers[:10] == [None] * 10
    assert answers[10] == Refusal(Reason.BUDGET, "route fast: failovers, 10% of requests")


# --- what is learned -------------------------------------------------------------------------------------------------


def throttled() -> Judge:
    return judge_of(Policy(delay=2.0, throttle=ThrottleSettings()))


@pytest.mark.parametrize(
    ("took", "outcome", "expected"),
    [(1.0, Outcome.SUPERSEDED, None), (3.0, Outcome.SUPERSEDED, 1.0), (3.0, Outcome.CLIENT_GONE, 1.0)],
)
def test_a_hedge_that_was_broken_off_is_late_once_it_ran_past_the_delay(
    took: float, outcome: Outcome, expected: float | None
) -> None:
    judge, ask = throttled(), Ask("r", True)
    assert hedge(judge, ask, 2.0) is None
    judge.over(ended(ask, Role.HEDGE, outcome, 2.0 + took, launched_at=2.0))
    assert judge._throttle.view(6.0).others_late == expected


@pytest.mark.parametrize(("left_after", "held"), [(1.0, False), (3.0, True)])
def test_hedges_whose_callers_leave_before_they_are_late_count_neither_way(left_after: float, held: bool) -> None:
    judge = judge_of(Policy(delay=2.0, throttle=ThrottleSettings(both_slow=0.9)))
    for number in range(12):
        ask, at = Ask(f"r-{number}", True), 10.0 * number
        assert hedge(judge, ask, at) is None
        if number < 5:
            judge.learn(won(ask, Role.HEDGE, at + 1.0, attempt=1, target="b", took=1.0))
        else:
            judge.over(ended(ask, Role.HEDGE, Outcome.CLIENT_GONE, at + left_after, launched_at=at))
        judge.finished(ask.request_id, 2, at + 5.0)
    assert (judge._throttle.holds(120.0) is not None) is held


@pytest.mark.parametrize(("took", "late"), [(1.9, 0.0), (2.1, 1.0)])
@pytest.mark.parametrize("role", [Role.HEDGE, Role.FAILOVER])
def test_one_that_won_is_late_by_the_same_delay(role: Role, took: float, late: float) -> None:
    judge, ask = throttled(), Ask("r", True)
    assert judge.may(ask, AFTER_2S, role, 1, A, B, 2.0) is None
    judge.learn(won(ask, role, 2.0 + took, attempt=1, target="b", took=took))
    assert judge._throttle.view(6.0).others_late == late


def test_nobody_is_told_where_nobody_asks() -> None:
    judge, ask = judge_of(PRICED), Ask("r", True)
    judge.late(ask, 2.0)
    judge.over(ended(ask, Role.PRIMARY, Outcome.FAILED, 3.0, attempt=0, failure=SENT, target="a"))
    view = judge._throttle.view(3.0)
    assert (view.first_late, view.others_late, view.tokens) == (None, None, 20.0)
    judge.finished(ask.request_id, 1, 3.0)
    assert len(judge._lessons) == 0


def test_the_pair_is_the_winner_and_the_first_that_it_beat() -> None:
    told = []
    judge, ask = judge_of(msgspec.structs.replace(PRICED, max_hedges=2, max_attempts=3)), Ask("r", True)
    judge._lessons._pair = lambda won, lost: told.append((won.target, lost.target, lost.role))
    for attempt in (1, 2):
        assert hedge(judge, ask, 2.0 * attempt, attempt=attempt) is None
    judge.over(ended(ask, Role.PRIMARY, Outcome.SUPERSEDED, 5.0, attempt=0, target="a"))
    judge.over(ended(ask, Role.HEDGE, Outcome.SUPERSEDED, 5.0, attempt=2, target="c"))
    judge.learn(won(ask, Role.HEDGE, 5.0, attempt=1, target="b"))
    assert told == [("b", "a", Role.PRIMARY)]


def test_an_attempt_after_a_failure_is_no_pair() -> None:
    judge, ask = judge_of(PRICED), Ask("r", True)
    judge._lessons._pair = lambda *_: pytest.fail("a pair")
    judge.over(ended(ask, Role.PRIMARY, Outcome.SUPERSEDED, 5.0, attempt=0, target="a"))
    judge.learn(won(ask, Role.FAILOVER, 5.0, attempt=1, target="b"))


def test_targets_that_are_gone_are_forgotten() -> None:
    judge = judge_of(PRICED)
    for target in ("a", "b", "c"):
        judge.learn(won(Ask("r", True), Role.PRIMARY, 1.0, target=target))
    judge.sweep({"a", "b"}, 2.0)
    assert set(judge._latency.first_tokens._targets) == {"a", "b"}


def test_no_request_waits_for_the_best_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes milliseconds to find, so the first of a kind goes by one that comes to the budget too."""
    judge = judge_of(Policy(delay="auto", limits=Limits(Share(0.1)), warmup_delay=9.0))
    for number in range(1000):
        judge.learn(won(Ask("r", True), Role.PRIMARY, float(number), took=1.0 + (number % 100) / 10))
    with monkeypatch.context() as patch:
        patch.setattr("hedgerow.policy.when.hopeful", lambda *_: pytest.fail("solved while a request waits"))
        choice = judge.choose(Ask("r", True), (A, B), 1000.0)
    assert (choice.source, choice.probability) == ("auto", 1.0)
    assert choice.delay == pytest.approx(9.9, abs=0.2)
    judge.when.refresh(1001.0)
    # A second attempt takes a second at least: so late it is of no use.
    assert judge.choose(Ask("r", True), (A, B), 1001.0).delay == inf


def test_where_too_many_straggle_chance_keeps_it_within_the_budget() -> None:
    judge = judge_of(Policy(delay="auto", limits=Limits(Share(0.1)), max_delay=2.0))
    for number in range(1000):
        judge.learn(won(Ask("r", True), Role.PRIMARY, float(number), took=1.0 if number % 2 else 5.0))
    choice = judge.choose(Ask("r", True), (A, B), 1000.0)
    assert choice.delay == 2.0
    assert choice.probability == pytest.approx(0.2, abs=0.01)


def test_what_does_not_change_the_rules_does_not_choose_anew() -> None:
    judge = judge_of(Policy(delay="auto", limits=Limits(Share(0.1))))
    for number in range(1000):
        judge.learn(won(Ask("r", True), Role.PRIMARY, float(number), took=1.0 + (number % 100) / 10))
    judge.choose(Ask("r", True), (A, B), 1000.0)
    judge.when.refresh(1000.0)
    best = judge.choose(Ask("r", True), (A, B), 1000.0)
    judge.controls.kill_switch = True
    judge.apply(1001.0)
    assert judge.choose(Ask("r", True), (A, B), 1001.0) is best


# --- what changes while it runs --------------------------------------------------------------------------------------


def test_another_policy_keeps_balances_and_what_was_learned() -> None:
    judge, ask = judge_of(PRICED), Ask("r", True)
    for number in range(10):
        assert hedge(judge, Ask(f"r-{number}", True), 2.0) is None
    for number in range(200):
        judge.learn(won(ask, Role.PRIMARY, float(number)))
    judge.change(msgspec.structs.replace(PRICED, delay="p95", limits=Limits(Share(0.2, 20.0))), 200.0)
    refused = hedge(judge, ask, 200.0)
    assert refused == Refusal(Reason.BUDGET, "route fast: 20% of requests")
    assert judge.choose(ask, (A, B), 200.0).delay == pytest.approx(1.0, rel=0.01)


def test_a_routes_own_controls_come_before_those_of_all() -> None:
    judge = judge_of(PRICED)
    everywhere = judge._shared.controls
    everywhere.delay, everywhere.budget = "3s", 0.5
    judge.apply(0.0)
    assert (judge.choose(Ask("r", True), (A, B), 0.0).delay, judge.spend._route.limits.hedges) == (3.0, Share(0.5))
    judge.controls.delay, judge.controls.budget = "4s", 0.25
    judge.apply(0.0)
    assert (judge.choose(Ask("r", True), (A, B), 0.0).delay, judge.spend._route.limits.hedges) == (4.0, Share(0.25))
    for controls in (everywhere, judge.controls):
        controls.delay = controls.budget = None
    judge.apply(0.0)
    assert (judge.choose(Ask("r", True), (A, B), 0.0).delay, judge.spend._route.limits.hedges) == (2.0, Share(0.1))


@pytest.mark.parametrize(
    ("delay", "stops"),
    [("2s", True), ("auto", True), ("p95", True), ("p50", False), ("slo: 1s", False), ("0", False)],
)
def test_a_delay_that_is_early_by_choice_is_no_sign_of_an_outage(delay: str, stops: bool) -> None:
    judge = judge_of(Policy(delay=delay, throttle=ThrottleSettings(), warmup_delay=2.0))
    for number in range(50):
        judge.late(Ask(f"r-{number}", True), float(number))
    assert judge._throttle.view(50.0).throttled == stops


def test_what_targets_cost_is_compared_in_one_unit() -> None:
    """By the model that was asked for, or in tokens: a price by model is no reason to be the cheapest."""
    price = Price.parse("1.25", "10")
    listed = Listed(price, ("gpt-5",)), Listed(Price.parse("0.05", "0.4"), ("nano",))
    terms = {"a": Terms(price), "b": Terms(None, listed)}
    judge = Judge("fast", Policy(order=Fastest(within=0.2)), Shared(lambda: 0.0, terms=terms))
    judge.knows([A, B])
    unknown = judge._cost.of_all("ab", 0)
    assert unknown["a"] == unknown["b"]
    judge.choose(Ask("1", True, model="nano"), (A, B), 0.0)
    assert judge._cost.of_all("ab", 0)["a"] > 20 * judge._cost.of_all("ab", 0)["b"] > 0.0
    judge.choose(Ask("2", True, model="gpt-5"), (A, B), 0.0)
    judge.choose(Ask("3", True, model="not listed"), (A, B), 0.0)
    known = judge._cost.of_all("ab", 0)
    assert known["a"] == known["b"] > unknown["a"]
