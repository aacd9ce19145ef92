"""A ledger in few numbers, by route."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from hedgerow.ledger.histogram import bucket, quantile
from hedgerow.ledger.rows import Histogram, RequestRow


class RouteSummary(msgspec.Struct, gc=False):
    """Of one route. Costs are nano-dollars."""

    requests: int = 0
    won: int = 0
    hedged: int = 0
    hedges: int = 0
    hedge_wins: int = 0
    cost: int = 0
    unsure: int = 0
    """What of the cost is not exact."""
    extra: int = 0
    unpriced: int = 0
    first_token: Histogram = {}

    def add(self, row: RequestRow) -> None:
        """One more request."""
        self.requests += 1
        self.won += row.outcome == "won"
        self.hedged += row.hedges > 0
        self.hedges += row.hedges
        self.hedge_wins += row.winner_role == "hedge"
        self.unpriced += row.cost_nanousd is None
        self.cost += row.cost_nanousd or 0
        self.unsure += 0 if row.certainty == "exact" else row.cost_nanousd or 0
        self.extra += row.extra_nanousd or 0
        if row.first_token_at is not None:
            low = bucket(max(0, row.first_token_at - row.started_at))
            self.first_token[low] = self.first_token.get(low, 0) + 1

    def seconds(self, q: float) -> float | None:
        """The q-quantile of the time to first token, within 1 %."""
        found = quantile(self.first_token, q)
        return None if found is None else found / 1_000_000


def summarise(pages: Iterable[Sequence[RequestRow]]) -> dict[str, RouteSummary]:
    """By route, those with the most requests first."""
    found: dict[str, RouteSummary] = {}
    for page in pages:
        for row in page:
            found.setdefault(row.route, RouteSummary()).add(row)
    return dict(sorted(found.items(), key=lambda each: -each[1].requests))
