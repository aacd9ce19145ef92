"""What a probe found, in a table and in words: what it means for the bill, and what to write into the configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hedgerow.probe.result import Finding, Level, Result

_PHASES = {
    "before_headers": "before headers",
    "before_first_token": "before the first token",
    "mid_stream": "mid-stream",
    "whole_answer": "whole answer (not streamed)",
}
_STOPPED = {True: "[green]stopped[/green]", False: "[red]went on[/red]", None: "not known"}
LEVELS = {
    Level.CONFIRMED: "the upstream itself says so",
    Level.CLOSED: "our connection is closed, and that is all that is known",
    Level.UNKNOWN: "it was not cancelled in that phase",
}


def as_json(results: Mapping[str, Result]) -> str:
    """For scripts: by target what is kept in the file, and what it comes to."""
    shown = {
        name: {
            **msgspec.to_builtins(result),
            "streams_stop": result.streams,
            "whole_answers_stop": result.whole,
            "billed_on_cancel": advised(result),
        }
        for name, result in results.items()
    }
    return msgspec.json.format(msgspec.json.encode(shown)).decode()


def show(name: str, result: Result, console: Console) -> None:
    """Print the table and what it means."""
    table = Table(title=f"{escape(name)}: what a cancel stops", title_justify="left", title_style="bold")
    for heading in ("cancelled", "evidence", "generation", "our end closed", "noticed", "tokens", "more", ""):
        table.add_column(heading, justify="right" if heading in ("tokens", "more") else "left")
    for finding in result.findings:
        table.add_row(*_row(finding))
    console.print(table, highlight=False)
    used = {finding.level for finding in result.findings}
    for level in (each for each in Level if each in used):
        console.print(f"  [dim]{level}: {LEVELS[level]}[/dim]", highlight=False)
    for line in meaning(result):
        console.print(escape(line), highlight=False, soft_wrap=True)


def _row(finding: Finding) -> list[str]:
    return [
        _PHASES[finding.phase],
        finding.level,
        _STOPPED[finding.stopped],
        _after(finding.closed_after),
        _after(finding.noticed_after),
        "" if finding.tokens_before is None else str(finding.tokens_before),
        "" if finding.tokens_after is None else str(finding.tokens_after),
        escape(finding.note),
    ]


def _after(time: float | None) -> str:
    return "" if time is None else f"{time * 1000:.1f} ms" if time < 0.9995 else f"{time:.2f} s"


_BILLED = {True: "generated", False: "full"}


def advised(result: Result) -> dict[str, str]:
    """The `billed_on_cancel` that fits what was found: of streams and of whole answers, as far as that is known."""
    kinds = {"stream": result.streams, "whole": result.whole}
    return {kind: _BILLED[stops] for kind, stops in kinds.items() if stops is not None}


def meaning(result: Result) -> Iterator[str]:
    """What it comes to, in sentences, and what to write into the configuration."""
    stop = ["streams"] * (result.streams is True) + ["whole answers"] * (result.whole is True)
    run_on = ["streams"] * (result.streams is False) + ["whole answers"] * (result.whole is False)
    unknown = ["streams"] * (result.streams is None) + ["whole answers"] * (result.whole is None)
    if stop:
        what = " and ".join(stop).capitalize()
        yield f"{what} stop when they are cancelled; what was generated until then may still be charged for."
    if run_on:
        yield f"{' and '.join(run_on).capitalize()} go on when they are cancelled: a loser is paid for in full."
    if unknown:
        what = " and ".join(unknown)
        yield f"Of {what} nobody upstream says whether they stop: what a loser costs stays an estimate."
    if advice := advised(result):
        one = set(advice.values()) if len(advice) == 2 else set()
        several = ", ".join(f"{kind}: {value}" for kind, value in advice.items())
        yield f"  billed_on_cancel: {one.pop() if len(one) == 1 else '{' + several + '}'}"
    if result.streams is False or (run_on and result.streams is None):
        yield "  on_cancel_failure: raise_delay (or disable)"
    elif run_on:
        yield "  nonstream_as_stream: true on its routes has whole answers asked for as streams, which stop"
