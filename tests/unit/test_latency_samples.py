"""What an attempt that ended teaches: all outcomes, all classes of failure."""

from __future__ import annotations

import pytest

from hedgerow.events import FailureClass, Outcome
from hedgerow.policy.latency.samples import sample_of

OUR_LIMITS = {FailureClass.TIMEOUT_FIRST_TOKEN, FailureClass.TIMEOUT_STALL, FailureClass.TIMEOUT_TOTAL}


@pytest.mark.parametrize("outcome", Outcome)
def test_a_first_token_is_a_value_whatever_came_after_it(outcome: Outcome) -> None:
    failure = FailureClass.PROTOCOL if outcome in (Outcome.FAILED, Outcome.FAILED_AFTER_COMMIT) else None
    assert sample_of(outcome, failure, 10.5, 10.0, 19.0) == (0.5, False)


@pytest.mark.parametrize("outcome", [Outcome.SUPERSEDED, Outcome.CLIENT_GONE])
def test_a_silent_attempt_that_was_not_wanted_any_more_took_at_least_as_long(outcome: Outcome) -> None:
    assert sample_of(outcome, None, None, 10.0, 13.0) == (3.0, True)


@pytest.mark.parametrize("kind", FailureClass)
def test_a_silent_attempt_that_failed_says_nothing_unless_our_own_limit_ended_it(kind: FailureClass) -> None:
    says = (20.0, True) if kind in OUR_LIMITS else None
    assert sample_of(Outcome.FAILED, kind, None, 10.0, 30.0) == says
