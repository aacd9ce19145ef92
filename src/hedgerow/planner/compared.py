"""A comparison of configurations, on a terminal and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from pathlib import Path

from rich.console import Console
from rich.text import Text

from hedgerow.planner import terminal, words
from hedgerow.planner.compare import Comparison, Judged
from hedgerow.planner.plan import Outcome
from hedgerow.report.words import change, percent, seconds


def sheet(found: Comparison) -> words.Sheet:
    """A column for each route."""
    judged, target = found.judged, found.target_quantile
    costs = [words.extra_cost(each.expected) for each in judged]
    rows = [
        ("asks", [", then ".join(each.targets) for each in judged]),
        ("hedges after", [each.delay for each in judged]),
        ("budget", ["no cap" if each.budget is None else percent(each.budget) for each in judged]),
        *words.times([each.expected for each in judged], target),
        (f"{words.pname(target)}, a failure slowest", [_of_all(each.expected) for each in judged]),
        ("the same without hedging", [_of_all(each.without) for each in judged]),
        ("changes by", [change(_gain(each)) for each in judged]),
        ("requests that fail", [percent(each.expected.failed) for each in judged]),
        ("extra attempts", [percent(each.expected.extra) for each in judged]),
        *[("extra cost per 1,000", costs)] * (set(costs) != {"-"}),
    ]
    comparable = len(judged) > 1 and len({each.targets[0] for each in judged}) == 1
    return words.Sheet([_name(found, each) for each in judged], rows, 0 if comparable else None)


def told(found: Comparison) -> Sequence[str]:
    """Of each first target, which route serves its requests best."""
    lines = []
    pname = words.pname(found.target_quantile)
    for primary in dict.fromkeys(each.targets[0] for each in found.judged):
        best, *others = [each for each in found.judged if each.targets[0] == primary]
        if others:
            behind = "; then ".join(_brings(found, each) for each in others)
            counted = " (a failure counts as slower than any answer)" if any(map(_fails, (best, *others))) else ""
            lines.append(
                f"By {pname}{counted} requests of {primary} fare best with {_brings(found, best)}; then {behind}."
            )
    return lines


def _fails(each: Judged) -> bool:
    return each.expected.failed > 0.0


def _brings(found: Comparison, each: Judged) -> str:
    expected = each.expected
    answers = f", {seconds(words.value(expected, found.target_quantile))} of answers" if _fails(each) else ""
    failing = f", and {percent(expected.failed)} fail" if _fails(each) else ""
    extra = percent(expected.extra)
    return f"{_name(found, each)}: {_of_all(expected)}{answers} for {extra} extra attempts{failing}"


def _of_all(outcome: Outcome) -> str:
    return seconds(outcome.of_all) if isfinite(outcome.of_all) else "a failure"


def _gain(each: Judged) -> float | None:
    before, after = each.without.of_all, each.expected.of_all
    return after / before - 1.0 if isfinite(before) and isfinite(after) else None


def _name(found: Comparison, each: Judged) -> str:
    """The route, and the file where there are several."""
    files = {one.config for one in found.judged}
    short = {Path(file).name for file in files}
    file = each.config if len(short) < len(files) else Path(each.config).name
    return f"{each.route} of {file}" if len(files) > 1 else each.route


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
