"""The evaluation in words and tables, for terminal and file: Markdown."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from statistics import median

from bench.eval_score import CLOSE, ENOUGH, NEAR, WARM, Score
from bench.streams import DRAWS
from hedgerow.demo.report import seconds
from hedgerow.policy.budget import HEDGES

_HEAD = (
    *("stream", "hedges drawn", "recorded", "budget", "p99 alone", "best p99", "best cut"),
    *("p50", "p95", "p99", "cut", "of the best", "extra", "short of"),
)
_CHANGING_HEAD = (
    *("stream", "budget", "p99 alone", "best cut", "simple rule's cut", "its extra"),
    *("p50", "p95", "p99", "cut", "extra", "short of"),
)
_SUMMARY_HEAD = ("streams", "of them judged", "budget", "best cut", "cut", "of the best", "extra, from", "to")


def report(found: Sequence[Score], options: argparse.Namespace) -> str:
    """All tables, and what they mean."""
    steady = [one for one in found if one.stationary]
    changing = [one for one in found if not one.stationary]
    parts = [f"# Through the gateway's decisions, in virtual time\n\n{_about(options)}"]
    if steady:
        parts.append("## Medians by source\n\n" + table(_SUMMARY_HEAD, _summary(steady)))
        parts.append("## Streams that stay as they are\n\n" + table(_HEAD, map(_row, steady)))
    if changing:
        parts.append("## Streams that change\n\n" + table(_CHANGING_HEAD, map(_changing_row, changing)))
    return "\n\n".join(parts)


def _about(options: argparse.Namespace) -> str:
    draws = "\n".join(f"- {name}: {what}." for name, what in DRAWS.items())
    requests = f"{options.requests} requests per row at {options.rate:g} per second, seed {options.seed}"
    return f"""{requests}; the first {WARM} are not counted.
Best: the shortest p99 that one hedge per request could make of the same requests, known from the end.
Extra: hedges per request. A hard cap holds over any stretch: the budget and {HEDGES.burst:g} more.
With {ENOUGH} recorded times and more the p99 must be cut by {100 * NEAR:g} % of what the best cuts, or come within
{100 * CLOSE:g} % of its p99.

{draws}"""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Rows as a Markdown table, numbers to the right."""
    every = [tuple(head), *map(tuple, rows)]
    widths = [max(len(row[column]) for row in every) for column in range(len(head))]
    rule = tuple("-" * width if not column else "-" * (width - 1) + ":" for column, width in enumerate(widths))
    lines = [
        [
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        for row in (every[0], rule, *every[1:])
    ]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _row(one: Score) -> tuple[str, ...]:
    return (
        one.stream,
        one.draw,
        str(one.samples),
        f"{100 * one.budget:g} %",
        seconds(one.alone.p99),
        seconds(one.possible),
        percent(one.possible_cut),
        seconds(one.hedged.p50),
        seconds(one.hedged.p95),
        seconds(one.hedged.p99),
        percent(one.cut),
        percent(one.reached),
        percent(one.extra),
        ", ".join(one.faults()) or "nothing" if one.judged else "not judged",
    )


def _changing_row(one: Score) -> tuple[str, ...]:
    return (
        one.stream,
        f"{100 * one.budget:g} %",
        seconds(one.alone.p99),
        percent(one.possible_cut),
        percent(one.rule_cut),
        percent(one.rule_extra),
        seconds(one.hedged.p50),
        seconds(one.hedged.p95),
        seconds(one.hedged.p99),
        percent(one.cut),
        percent(one.extra),
        ", ".join(one.faults()) or "nothing",
    )


def _summary(found: Sequence[Score]) -> Iterable[tuple[str, ...]]:
    kinds = dict.fromkeys((one.group, one.draw, one.budget) for one in found)
    for group, draw, budget in kinds:
        those = [one for one in found if (one.group, one.draw, one.budget) == (group, draw, budget)]
        yield (
            f"{group}, {draw}: {len(those)}",
            str(sum(one.judged for one in those)),
            f"{100 * budget:g} %",
            percent(median(one.possible_cut for one in those)),
            percent(median(one.cut for one in those)),
            percent(median(one.reached for one in those)),
            percent(min(one.extra for one in those)),
            percent(max(one.extra for one in those)),
        )


def percent(share: float) -> str:
    """With one decimal."""
    return f"{100 * share:.1f} %"
