"""A comparison of configurations, on a terminal and as a page."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from hedgerow.planner import terminal, words
from hedgerow.planner.compare import Comparison, Judged
from hedgerow.report.words import change, percent, seconds


def sheet(found: Comparison) -> words.Sheet:
    """The best first."""
    judged, target = found.judged, found.target_quantile
    gains = [words.gain(each.without, each.expected, target) for each in judged]
    rows = [
        ("asks", [", then ".join(each.targets) for each in judged]),
        ("hedges after", [each.delay for each in judged]),
        ("budget", ["no cap" if each.budget is None else percent(each.budget) for each in judged]),
        *words.times([each.expected for each in judged], target),
        (f"{words.pname(target)} without hedging", [seconds(words.value(each.without, target)) for each in judged]),
        ("changes by", list(map(change, gains))),
        ("requests that fail", [percent(each.expected.failed) for each in judged]),
        ("extra attempts", [percent(each.expected.extra) for each in judged]),
    ]
    return words.Sheet([_name(each) for each in judged], rows, 0 if len(judged) > 1 else None)


def told(found: Comparison) -> Sequence[str]:
    """Of each first target, which route serves its requests best."""
    lines = []
    for primary in dict.fromkeys(each.targets[0] for each in found.judged):
        best, *others = [each for each in found.judged if each.targets[0] == primary]
        if others:
            behind = ", ".join(_brings(each, found.target_quantile) for each in others)
            lines.append(f"Of {primary}'s requests: {_brings(best, found.target_quantile)}, before {behind}.")
    return lines


def _brings(each: Judged, target: float) -> str:
    value = seconds(words.value(each.expected, target))
    return f"{_name(each)} with a {words.pname(target)} of {value} for {percent(each.expected.extra)} extra attempts"


def _name(each: Judged) -> str:
    return f"{each.config}: {each.route}"


def show(found: Comparison, console: Console) -> None:
    """On a terminal."""
    console.print(Text(words.log_line(found.source)))
    for line in told(found):
        console.print(Text(line, "bold"))
    terminal.sheet(console, sheet(found))
    for note in found.notes:
        console.print(Text(note, "yellow"))


def render(found: Comparison) -> str:
    """As a page."""
    from hedgerow.report.html import rendered

    log = words.log_line(found.source)
    return rendered(__package__, "comparison.html.j2", found=found, log=log, told=told(found), compared=sheet(found))
