"""routes.<name>.experiment.*: who is held out, what becomes of them, and what the events say of both sides."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hedgerow.events import Arm, Reason, RequestFinished, RequestStarted, Role
from hedgerow.policy.guards import place
from tests.effects.support import (
    BROKEN,
    HELLO,
    LATE,
    QUICK,
    SILENT,
    STREAM,
    WHOLE,
    Document,
    Sent,
    Story,
    after,
    effect_of,
    every,
    settings,
    tell,
)
from tests.engine.scripted import JSON, Answer, Script

ROUTE: Document = {
    "routes.<name>.hedge.delay": "1s",
    "routes.<name>.hedge.budget": "off",
    "routes.<name>.hedge.outage.max_tokens": 1000,
    "targets.<name>.breaker.failure_ratio": "off",
}
HALF = {**ROUTE, "routes.<name>.experiment.holdout": "50%"}
OUT, IN = Arm.HOLDOUT, Arm.HEDGED


def side(at: int, share: int = 500_000) -> Arm:
    """Of the request sent as number `at`, from 0."""
    return OUT if place(f"r-{at + 1}", b"holdout") < share else IN


def experiment(changes: Document, sent: Sequence[Sent], first: Script | Sequence[Script] = SILENT) -> Story:
    return tell(settings(held(HALF, changes)), {"a": first}, sent)


def held(base: Document, changes: Document) -> Document:
    """`base` with these changes, without what contradicts them."""
    apart = (".delay",) if "race" in changes.values() or "chain" in changes.values() else ()
    return {**{key: value for key, value in base.items() if not key.endswith(apart or "-")}, **changes}


def arms(story: Story) -> list[Arm | None]:
    """The sides of the requests, which both their events agree on."""
    begun = {each.request_id: each.arm for each in story.of(RequestStarted)}
    assert begun == {each.request_id: each.arm for each in story.of(RequestFinished)}
    return list(begun.values())


@effect_of("routes.<name>.experiment.holdout")
@pytest.mark.parametrize("share", [0, 20, 50, 90])
def test_a_share_of_requests_told_by_their_ids_is_never_hedged(key: str, share: int) -> None:
    story = experiment({key: f"{share}%"}, every(0.0, 40))
    sides = [side(at, share * 10_000) for at in range(40)]
    assert arms(story) == (sides if share else [None] * 40)
    assert story.hedged() == [at for at in range(40) if sides[at] is IN]
    assert story.reasons() == [Reason.HOLDOUT] * sides.count(OUT)
    assert share == 0 or 0 < sides.count(OUT) < 40


def test_it_is_another_choice_than_that_of_a_rollout() -> None:
    """Else a rollout to half of the requests would have all of them on one side."""
    story = experiment({"routes.<name>.hedge.rollout": "50%"}, every(0.0, 40))
    out = {at for at in range(40) if place(f"r-{at + 1}") >= 500_000}
    assert arms(story) == [None if at in out else side(at) for at in range(40)]
    assert {side(at) for at in range(40) if at not in out} == {IN, OUT}


def test_in_a_race_they_run_alone() -> None:
    story = experiment({"routes.<name>.hedge.mode": "race"}, every(0.0, 20), LATE)
    raced = {request_id for request_id, _, role, _ in story.launches if role is Role.RACER}
    assert raced == {f"r-{at + 1}" for at in range(20) if side(at) is IN}
    assert story.reasons(Role.RACER) == [Reason.HOLDOUT] * sum(side(at) is OUT for at in range(20))


def test_after_a_failure_they_go_to_the_next_target() -> None:
    story = experiment({}, every(2.0, 10), BROKEN)
    assert (story.failed_over(), story.hedged()) == (list(range(10)), [])
    assert arms(story) == [side(at) for at in range(10)]


def test_in_shadow_both_sides_take_part() -> None:
    story = experiment({"routes.<name>.hedge.mode": "shadow"}, every(0.0, 20))
    assert arms(story) == [side(at) for at in range(20)]
    assert story.hedged() == []


OPTED_OUT = Sent(headers=[(b"x-hedgerow-hedge", b"off")])
ACTS = Sent(body=STREAM.replace(b'"messages"', b'"store":true,"messages"').replace(b'"model"', b'"n":2,"model"'))


@pytest.mark.parametrize(
    ("changes", "sent"),
    [
        ({}, OPTED_OUT),
        ({}, ACTS),
        ({}, Sent(path=b"/v1/files")),
        ({"routes.<name>.background": True}, Sent()),
        ({"routes.<name>.hedge.kill_switch": True}, Sent()),
        ({"routes.<name>.hedge.rollout": "0%"}, Sent()),
        ({"routes.<name>.hedge.only_if.streaming": True}, Sent(body=WHOLE)),
        ({"routes.<name>.hedge.max_input_tokens": 5}, Sent()),
        ({"routes.<name>.hedge.delay": "off"}, Sent()),
        ({"routes.<name>.hedge.mode": "chain"}, Sent()),
        ({"routes.<name>.hedge.max_hedges": 0}, Sent()),
        ({"routes.<name>.max_attempts": 1}, Sent()),
        ({"routes.<name>.targets": ["a"]}, Sent()),
    ],
)
def test_who_would_not_be_hedged_takes_no_part(changes: Document, sent: Sent) -> None:
    whole = Answer([(0.1, HELLO)], headers=JSON)
    story = experiment(changes, every(0.0, 10, like=sent), QUICK if sent.body == STREAM else whole)
    assert arms(story) == [None] * 10


def test_what_hedging_itself_decides_takes_nobody_out() -> None:
    """A budget that is spent, a target that is out: that is hedging as it is, and as it is to be judged."""
    story = experiment({"routes.<name>.hedge.budget": "1%", "routes.<name>.hedge.burst": 1}, every(0.0, 20))
    assert arms(story) == [side(at) for at in range(20)]
    assert set(story.reasons()) == {Reason.HOLDOUT, Reason.BUDGET}


EARNED: Sequence[Document] = [
    {"routes.<name>.hedge.budget": "10%", "routes.<name>.hedge.burst": 1, "routes.<name>.hedge.per_minute": 0},
    {"server.budget": {"hedges": "10%", "burst": 1}},
    {"server.tenant_budget": {"hedges": "10%", "burst": 1}},
]


@pytest.mark.parametrize("budget", EARNED, ids=["route", "server", "tenant"])
@pytest.mark.parametrize("share", [0, 50, 90])
def test_who_is_held_out_earns_no_hedge_for_the_others(budget: Document, share: int) -> None:
    """All are late: each hedge is there as soon as ten requests have earned it."""
    changes = held({**HALF, **budget, "routes.<name>.experiment.holdout": f"{share}%"}, {})
    story = tell(settings(changes), {"a": after(1.5)}, every(3.0, 400))
    hedged = [each.request_id for each in story.of(RequestStarted) if each.arm is not OUT]
    assert len(story.hedged()) == 1 + (len(hedged) - 1) // 10


def test_what_a_minute_earns_is_less_by_the_share_that_is_held_out() -> None:
    budget = {"routes.<name>.hedge.budget": "0.1%", "routes.<name>.hedge.burst": 2, "routes.<name>.hedge.per_minute": 1}
    changes = {**ROUTE, **budget, "routes.<name>.experiment.holdout": "75%"}
    story = tell(settings(changes), {"a": after(1.5)}, every(6.0, 400))
    assert len(story.hedged()) == 2 + 10  # in 40 minutes


def test_who_is_held_out_earns_what_follows_on_a_failure() -> None:
    budget = {"budget": "10%", "burst": 1, "per_minute": 0}
    changes = {**HALF, **{f"routes.<name>.failover.{key}": value for key, value in budget.items()}}
    story = tell(settings(changes), {"a": BROKEN}, every(3.0, 400))
    assert len(story.failed_over()) == 40


def test_they_are_late_to_the_outage_guard_as_any_other_is() -> None:
    """More than half are late: hedges stop, though nearly all of those that were late were held out."""
    few = {"routes.<name>.hedge.outage.max_tokens": 20, "routes.<name>.experiment.holdout": "90%"}
    story = experiment(few, every(2.0, 60))
    assert Reason.OUTAGE in story.reasons()
    assert arms(story) == [side(at, 900_000) for at in range(60)]


# --- the unhedged estimate -------------------------------------------------------------------------------------------


def unhedged(story: Story, at: int = -1) -> float | None:
    """Seconds to the first token that a request would have taken."""
    event = story.of(RequestFinished)[at]
    return None if event.unhedged_at is None else event.unhedged_at - event.started_at


KNOWN = {**ROUTE, "routes.<name>.hedge.warmup.samples": 10, "routes.<name>.hedge.window.samples": 10}
"""The delay is fixed, and ten samples are enough to know a target."""
FIVE_EACH = (after(0.05),) * 5 + (after(4.0),) * 5


TEN = every(10.0, 10, like=OPTED_OUT)
ONE = Sent(at=200.0)


def known(changes: Document, last: Script, backup: Script = QUICK, one: Sent = ONE) -> Story:
    """Ten requests that opted out, five of them slow, then one that did not."""
    pair = held({**KNOWN, "routes.<name>.targets": ["a", "b"]}, changes)
    return tell(settings(pair), {"a": [*FIVE_EACH, last], "b": backup}, [*TEN, one])


def test_a_first_attempt_that_wins_says_it_itself() -> None:
    assert unhedged(known({}, after(0.5))) == pytest.approx(0.5)
    assert unhedged(known({}, after(1.5), SILENT)) == pytest.approx(1.5)


def test_where_a_hedge_won_it_is_what_those_take_that_are_silent_as_long() -> None:
    story = known({}, SILENT)
    assert story.of(RequestFinished)[-1].winner == 1
    assert unhedged(story) == pytest.approx(4.0, rel=0.011)  # times are kept to 1 %


def test_of_a_race_as_well() -> None:
    raced = {"routes.<name>.hedge.mode": "race"}
    story = known(raced, SILENT)
    assert story.of(RequestFinished)[-1].winner == 1
    assert unhedged(story) == pytest.approx(4.0, rel=0.011)


@pytest.mark.parametrize("limit", ["targets.<name>.first_token", "routes.<name>.timeouts.first_token"])
def test_no_attempt_is_thought_to_outlast_its_limit(limit: str) -> None:
    assert unhedged(known({limit: "3s"}, SILENT)) == pytest.approx(3.0)


def test_nor_the_time_that_its_client_gives_it() -> None:
    hurried = Sent(at=200.0, headers=[(b"x-hedgerow-deadline-ms", b"2500")])
    assert unhedged(known({}, SILENT, one=hurried)) == pytest.approx(2.5)


def test_where_too_little_is_known_nothing_is_said() -> None:
    story = tell(settings(ROUTE), {"a": SILENT}, [Sent()])
    assert story.of(RequestFinished)[0].winner == 1
    assert unhedged(story) is None


def test_what_followed_on_a_failure_would_have_followed_without_hedging() -> None:
    assert unhedged(known({}, BROKEN)) == pytest.approx(0.2)


def test_where_the_first_attempt_failed_beside_a_hedge_nobody_knows() -> None:
    fails_late = Answer([(0.0, b"{}")], status=500, headers=JSON, head_after=1.2)
    story = known({}, fails_late, after(1.0))
    assert story.of(RequestFinished)[-1].winner == 1
    assert unhedged(story) is None


@pytest.mark.parametrize("leaves", [0.5, 1.05])
def test_who_left_had_no_first_token(leaves: float) -> None:
    assert unhedged(known({}, SILENT, one=Sent(at=200.0, leaves_after=leaves))) is None
