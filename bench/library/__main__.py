"""`make bench-library`: what hedging a call in process costs and what it leaves behind, beside every Python peer."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from bench.install import CannotInstall, pip, pip_version
from bench.library.report import Row, report
from bench.machine import look

HERE = Path(__file__).parent
SMALL = ("asynchedging==1.0.4", "nopanic==0.3.0", "grit-toolkit==0.2.0")
HTTP = ("hedge-python==0.3.0", "httpx-hedged==0.5.0", "httpx==0.28.1")
LITELLM = ("litellm==1.110.2",)


@dataclass(frozen=True)
class Candidate:
    """One way, what it is installed from (nothing: this tree), and the way that does the same without hedging."""

    way: str
    without: str
    package: str = ""
    requirements: tuple[str, ...] = ()
    home: str = ""
    calls: int = 3_000


CANDIDATES = (
    Candidate("asyncio task", "bare"),
    Candidate("asyncio.wait by hand", "bare"),
    Candidate("hedgerow Hedger", "bare"),
    Candidate("hedgerow hedge()", "bare"),
    Candidate("hedgerow auto, 10 %", "bare"),
    Candidate("hedgerow race", "bare"),
    Candidate("asynchedging", "bare", "asynchedging", SMALL, "library-small"),
    Candidate("nopanic", "bare", "nopanic", SMALL, "library-small"),
    Candidate("grit-toolkit", "bare", "grit-toolkit", SMALL, "library-small"),
    Candidate("hedge-python", "httpx bare", "hedge-python", HTTP, "library-http"),
    Candidate("httpx-hedged", "httpx bare", "httpx-hedged", HTTP, "library-http"),
    Candidate("LiteLLM fastest_response", "LiteLLM bare", "litellm", LITELLM, "library-litellm", 300),
)


@dataclass
class Measured:
    """All runs of one way."""

    runs: list[dict[str, float]] = field(default_factory=list)

    def of(self, key: str) -> float | None:
        """The median over the runs; of times the least, since what others do only adds to them."""
        values = [run[key] for run in self.runs if key in run]
        if not values:
            return None
        return min(values) if key == "us" else median(values)


def measure(python: str, way: str, calls: int) -> dict[str, float]:
    done = subprocess.run(
        [python, str(HERE / "worker.py"), way, str(calls)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    )
    if done.returncode:
        raise CannotInstall((done.stderr.strip().splitlines() or ["failed without a word"])[-1][:200])
    found: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def python_of(candidate: Candidate) -> tuple[str, str]:
    """The interpreter that has it, and its version."""
    if not candidate.requirements:
        return sys.executable, "this tree" if candidate.way.startswith("hedgerow") else ""
    there = pip(candidate.home, *candidate.requirements)
    return str(there / "python"), pip_version(there, candidate.package)


def main() -> None:
    parser = argparse.ArgumentParser(prog="make bench-library", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="names of ways, with commas between")
    parser.add_argument("--calls", type=int, default=0, help="in place of each way's own number")
    options = parser.parse_args()
    chosen = [each for each in CANDIDATES if not options.only or each.way in options.only.split(",")]
    pythons: dict[str, tuple[str, str]] = {}
    missing: dict[str, str] = {}
    for candidate in chosen:
        try:
            pythons[candidate.way] = python_of(candidate)
        except CannotInstall as reason:
            missing[candidate.way] = str(reason)
    measured: dict[tuple[str, str], Measured] = {}
    for number in range(options.rounds):
        ready = [each for each in chosen if each.way in pythons]
        for candidate in ready if number % 2 == 0 else ready[::-1]:
            run(candidate, pythons[candidate.way][0], options.calls or candidate.calls, measured, missing)
    rows = [row_of(each, pythons[each.way], measured) for each in chosen if each.way not in missing]
    print(report(look(), options.rounds, rows, missing))


def run(
    candidate: Candidate,
    python: str,
    calls: int,
    measured: dict[tuple[str, str], Measured],
    missing: dict[str, str],
) -> None:
    for way in (candidate.without, candidate.way):
        print(f"  {way} …", file=sys.stderr, flush=True)
        try:
            measured.setdefault((python, way), Measured()).runs.append(measure(python, way, calls))
        except CannotInstall as reason:
            missing[candidate.way] = str(reason)


def row_of(candidate: Candidate, python: tuple[str, str], measured: dict[tuple[str, str], Measured]) -> Row:
    found, without = measured[python[0], candidate.way], measured[python[0], candidate.without]
    values: dict[str, Any] = {
        key: found.of(key) for key in ("us", "p50", "p99", "extra", "orphans", "unclosed", "wrong")
    }
    return Row(name=candidate.way, version=python[1], bare=without.of("us") or 0.0, **values)


if __name__ == "__main__":
    main()
