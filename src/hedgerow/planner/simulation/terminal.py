"""A simulation on a terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hedgerow.planner.simulation.result import Capped, Numbers, Phase, Simulation
from hedgerow.report.words import percent, seconds

_COLOURS = {"pays": "green", "little": "yellow", "hurts": "red", "off": "yellow"}
_SIDES: tuple[tuple[str, Callable[[Phase], Numbers]], ...] = (
    ("without", lambda phase: phase.without),
    ("hedged", lambda phase: phase.hedged),
)


def show(found: Simulation, console: Console) -> None:
    """The verdict first."""
    console.rule(Text(f"route {found.route} in '{found.scenario}'", "bold"), align="left")
    console.print(Text(found.about))
    console.print(Text(found.verdict.text, f"bold {_COLOURS[found.verdict.word]}"))
    console.print(_times(found))
    console.print(_attempts(found))
    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    for name, text in _facts(found):
        grid.add_row(name, Text(text))
    console.print(grid)
    for note in found.notes:
        console.print(Padding(Text(f"note: {note}", "yellow"), (0, 0, 0, 2)))


def _table(*columns: str) -> Table:
    table = Table(highlight=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index > 1 else "left", no_wrap=index < 2)
    return table


def _phases(found: Simulation) -> list[Phase]:
    return [*found.phases, found.total] if len(found.phases) > 1 else [found.total]


def _times(found: Simulation) -> Table:
    loaded = found.total.hedged.load is not None
    table = _table("phase", "", "requests", "p50", "p95", "p99", "p99.9", "failed", *["load"] * loaded)
    for phase in _phases(found):
        for side, of in _SIDES:
            each = of(phase)
            times = (_time(each, at) for at in (each.p50, each.p95, each.p99, each.p999))
            failed = (
                f"{each.failed:,}" if not each.failed else f"{each.failed:,} ({percent(each.failed / each.requests)})"
            )
            name, count = (phase.name, f"{each.requests:,}") if side == "without" else (_span(phase), "")
            table.add_row(
                name, side, count, *times, failed, *[percent(each.load)] * loaded, end_section=side == "hedged"
            )
    return table


def _span(phase: Phase) -> str:
    return f"from {clock(phase.since)}, for {clock(phase.seconds)}"


def _time(each: Numbers, at: float | None) -> str:
    return "never" if at is None and each.requests else seconds(at)


def _attempts(found: Simulation) -> Table:
    """Of the run with hedging; what is in brackets of the one without."""
    table = _table(
        "with (without) hedging",
        "hedges",
        "failovers",
        "breakers opened",
        "a backup asked first",
        "a backup answered",
        "hedges held back",
    )
    primary = found.targets[0]
    for phase in _phases(found):
        hedged, without = phase.hedged, phase.without
        table.add_row(
            phase.name,
            f"{hedged.hedges:,} ({percent(hedged.extra)})" if hedged.hedges else "-",
            _beside(hedged.failovers, without.failovers),
            _beside(hedged.opened, without.opened),
            *(percent(1.0 - of.get(primary, 0) / hedged.requests) for of in (hedged.first, hedged.answered)),
            ", ".join(f"{reason} {count:,}" for reason, count in hedged.skipped.items()) or "-",
        )
    return table


def _beside(hedged: int, without: int) -> str:
    return f"{hedged:,} ({without:,})" if hedged or without else "-"


def _facts(found: Simulation) -> list[tuple[str, str]]:
    facts = [
        ("hedging", found.hedging),
        ("cap on hedges", _cap(found.hedges)),
        ("cap on failovers", _cap(found.failovers)),
        ("targets", f"{', '.join(found.targets)}: {found.law}"),
        ("simulated", f"{found.total.hedged.requests:,} requests at {found.rate:g} a second, seed {found.seed}, twice"),
        ("uncertainty", f"one draw of many: --seed {found.seed + 1} shows how much of a difference is chance"),
    ]
    if held := found.total.hedged.held:
        facts.insert(3, ("not failed over", ", ".join(f"{reason} {count:,}" for reason, count in held.items())))
    limited = ", ".join(f"{role} {count:,}" for role, count in found.total.hedged.limited.items())
    if limited:
        facts.insert(3, ("rate limited", limited))
    if found.breakers:
        facts.insert(3, ("breakers", "; ".join(_breakers(found))))
    return facts


def _cap(cap: Capped | None) -> str:
    if cap is None:
        return "none"
    beyond = f"at no time more than {cap.most_at_once:.1f} beyond the share, of {cap.burst:g} that may be"
    return f"{cap.words}: {cap.launched:,} started, {beyond}"


def _breakers(found: Simulation) -> list[str]:
    """Of each target the first opening and what came last."""
    lines = []
    for target in dict.fromkeys(each.target for each in found.breakers):
        changes = [each for each in found.breakers if each.target == target]
        first, last = changes[0], changes[-1]
        opened = sum(each.state == "open" for each in changes)
        times = "once" if opened == 1 else f"{opened:,} times in all"
        lines.append(
            f"{target} opened at {clock(first.at)} ({first.why}), {times}, "
            f"{last.state.replace('_', '-')} from {clock(last.at)} on"
        )
    return lines


def clock(at: float) -> str:
    """Minutes and seconds."""
    minutes, rest = divmod(round(at), 60)
    return f"{minutes}:{rest:02}"
