"""The result of a demo run in words and a table."""

from __future__ import annotations

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.demo.result import Check, Result

BUSY = 0.020
"""Real seconds added per request, p50, beyond which the machine was too busy; on a quiet one it is 1 to 2 ms."""

_WHY = {"outage": "outage: so many requests are later than the delay that hedges would only add load"}


def show(result: Result, console: Console) -> None:
    """Print the table, what it cost, how sure it is, and how to repeat it."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim", no_wrap=True)
    for label, words in _facts(result):
        facts.add_row(label, words)
    for problem in result.problems:
        facts.add_row("[bold red]inconsistent[/bold red]", escape(problem))
    if (doubt := _doubt(result)) is not None:
        facts.add_row("[bold red]busy machine[/bold red]", doubt)
    console.print(_table(result), facts, sep="\n", highlight=False)


def as_json(result: Result) -> str:
    """The result for scripts; `inside`: each p99 is where chance, if no hedge is skipped, allows it to be."""
    return msgspec.json.format(msgspec.json.encode(result)).decode()


def seconds(value: float) -> str:
    """Seconds as people write them: 850 ms, 1.07 s, 13.4 s."""
    if value < 0.9995:
        return f"{value * 1e3:.0f} ms"
    return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"


def _table(result: Result) -> Table:
    table = Table(title="time to first token", title_justify="left", title_style="bold")
    table.add_column("")
    for name in ("without hedging", "with hedging", "change"):
        table.add_column(name, justify="right")
    for name in ("p50", "p90", "p95", "p99", "max"):
        before, after = getattr(result.without, name), getattr(result.hedged, name)
        change = f"{(after / before - 1) * 100:+.0f} %"
        style = "bold" if name == "p99" else ""
        table.add_row(name, seconds(before), seconds(after), change, style=style)
    return table


def _facts(result: Result) -> list[tuple[str, str]]:
    """Pairs of label and words, in Rich's markup."""
    wasted = f"{result.tokens_wasted} generated and {result.prompt_tokens_wasted} of prompts, both by losers"
    facts = [
        ("hedge delay", seconds(result.delay)),
        ("extra attempts", f"{result.hedges} of {result.requests} requests ({result.extra_fraction * 100:.1f} %)"),
        *_skipped(result),
        ("tokens wasted", f"{wasted}: {result.wasted_cost_fraction * 100:.2f} % on top of the bill"),
    ]
    if (cancel := result.cancel) is not None:
        times = f"p50 {cancel.p50 * 1e3:.0f} ms, max {cancel.max * 1e3:.0f} ms of real time"
        facts.append(("cancel latency", f"{times}, from the winner's first token to the loser's closed connection"))
    formula = result.formula
    facts.append(("closed formula", f"p99 without: {_check(formula.without)}"))
    if result.skipped:  # the formula knows no guards
        p99, share = seconds(formula.hedged.formula), f"{formula.hedged_fraction * 100:.1f} %"
        facts.append(("", f"had no hedge been skipped: p99 with {p99}, extra attempts {share}; not compared"))
    else:
        facts.append(("", f"p99 with: {_check(formula.hedged)}"))
        facts.append(("", f"extra attempts: {formula.hedged_fraction * 100:.1f} %"))
    if result.held_back:
        facts.append(("held back", f"{result.held_back} arrivals waited for a free place in flight"))
    added = f"p50 {result.added * 1e3:.1f} ms of real time per request by client, gateway, labs and their timers"
    facts.append(("added", f"{added}; it is in the times above, scaled"))
    facts.append(("simulated", escape(result.source)))
    pace = "in real time" if result.speed == 1.0 else f"replayed {result.speed:g}x faster than life, times scaled back"
    facts.append(("", f"{result.rate:g} requests/s, {pace}; {result.real_seconds:.0f} s in all, seed {result.seed}"))
    if result.ok:
        checked = f"{2 * result.requests} answers, each whole, once, and its winner's own; every loser saw its cancel"
        facts.append(("consistent", f"[green]{checked}[/green]"))
    facts.append(("reproduce", f"[bold]{escape(result.reproduce)}[/bold]"))
    return facts


def _skipped(result: Result) -> list[tuple[str, str]]:
    """Why hedges that were due were not launched; nothing where all were."""
    counts = [f"{count} ({escape(_WHY.get(reason, reason))})" for reason, count in result.skipped.items()]
    return [("skipped hedges", ", ".join(counts))] if counts else []


def _doubt(result: Result) -> str | None:
    """When not to trust the figures, or the faults found; None when there is nothing to say."""
    if result.added > BUSY:
        return "this machine was too busy to judge: run it again when it is quiet"
    if not result.ok:
        return "other work on this machine can do this: run it again when it is quiet; if it comes back, it is a bug"
    return None


def _check(check: Check) -> str:
    verdict = "[green]inside[/green]" if check.inside else "[red]outside[/red]"
    return (
        f"{seconds(check.measured)} measured, {seconds(check.formula)} computed; {verdict} "
        f"the 95 % sampling interval {seconds(check.low)} to {seconds(check.high)}"
    )
