"""Requests for the report, from a ledger."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator
from itertools import chain

from hedgerow.cost import Certainty
from hedgerow.events import Arm, FailureClass, Outcome, Reason, Role
from hedgerow.ledger.read import Ledger
from hedgerow.ledger.rows import LOST, OPEN, AttemptRow, RequestRow
from hedgerow.ledger.schema import requests as table
from hedgerow.report.facts import Attempt, Request

_MICRO = 1_000_000


def requests_in(
    ledger: Ledger, since: float | None, until: float | None, routes: Collection[str] = ()
) -> Iterator[Request]:
    """Those that began in this time (Unix seconds), of these routes (of all, where none is named), and are over.

    Page by page, so that it does not matter how many there are. Raises `LedgerError`.
    """
    where = [table.c.route.in_(sorted(routes))] if routes else []
    low, high = (None if each is None else round(each * _MICRO) for each in (since, until))
    for page in ledger.requests(low, high, where=where):
        tried: defaultdict[tuple[int, int], list[AttemptRow]] = defaultdict(list)
        for row in chain.from_iterable(ledger.attempts(page[0].started_at, page[-1].started_at + 1, where=where)):
            tried[row.process, row.number].append(row)
        for request in page:
            if request.outcome not in (OPEN, LOST) and request.ended_at is not None:
                yield _request(request, request.ended_at, tried[request.process, request.number])


def _request(row: RequestRow, ended_at: int, tried: list[AttemptRow]) -> Request:
    return Request(
        route=row.route,
        arm=None if row.arm is None else Arm(row.arm),
        outcome=Outcome(row.outcome),
        started_at=row.started_at / _MICRO,
        ended_at=ended_at / _MICRO,
        first_token_at=_seconds(row.first_token_at),
        unhedged_at=_seconds(row.unhedged_at),
        winner=row.winner,
        failure=None if row.error_class is None else FailureClass(row.error_class),
        skipped=None if row.hedge_reason is None else Reason(row.hedge_reason),
        attempts=[_attempt(each) for each in tried],
    )


def _attempt(row: AttemptRow) -> Attempt:
    return Attempt(
        target=row.target,
        role=Role(row.role),
        outcome=None if row.outcome in (OPEN, LOST) else Outcome(row.outcome),
        launched_at=row.launched_at / _MICRO,
        first_token_at=_seconds(row.first_token_at),
        nanousd=row.cost_nanousd,
        least=row.least_nanousd,
        most=row.most_nanousd,
        certainty=None if row.certainty is None else Certainty(row.certainty),
    )


def _seconds(microseconds: int | None) -> float | None:
    return None if microseconds is None else microseconds / _MICRO
