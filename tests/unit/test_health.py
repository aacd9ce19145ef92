"""Which targets are out, for how long, and what happens when all are."""

from __future__ import annotations

import pytest

from hedgerow.events import Failure, FailureClass, TargetTakenOut
from hedgerow.policy.health import MAX_OUT, Health
from hedgerow.policy.plan import Candidate

A, A2, B = Candidate("a", "key-a"), Candidate("a2", "key-a"), Candidate("b", "key-b")
EVERYONE = (A, A2, B)


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


def test_a_good_answer_brings_a_target_back() -> None:
    health = Health()
    health.failed(A, limited(60.0), 0.0)
    health.recovered(A2)
    assert list(health.usable(EVERYONE, 1.0)) == [0, 1, 2]
