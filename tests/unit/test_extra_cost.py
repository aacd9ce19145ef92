"""What hedging adds to the bill of a request: one rule, by which ledger, metrics and report go."""

from __future__ import annotations

from typing import Any

import pytest

from hedgerow.cost import added_by_hedging
from hedgerow.events import Bill, Certainty, Outcome, RequestBilled, Role, Usage
from hedgerow.report.facts import Attempt, Request
from hedgerow.report.gathering import Side
from hedgerow.telemetry.metrics import Metrics
from tests.ledger.support import told
from tests.ledger.test_rows import fold

P, H, F, R = Role.PRIMARY, Role.HEDGE, Role.FAILOVER, Role.RACER
WON, LOST, KEPT, LEFT = Outcome.WON, Outcome.SUPERSEDED, Outcome.KEPT, Outcome.CLIENT_GONE
FAILED, BROKE, REJECTED = Outcome.FAILED, Outcome.FAILED_AFTER_COMMIT, Outcome.REJECTED
CASES: dict[str, tuple[list[tuple[Role, Outcome]], set[int]]] = {
    "one attempt": ([(P, WON)], set()),
    "its client left": ([(P, LEFT)], set()),
    "a hedge lost": ([(P, WON), (H, LOST)], {1}),
    "a hedge lost and was kept": ([(P, WON), (H, KEPT)], {1}),
    "a hedge failed": ([(P, WON), (H, FAILED)], {1}),
    "a hedge was rejected": ([(P, WON), (H, REJECTED)], {1}),
    "a hedge won": ([(P, LOST), (H, WON)], {0}),
    "a hedge won, and broke off": ([(P, LOST), (H, BROKE)], {0}),
    "a hedge won, and its client left": ([(P, LOST), (H, LEFT)], {0}),
    "a hedge took the place of what failed": ([(P, FAILED), (H, WON)], set()),
    "all failed": ([(P, FAILED), (H, FAILED)], {1}),
    "all were left": ([(P, LEFT), (H, LEFT)], {1}),
    "two hedges were left": ([(P, FAILED), (H, LEFT), (H, LEFT)], {2}),
    "a race": ([(P, LOST), (R, WON), (R, LOST)], {0, 2}),
    "a failover": ([(P, FAILED), (F, WON)], set()),
    "a failover that was left": ([(P, FAILED), (F, LEFT)], set()),
    "a rescue": ([(P, BROKE), (F, WON)], set()),
    "a rescue of a hedge": ([(P, LOST), (H, BROKE), (F, WON)], {0}),
    "a rejected answer": ([(P, REJECTED), (F, WON)], set()),
    "a failover that lost to a hedge": ([(P, FAILED), (F, LOST), (H, WON)], {1}),
}
each_case = pytest.mark.parametrize(("attempts", "extra"), CASES.values(), ids=CASES)


def bills_of(attempts: list[tuple[Role, Outcome]]) -> tuple[Bill, ...]:
    """Each at its own price, so that sums tell which are in them."""
    return tuple(
        Bill(index, "t", role, outcome, Usage(1, 1), Certainty.EXACT, 10**index, 10**index, 10**index)
        for index, (role, outcome) in enumerate(attempts)
    )


@each_case
def test_what_lost_to_another_is_the_cost_of_hedging(attempts: list[tuple[Role, Outcome]], extra: set[int]) -> None:
    assert {each.attempt for each in added_by_hedging(bills_of(attempts))} == extra


@each_case
def test_ledger_metrics_and_report_say_the_same(attempts: list[tuple[Role, Outcome]], extra: set[int]) -> None:
    bills, expected = bills_of(attempts), sum(10**index for index in extra)
    row, _ = fold(*told("r1", bills=bills))
    metrics = Metrics()
    metrics(RequestBilled("r1", "fast", 1.0, bills))
    counted: dict[Any, Any] = metrics.samples().get("hedgerow_extra_cost_dollars_total", {})
    side = Side()
    tried = [Attempt("t", each.role, each.outcome, 0.0, None, each.nanousd) for each in bills]
    side.add(Request("fast", None, attempts[-1][1], 0.0, 1.0, attempts=tried))
    assert (row.extra_nanousd, sum(counted.values()), sum(side.by_certainty.values())) == (expected,) * 3


def test_what_still_runs_has_cost_nothing_yet() -> None:
    tried = [Attempt("t", P, WON, 0.0), Attempt("t", H, None, 0.0)]
    assert added_by_hedging(tried) == []
