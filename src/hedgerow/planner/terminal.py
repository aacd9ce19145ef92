"""A plan on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hedgerow.planner import words, words_targets
from hedgerow.planner.plan import Plan, Route
from hedgerow.report.terminal import titled

_COLUMNS = 5
"""Beside each other, so that 80 characters are enough."""
_CHOSEN = "bold green"
COLOURS = {"stop": "red", "warning": "yellow", "note": "cyan"}


def show(plan: Plan, console: Console, written: str | None = None) -> None:
    """What was read and what it says, each route, what to do next; `written` is where the configuration is."""
    console.print(Text(words.log_line(plan.source, plan.targets)))
    console.print(_pairs(list(words.reading(plan.source))))
    targets, rest = words_targets.in_play(plan)
    sheet(console, words_targets.targets(targets))
    if rest is not None:
        console.print(Text(rest))
    if (sizes := words_targets.sizes(plan.targets)) is not None:
        sheet(console, sizes, words_targets.BY_SIZE)
    for line in words_targets.pairings(plan):
        console.print(Text(line))
    for severity, found in words.severities(plan):
        for name, _, text in found:
            _aside(console, severity, f"{text} ({name})", COLOURS[severity])
    for route in plan.routes:
        _route(plan, route, console)
    console.rule(Text("next", "bold"), align="left")
    for step in words.next_steps(plan, written):
        console.print(Text(f"  {step}"), soft_wrap=True)


def _route(plan: Plan, route: Route, console: Console) -> None:
    console.rule(Text(route.primary, "bold"), align="left")
    console.print(Text(route.verdict, f"bold {'red' if route.recommended is None else 'green'}"))
    if not route.options:
        return
    sheet(console, words.options(plan, route))
    console.print(Text(words.basis(route), "dim"))
    for name, text in words.legend(route):
        _aside(console, name, text, "dim", "dim")
    for name, why in words.alike(plan, route):
        _aside(console, name, why, "cyan")
    for name, why in words.not_paying(plan, route):
        _aside(console, name, why, "yellow")


def _aside(console: Console, name: str, text: str, colour: str, style: str = "") -> None:
    console.print(Padding(Text.assemble((f"{name}: ", colour), (text, style)), (0, 0, 0, 2)))


def sheet(console: Console, of: words.Sheet, title: str = "") -> None:
    """A table, or several where it is too wide."""
    for part in of.parts(_COLUMNS):
        table = titled(title, "", *part.head)
        for name, cells in part.rows:
            marked = [Text(cell, _CHOSEN if place == part.chosen else "") for place, cell in enumerate(cells)]
            table.add_row(name, *marked)
        console.print(table)


def _pairs(of: Sequence[tuple[str, str]]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, text in of:
        table.add_row(Text(name, "dim"), Text(text))
    return table
