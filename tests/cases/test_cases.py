"""Every case is right, or waits by name for a feature that is to come."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.cases.case import Case
from tests.cases.conftest import CASES
from tests.cases.run import Result

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]  # the first test runs all cases


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_case(case: Case, results: Mapping[str, Result]) -> None:
    assert results[case.id].differences == []


def test_there_are_88_and_none_waits(results: Mapping[str, Result]) -> None:
    waiting = [case for case, result in results.items() if result.verdict == "waiting"]
    assert (len(results), waiting) == (88, [])


def test_an_open_breaker_leaves_its_target_out(results: Mapping[str, Result]) -> None:
    """What the case itself leaves open."""
    step = results["he-breaker-per-model"].steps[0][1]
    assert [run.contacted for run in step.runs] == [["primary", "backup"]] * 3 + [["backup"]] * 2
    assert [(event["model"], event["state"]) for event in step.changed] == [("a", "open")]
