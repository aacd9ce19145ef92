"""The report on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from hedgerow.report.result import Arm, Estimated, Percentile, Pooled, Report, Route
from hedgerow.report.words import between, change, money, percent, pnn, seconds, when

_BARS = "▁▂▃▄▅▆▇█"
_COLOURS = {"pays": "green", "does_not_pay": "red", "not_enough_data": "yellow", "no_verdict": "yellow"}
NOTHING = "no requests in the ledger for this"


def show(report: Report, console: Console) -> None:
    """Each route, then all together."""
    if not report.routes:
        console.print(NOTHING)
    for route in report.routes:
        _route(route, console)
    if report.pooled is not None:
        _pooled(report.pooled, console)


def _route(route: Route, console: Console) -> None:
    console.rule(Text(f"route {route.name}", "bold"), align="left")
    console.print(f"{when(route.since)} to {when(route.until)}", highlight=False)
    console.print(Text(route.verdict.text, f"bold {_COLOURS[route.verdict.word]}"))
    for advice in route.advice:
        console.print(Padding(Text.assemble((f"{advice.name}: ", "yellow"), advice.text), (0, 0, 0, 2)))
    console.print(_sides(route))
    console.print(_percentiles("time to first token", route.first_token))
    console.print(_percentiles("time to last byte", route.total))
    console.print(_facts(route))
    console.print(_targets(route))


def sides(route: Route) -> Sequence[tuple[str, Arm]]:
    """Those that are compared, with their names."""
    if route.holdout is None:
        return [("all requests", route.hedged)]
    return [("hedged", route.hedged), ("held out", route.holdout)]


def titled(title: str, *columns: str) -> Table:
    """An empty table; all but the first column hold numbers."""
    table = Table(title=title, title_justify="left", title_style="", highlight=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="right" if index else "left", no_wrap=index == 0)
    return table


def _sides(route: Route) -> Table:
    table = titled("", "", "requests", "failed", "refused", "client left", "hedges", "won", "failovers", "not hedged")
    for name, arm in sides(route):
        why = ", ".join(f"{reason} {count:,}" for reason, count in arm.skipped.items())
        failed = f"{arm.failed:,} ({percent(arm.failed_share.value)})"
        counts = arm.refused, arm.left, arm.hedges, arm.hedge_wins, arm.failovers
        table.add_row(name, f"{arm.requests:,}", failed, *(f"{each:,}" for each in counts), why or "-")
    if route.not_taking_part:
        table.add_row("no part", f"{route.not_taking_part:,}", *["-"] * 7)
    return table


def _percentiles(title: str, found: Sequence[Percentile]) -> Table:
    compared = any(each.holdout is not None for each in found)
    modelled = any(each.modelled is not None for each in found)
    columns = ["", "with hedging", *["held out", "change", "95 % interval", "seconds", "95 % interval"] * compared]
    table = titled(title, *columns, *["modelled without"] * modelled)
    for each in found:
        row = [pnn(each.percentile), seconds(each.hedged)]
        if compared:
            row += [seconds(each.holdout), *told(each.change, change, each.more_holdout)]
            row += told(each.difference, seconds, each.more_holdout)
        table.add_row(*row, *[seconds(each.modelled)] * modelled)
    return table


def told(found: Estimated | None, show: Callable[[float], str], more: int) -> list[str]:
    """A value, and its interval or how many more held out it takes."""
    if found is None:
        return ["-", "-"]
    if found.interval is None:
        return [show(found.value), f"{more:,} more held out" if more else "-"]
    return [show(found.value), between(found.interval, show)]


def facts(route: Route) -> Sequence[tuple[str, str]]:
    """What there is to say of rates and money, each with its name."""
    cost = route.cost
    found = [
        ("hedge rate", f"{percent(route.hedge_rate)} of the requests; {percent(route.win_rate)} of the hedges won")
    ]
    if cost.nanousd:
        parts = ", ".join(f"{money(amount)} {sure.replace('_', ' ')}" for sure, amount in cost.extra.items())
        most = "no upper bound" if cost.extra_most is None else f"at most {money(cost.extra_most)}"
        found.append(("cost", f"{money(cost.nanousd)} in all"))
        bounds = f"at least {money(cost.extra_least)}, {most}"
        found.append(("extra cost", f"{parts or '$0'}: {percent(cost.share)} on top of the rest ({bounds})"))
    if cost.measured_change is not None and cost.measured_nanousd is not None:
        more = cost.measured_nanousd
        span = f"{between(cost.measured_change.interval)}; {between(more.interval, money)}"
        text = f"{change(cost.measured_change.value)}, {money(more.value)}, against those held out ({span})"
        found.append(("cost per request", text))
    if cost.seconds_saved is not None:
        price = "" if cost.per_second is None else f", {money(cost.per_second)} each"
        found.append(("saved, modelled", f"{seconds(cost.seconds_saved)} of waiting{price}"))
    if cost.measured_seconds is not None:
        saved, per = cost.measured_seconds, cost.measured_per_second
        worth = "" if per is None else f", {money(per.value)} a second ({between(per.interval, money)})"
        each = f"{seconds(saved.value)} per request ({between(saved.interval, seconds)})"
        found.append(("saved, measured", each + worth))
    if route.mismatch is not None:
        found.append(("sides", f"as configured with a probability of {route.mismatch:.2g}"))
    return found


def _facts(route: Route) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    for name, text in facts(route):
        table.add_row(name, text)
    if len(route.timeline) > 1:
        table.add_row("hedges over time", sparkline([each.hedge_rate for each in route.timeline]))
        table.add_row("wins over time", sparkline([each.win_rate or 0.0 for each in route.timeline]))
    return table


def sparkline(values: Sequence[float]) -> str:
    """From nothing to the largest, which is named."""
    most = max(values)
    if not most:
        return f"{_BARS[0] * len(values)} none"
    bars = "".join(_BARS[round(value / most * (len(_BARS) - 1))] for value in values)
    return f"{bars} up to {percent(most)}"


def _targets(route: Route) -> Table:
    table = titled("targets", "", "attempts", "outcomes", "hedges won", "p50", "p99", "cost", "lost")
    for each in route.targets:
        counts = (", ".join(f"{name} {count:,}" for name, count in of.items()) for of in (each.attempts, each.outcomes))
        times = seconds(each.first_token_p50), seconds(each.first_token_p99)
        spent = (money(each.nanousd), money(each.nanousd_lost)) if each.nanousd else ("-", "-")
        table.add_row(each.name, *counts, f"{each.hedges_won:,}", *times, *spent)
    return table


def _pooled(pooled: Pooled, console: Console) -> None:
    console.rule(Text(f"routes {', '.join(pooled.routes)} together", "bold"), align="left")
    table = titled(
        "mean change, each counting by its requests", "", "first token", "95 % interval", "total", "95 % interval"
    )
    for name in {**pooled.first_token, **pooled.total}:
        both = (told(of.get(name), change, 0) for of in (pooled.first_token, pooled.total))
        table.add_row(name, *(cell for cells in both for cell in cells))
    console.print(table)
