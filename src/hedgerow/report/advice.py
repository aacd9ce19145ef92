"""What else an operator should look at. Each advice has a name and a threshold; docs/experiment.md lists them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from hedgerow.events import Arm, Reason
from hedgerow.report import statistics as stats
from hedgerow.report.gathering import RouteTally, Side
from hedgerow.report.result import Advice, Cost, Percentile
from hedgerow.report.verdict import UNLIKELY
from hedgerow.report.words import percent, pnn, seconds

RARE_WINS = 0.01
"""Hedges that win less often only cost."""
ENOUGH_HEDGES = 100
OVER_BUDGET = 1.1
"""How far above its budget the share of hedges may be, beside the burst: who is held out earns budget too."""
SHORT_TAIL = 4.0
"""With p99 below so many times p50 there is little to win."""
OFTEN = 0.1
"""The share of due hedges that a budget or the outage guard may refuse before it is said."""


class Configured(msgspec.Struct, frozen=True):
    """What the configuration says of a route now. None: no cap."""

    holdout: float
    budget: float | None
    burst: float = 0.0


def advise(
    tally: RouteTally,
    hedged: Side,
    percentiles: Sequence[Percentile],
    cost: Cost,
    configured: Configured | None,
    mismatch: float | None,
) -> list[Advice]:
    """Whatever holds, what makes the comparison doubtful first."""
    holdout = tally.sides.get(Arm.HOLDOUT)
    found: list[Advice] = []
    if holdout is not None:
        found += _fairness(hedged, holdout, configured, mismatch)
    found += _hedges(tally, hedged, configured)
    found += _tail(percentiles)
    found += _money(percentiles, cost)
    return found


def _fairness(hedged: Side, holdout: Side, configured: Configured | None, mismatch: float | None) -> Iterator[Advice]:
    total = hedged.requests + holdout.requests
    if mismatch is not None and mismatch < UNLIKELY and configured is not None:
        yield Advice(
            "sample_mismatch",
            f"{percent(holdout.requests / total)} of the requests are held out, {percent(configured.holdout)} should"
            " be: was it changed within this time, or do clients name their requests always alike (x-request-id)?",
        )
    if _apart(hedged.left, hedged.requests, holdout.left, holdout.requests):
        yield Advice(
            "clients_leave",
            f"of the hedged requests {percent(hedged.left / hedged.requests)} lose their client before a first token,"
            f" of the others {percent(holdout.left / holdout.requests)}: the percentiles do not see those",
        )
    if _apart(hedged.failed, hedged.requests, holdout.failed, holdout.requests):
        yield Advice(
            "failures_differ",
            f"{percent(hedged.failed / hedged.requests)} of the hedged requests fail and"
            f" {percent(holdout.failed / holdout.requests)} of the others",
        )


def _apart(a: int, of_a: int, b: int, of_b: int) -> bool:
    """Whether two shares are so far apart that not even their intervals meet."""
    one, other = stats.wilson(a, of_a), stats.wilson(b, of_b)
    return one.low > other.high or other.low > one.high


def _hedges(tally: RouteTally, hedged: Side, configured: Configured | None) -> Iterator[Advice]:
    hedges, wins = hedged.hedges, hedged.wins
    if hedges >= ENOUGH_HEDGES and wins < RARE_WINS * hedges:
        yield Advice(
            "rare_wins",
            f"only {percent(wins / hedges)} of {hedges:,} hedges won: they start too early, or their target is slower"
            " (hedge.delay, order)",
        )
    requests = sum(side.requests for side in tally.sides.values())
    all_hedges = sum(side.hedges for side in tally.sides.values())
    budget = None if configured is None else configured.budget
    if (
        budget is not None
        and configured is not None
        and all_hedges > budget * requests * OVER_BUDGET + configured.burst
    ):
        yield Advice(
            "over_budget",
            f"there are {percent(all_hedges / requests)} hedges per request, hedge.budget is {percent(budget)}:"
            " was it higher within this time, or do several processes each have a burst?",
        )
    if not hedged.due:
        return
    for reason, what in ((Reason.BUDGET, "budget_exhausted"), (Reason.OUTAGE, "throttled")):
        share = hedged.skipped[reason] / hedged.due
        if share > OFTEN:
            yield Advice(what, f"{percent(share)} of the hedges that were due {_REFUSED[reason]}")
    if not hedges:
        reason, count = hedged.skipped.most_common(1)[0]
        yield Advice("nothing_hedged", f"no hedge was launched; {count:,} of {hedged.due:,} that were due: {reason}")


_REFUSED = {
    Reason.BUDGET: "found the budget spent: a longer delay, or a larger budget (hedge.budget, spend)",
    Reason.OUTAGE: "were held back, as slowness was general: a hedge does not help against that (hedge.outage)",
}


def _tail(percentiles: Sequence[Percentile]) -> Iterator[Advice]:
    """How long the tail is without hedging, as far as is known."""
    times = {each.percentile: each.holdout or each.modelled or each.hedged for each in percentiles}
    median, p99 = times.get(50.0), times.get(99.0)
    if median and p99 and p99 < SHORT_TAIL * median:
        yield Advice(
            "short_tail",
            f"p99 is {seconds(p99)}, only {p99 / median:.2g} times p50 ({seconds(median)}): there is little to win",
        )


def _money(percentiles: Sequence[Percentile], cost: Cost) -> Iterator[Advice]:
    judged = next(each for each in percentiles if each.percentile == 99.0)
    cut = None if judged.change is None or judged.change.value is None else -judged.change.value
    added = _added(cost)
    if added is not None and cut is not None and added > max(cut, 0.0):
        yield Advice(
            "expensive",
            f"hedging adds {percent(added)} to the bill, and takes {percent(max(cut, 0.0))} from"
            f" {pnn(judged.percentile)}",
        )
    if cost.unpriced_attempts:
        yield Advice(
            "unpriced",
            f"the cost of {cost.unpriced_attempts:,} attempts is not known (targets.<name>.price, server.prices)",
        )


def _added(cost: Cost) -> float | None:
    """What hedging adds to the bill, as a share: measured, where it does for certain; without that, what losers did."""
    more = cost.measured_change
    if more is None:
        return cost.share
    sure = more.interval is not None and (more.interval.low or 0.0) > 0.0
    return more.value if sure else None
