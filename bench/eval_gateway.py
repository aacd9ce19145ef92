"""Recorded latencies replayed through `hedgerow demo`, and its p99 set beside the closed formula.

    python -m bench.eval_gateway FOLDER          (or: make eval DATA=FOLDER)

FOLDER holds CSV files of recorded times to first token, one row per request, named as in `SERIES`. Each series is
replayed twice, without hedging and with a hedge after its own p95. The formula (hedgerow.demo.formula) says what p99
independent draws from the same times must have, and between which values chance puts the p99 of so many requests.

The rule: a measured p99 must not lie outside the interval in which it falls by chance in 999 of 1,000 runs. Client,
gateway, labs and timers add some time of their own, which the formula does not know: above the interval, twice the
median of what they added is allowed. A replay in which that median, or the hedged p50, is more than `QUIET` late was
disturbed by other work on the machine. Whatever its p99, it is run again, `TRIES` times in all at most.

Exit code 1 if a p99 breaks the rule or the demo finds an inconsistency, 2 if a file is missing or not usable, 3 if the
machine was never quiet enough.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from hedgerow.demo.formula import Law
from hedgerow.demo.options import DemoOptions
from hedgerow.demo.report import seconds
from hedgerow.demo.result import Check, Result
from hedgerow.demo.source import Source, source
from hedgerow.errors import ConfigError

CONFIDENCE = 0.999
SLACK = 2.0
QUIET = 0.005
"""Real seconds by which half of the requests may be late; on an idle machine they are by 1 to 2 ms."""
TRIES = 4


@dataclass(frozen=True, slots=True)
class Series:
    """Rows of one file that were measured together."""

    name: str
    file: str
    where: tuple[str, ...]
    column: str = "ttft_ms"


SERIES = (
    Series("together 13B, 2023", "llmperf_leaderboard_2023.csv", ("run=together_13b", "status=ok")),
    Series("replicate 70B, 2023", "llmperf_leaderboard_2023.csv", ("run=replicate_70b", "status=ok")),
    Series("OpenAI gpt-4o, 2024", "openai_regression_2024.csv", ("model=gpt-4o-2024-05-13", "status=ok")),
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One phase of one replay; times in seconds."""

    series: str
    hedged: bool
    samples: int
    requests: int
    delay: float
    check: Check
    reach: tuple[float, float]
    """Outside of it the measured p99 breaks the rule."""
    extra: float
    extra_computed: float
    late: float
    """Real seconds by which half of the requests came late; see `lateness`."""

    @property
    def ok(self) -> bool:
        low, high = self.reach
        return low <= self.check.measured <= high


def findings(series: Series, times: Source, result: Result) -> list[Finding]:
    """Both phases of `result`, which is a replay of `times`."""
    found = []
    slack = SLACK * result.added * result.speed
    late = lateness(times, result)
    for hedged, check in ((False, result.formula.without), (True, result.formula.hedged)):
        law = Law(times.samples, delay=times.delay if hedged else None)
        low, high = law.quantile_interval(0.99, result.requests, confidence=CONFIDENCE)
        found.append(
            Finding(
                series=series.name,
                hedged=hedged,
                samples=len(times.samples),
                requests=result.requests,
                delay=times.delay,
                check=check,
                reach=(low, high + slack),
                extra=result.extra_fraction if hedged else 0.0,
                extra_computed=law.hedged_fraction(),
                late=late,
            )
        )
    return found


def lateness(times: Source, result: Result) -> float:
    """By how many real seconds half of the requests were late, in the worse of the two phases.

    Without hedging the demo says it, since every time is known. With hedging it shows in a p50 above its interval.
    """
    _, high = Law(times.samples, delay=times.delay).quantile_interval(0.5, result.requests, confidence=CONFIDENCE)
    return max(result.added, (result.hedged.p50 - high) / result.speed)


HEAD = (
    *("series", "recorded", "hedge after", "p99 measured", "p99 computed", "95 % interval", "where"),
    *("extra attempts", "computed", "late"),
)


def table(found: Sequence[Finding]) -> str:
    """The findings as a Markdown table."""
    rows = [_row(one) for one in found]
    widths = [max(len(row[column]) for row in (HEAD, *rows)) for column in range(len(HEAD))]
    rule = tuple("-" * width for width in widths)
    lines = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in (HEAD, rule, *rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _row(one: Finding) -> tuple[str, ...]:
    check = one.check
    return (
        one.series,
        str(one.samples),
        seconds(one.delay) if one.hedged else "never",
        seconds(check.measured),
        seconds(check.formula),
        f"{seconds(check.low)} to {seconds(check.high)}",
        "inside" if check.inside else "outside" if one.ok else "FAR OUTSIDE",
        f"{one.extra * 100:.1f} %",
        f"{one.extra_computed * 100:.1f} %",
        f"{one.late * 1e3:.1f} ms",
    )


class NoResult(Exception):
    """The demo failed."""


def quiet_replay(series: Series, times: Source, folder: Path, options: argparse.Namespace) -> Result:
    """The first undisturbed replay, else the last of `TRIES`. Raises `NoResult`."""
    result = replay(series, folder, options)
    for _ in range(TRIES - 1):
        if (late := lateness(times, result)) <= QUIET:
            break
        print(f"{series.name}: disturbed, half of the requests were {late * 1e3:.0f} ms late; again", file=sys.stderr)
        result = replay(series, folder, options)
    return result


def replay(series: Series, folder: Path, options: argparse.Namespace) -> Result:
    """Run the demo on this series; its progress goes to stderr. Raises `NoResult`."""
    command = [sys.executable, "-m", "hedgerow", "demo", "--json", "--column", series.column]
    command += ["--latencies", str(folder / series.file)]
    command += [part for condition in series.where for part in ("--where", condition)]
    command += [f"--{name}={getattr(options, name)}" for name in ("requests", "rate", "speed", "seed")]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    try:
        return msgspec.json.decode(run.stdout, type=Result)
    except msgspec.DecodeError:
        raise NoResult(f"{series.name}: the demo ended with {run.returncode} and no result") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m bench.eval_gateway", description="Replay recorded latencies.")
    parser.add_argument("folder", type=Path, help="where the CSV files are")
    parser.add_argument("--requests", type=int, default=800, help="in each of the two phases (default: 800)")
    parser.add_argument("--rate", type=float, default=50.0, help="requests per real second (default: 50)")
    parser.add_argument("--speed", type=float, default=10.0, help="how much faster than life (default: 10)")
    parser.add_argument("--seed", type=int, default=13, help="of the arrivals and draws (default: 13)")
    options = parser.parse_args(arguments)
    try:
        sources = [_source(series, options.folder) for series in SERIES]
    except ConfigError as error:
        for problem in error.problems:
            print(f"eval: {problem}", file=sys.stderr)
        return 2
    found: list[Finding] = []
    faults: list[str] = []
    for number, (series, times) in enumerate(zip(SERIES, sources, strict=True), 1):
        print(f"[{number}/{len(SERIES)}] {series.name}: {times.about}", file=sys.stderr)
        try:
            result = quiet_replay(series, times, options.folder, options)
        except NoResult as error:
            print(f"eval: {error}", file=sys.stderr)
            return 1
        found += findings(series, times, result)
        faults += [f"{series.name}: inconsistent: {problem}" for problem in result.problems]
    print(table(found))
    print(f"\n{options.requests} requests per row, {options.speed:g}x faster than life, seed {options.seed}.")
    return verdict(found, faults)


def verdict(found: Sequence[Finding], inconsistencies: Sequence[str]) -> int:
    """Say what is wrong on stderr; returns the exit code."""
    busy = sorted({one.series for one in found if one.late > QUIET})
    if busy:
        print(f"eval: the machine was busy with other work during {', '.join(busy)}; no verdict", file=sys.stderr)
        return 3
    faults = [
        f"{one.series}, {'hedged' if one.hedged else 'not hedged'}: p99 outside its {CONFIDENCE * 100:.1f} % interval"
        for one in found
        if not one.ok
    ]
    for fault in (*faults, *inconsistencies):
        print(f"eval: {fault}", file=sys.stderr)
    return 1 if faults or inconsistencies else 0


def _source(series: Series, folder: Path) -> Source:
    options = DemoOptions(latencies=folder / series.file, column=series.column, where=series.where)
    return source(options)


if __name__ == "__main__":
    sys.exit(main())
