"""Targets of a log in rows of words, and how they go together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite

from hedgerow.planner.plan import Plan
from hedgerow.planner.quantiles import Quantile
from hedgerow.planner.statistics import SizeStatistics, TargetStatistics
from hedgerow.planner.words import Sheet, pname
from hedgerow.report.words import percent, seconds

_MOST_TARGETS = 10
_MOST_PAIRS = 6
"""Targets and pairs that are shown on a terminal, and on a page pairs."""
_REST = "--format json has all"


def in_play(plan: Plan) -> tuple[Sequence[TargetStatistics], str | None]:
    """Targets that routes ask, and of the others those with most attempts; how many there are more, in words."""
    asked = {each.primary for each in plan.routes}
    asked |= {option.choice.backup for each in plan.routes for option in each.options}
    order = sorted(plan.targets, key=lambda each: each.target not in asked)[:_MOST_TARGETS]
    rest = len(plan.targets) - len(order)
    return [each for each in plan.targets if each in order], f"{rest:,} more targets ({_REST})" if rest else None


def targets(of: Sequence[TargetStatistics]) -> Sheet:
    """What the log says of each."""
    at = [{each.p: each for each in one.quantiles} for one in of]
    rows = [
        ("attempts", [f"{each.n + each.failed:,}" for each in of]),
        ("failed", [percent(each.failed / (each.n + each.failed)) if each.n + each.failed else "-" for each in of]),
        ("outages", [f"{len(each.outages)}" for each in of]),
        *((pname(p), [seconds(each[p].value) for each in at]) for p in (0.5, 0.95, 0.99)),
        ("p99, 95 % interval", [_between(each[0.99]) for each in at]),
        ("p99 / p50", [f"{each.tail:.1f}" if isfinite(each.tail) else "-" for each in of]),
        ("explained by prompt size", [percent(each.explained) for each in of]),
        *_with_answers(of),
        ("slow right after a slow one", [f"{each.clustering:.1f} x" for each in of]),
    ]
    return Sheet([each.target for each in of], rows)


def _with_answers(of: Sequence[TargetStatistics]) -> Iterator[tuple[str, list[str]]]:
    """Only where whole answers are timed."""
    if any(each.explained_with_answers is not None for each in of):
        yield "and by length of the answer", [percent(each.explained_with_answers) for each in of]


BY_SIZE = "By prompt size: p50 / p99 (attempts)"
SIZED = 0.1
"""Share of the variance that prompt size explains at a target, from which on its sizes are shown one by one."""
_MOST_SIZED = 5
"""Targets of which they are shown, those with most attempts."""


def sizes(of: Sequence[TargetStatistics]) -> Sheet | None:
    """How slow prompts of each size are, where that matters: slow because long shows here."""
    matter = [each for each in of if (each.explained or 0.0) >= SIZED and len(each.by_size) > 1][:_MOST_SIZED]
    known = [{size.least: size for size in each.by_size} for each in matter]
    least = sorted({size for each in known for size in each})
    rows = [(_sized(place, least), [_by_size(each.get(least[place])) for each in known]) for place in range(len(least))]
    return Sheet([each.target for each in matter], rows) if matter else None


def _sized(place: int, least: Sequence[int]) -> str:
    """The size of prompts, up to the next one that occurs."""
    if place + 1 == len(least):
        return f"{least[place]:,} tokens and more"
    return f"{least[place]:,} to {least[place + 1] - 1:,} tokens" if place else f"below {least[1]:,} tokens"


def _by_size(size: SizeStatistics | None) -> str:
    if size is None:
        return "-"
    p50, p99 = (next(each.value for each in size.quantiles if each.p == p) for p in (0.5, 0.99))
    return f"{seconds(p50)} / {seconds(p99)} ({size.n + size.failed:,})"


def _between(quantile: Quantile) -> str:
    if not isfinite(quantile.value):
        return "-"
    return f"{seconds(quantile.low)} to {seconds(quantile.high) if isfinite(quantile.high) else '…'}"


def pairings(plan: Plan) -> list[str]:
    """How targets go together; of many pairs those that do most."""
    most = sorted(plan.pairings, key=lambda each: -each.correlation)[:_MOST_PAIRS]
    lines = [
        f"{each.first} and {each.second} at the same time: rank correlation {each.correlation:.2f} ({each.n:,} pairs)"
        for each in plan.pairings
        if each in most
    ]
    rest = len(plan.pairings) - len(most)
    return [*lines, f"{rest:,} more pairs of targets, which go together less ({_REST})"] if rest else lines
