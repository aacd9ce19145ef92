"""A ledger in few numbers, by route."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from sqlalchemy import and_, case, func, select

from hedgerow.ledger.histogram import bucket, quantile
from hedgerow.ledger.read import Ledger, between
from hedgerow.ledger.rows import LOST, Histogram, RequestRow
from hedgerow.ledger.schema import attempts, processes, requests


class RouteSummary(msgspec.Struct, gc=False):
    """Of one route. Costs are nano-dollars."""

    requests: int = 0
    won: int = 0
    hedged: int = 0
    hedges: int = 0
    hedge_wins: int = 0
    cost: int = 0
    extra: int = 0
    unsure: int = 0
    """The cost of attempts that is not exact."""
    under_way: int = 0
    """Attempts of requests that are not settled yet."""
    lost: int = 0
    """Attempts of which it is not known how they ended: their process died."""
    unpriced: int = 0
    """Others without a cost."""
    first_token: Histogram = {}

    def add(self, row: RequestRow) -> None:
        """One more request."""
        self.requests += 1
        self.won += row.outcome == "won"
        self.hedged += row.hedges > 0
        self.hedges += row.hedges
        self.hedge_wins += row.winner_role == "hedge"
        self.cost += row.cost_nanousd or 0
        self.extra += row.extra_nanousd or 0
        if row.first_token_at is not None:
            low = bucket(max(0, row.first_token_at - row.started_at))
            self.first_token[low] = self.first_token.get(low, 0) + 1

    def notes(self) -> Iterator[str]:
        """How far its cost is to be believed."""
        if self.unsure:
            yield f"{share(self.unsure, self.cost)} of the cost is an estimate or a lower bound"
        for count, why in (
            (self.unpriced, "their targets have no price for them (targets.<name>.price, server.prices)"),
            (self.lost, "their gateway died before it knew"),
            (self.under_way, "they are under way"),
        ):
            if count:
                yield f"the cost of {count} attempts is not known and not counted: {why}"

    def seconds(self, q: float) -> float | None:
        """The q-quantile of the time to first token, within 1 %."""
        found = quantile(self.first_token, q)
        return None if found is None else found / 1_000_000


def summarise(ledger: Ledger, since: int | None, until: int | None) -> dict[str, RouteSummary]:
    """By route, those with the most requests first."""
    found: dict[str, RouteSummary] = {}
    for page in ledger.requests(since, until):
        for row in page:
            found.setdefault(row.route, RouteSummary()).add(row)
    for route, *counts in _costs(ledger, since, until):
        if (summary := found.get(route)) is not None:
            summary.unsure, summary.under_way, summary.lost, summary.unpriced = counts
    return dict(sorted(found.items(), key=lambda each: -each[1].requests))


def _costs(ledger: Ledger, since: int | None, until: int | None) -> list[tuple[str, int, int, int, int]]:
    """By route: what attempts cost that is not exact, and how many have no cost, by the reason.

    A request's certainty is that of its least sure attempt; the winner's cost may be exact all the same.
    """
    unknown = attempts.c.cost_nanousd.is_(None)
    under_way = requests.c.billed_at.is_(None)
    # What a process leaves open is settled when it is found dead.
    lost = and_(~under_way, (requests.c.outcome == LOST) | (requests.c.billed_at == processes.c.ended_at))
    query = (
        select(
            requests.c.route,
            func.sum(case((attempts.c.certainty != "exact", func.coalesce(attempts.c.cost_nanousd, 0)), else_=0)),
            *(
                func.sum(case((and_(unknown, why), 1), else_=0))
                for why in (under_way, lost, and_(~under_way, ~func.coalesce(lost, False)))
            ),
        )
        .select_from(
            requests.join(
                attempts, and_(attempts.c.process == requests.c.process, attempts.c.number == requests.c.number)
            ).join(processes, processes.c.process == requests.c.process)
        )
        .where(*between(requests.c.started_at, since, until))
        .group_by(requests.c.route)
    )
    with ledger.engine.connect() as connection:
        return [(row[0], *map(int, row[1:])) for row in connection.execute(query)]


def share(part: int, whole: int) -> str:
    """In percent; nothing of nothing."""
    return "" if not whole else f"{100 * part / whole:.1f}%"
