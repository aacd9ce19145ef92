"""Requests for the report to read."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.cost import Certainty
from hedgerow.events import Arm, FailureClass, Outcome, Reason, Role
from hedgerow.report.facts import Attempt, Request

USD = 1_000_000_000
"""A dollar in nano-dollars."""


def request(
    took: float | None = 1.0,
    arm: Arm | None = None,
    *,
    route: str = "fast",
    at: float = 0.0,
    hedge_won: bool | None = None,
    unhedged: float | None = None,
    outcome: Outcome = Outcome.WON,
    failure: FailureClass | None = None,
    skipped: Reason | None = None,
    cost: int | None = None,
    lost: int | None = None,
    certainty: Certainty = Certainty.EXACT,
    answer: float = 2.0,
) -> Request:
    """One that had its first token after `took` seconds and ended `answer` later.

    `hedge_won`: None: it had no hedge. `unhedged`: seconds. `cost` of the winner, `lost` of the other.
    """
    first = None if took is None else at + took
    own, other = (cost, lost) if not hedge_won else (lost, cost)
    tried = [_attempt("a", Role.PRIMARY, at, first, own, certainty if hedge_won else Certainty.EXACT)]
    if hedge_won is not None:
        tried.append(_attempt("b", Role.HEDGE, at + 0.5, first, other, Certainty.EXACT if hedge_won else certainty))
    winner = None if first is None else 1 if hedge_won else 0
    for index, each in enumerate(tried):
        each.outcome = outcome if index == winner or winner is None else Outcome.SUPERSEDED
        if index != winner:
            each.first_token_at = None
    return Request(
        route,
        arm,
        outcome,
        at,
        at + (took or 0.0) + answer,
        first,
        None if unhedged is None else at + unhedged,
        winner,
        failure,
        skipped,
        tried,
    )


def _attempt(
    target: str, role: Role, at: float, first: float | None, nanousd: int | None, certainty: Certainty
) -> Attempt:
    return Attempt(target, role, Outcome.WON, at, first, nanousd, nanousd, nanousd, certainty)


def times(values: Sequence[float], arm: Arm | None, **others: object) -> list[Request]:
    """Requests that took so long, one each second."""
    return [request(value, arm, at=float(index), **others) for index, value in enumerate(values)]  # type: ignore[arg-type]
