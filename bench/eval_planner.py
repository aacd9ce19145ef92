"""The planner held to its word: what a plan of the first half of a log says, and what comes of it in the second."""

from __future__ import annotations

import argparse
import sys
from functools import partial

from bench import eval_rounds
from bench.eval_forecast import Forecast, forecasts
from bench.eval_part import Part, all_of, verdict
from bench.eval_planner_report import report
from bench.streams_logs import Subject, subjects

BUDGETS = (0.05, 0.1)
"""Unless others are asked for."""
LENGTH = 2
"""How many times as long as asked for the logs are, so that each half is."""


def run(options: argparse.Namespace) -> Part:
    """All logs of the folder, and the rounds that another project has published."""
    try:
        every = subjects(options.folder, LENGTH * options.requests, options.rate, options.seed)
        path = options.folder / eval_rounds.FILE
        rounds = eval_rounds.replayed(*eval_rounds.read(path)) if path.exists() else None
    except (OSError, ValueError, KeyError) as error:
        print(f"eval: {options.folder}: {error}", file=sys.stderr)
        return Part(2)
    chosen = [each for each in every if _asked_for(each, options)]
    if not chosen:
        there = ", ".join(sorted({each.name for each in every})) or "none at all"
        print(f"eval: no log to plan from is called so; there are {there}", file=sys.stderr)
        return Part(2)
    budgets = options.budgets or BUDGETS
    words = [f"{each.name}, {_kind(each)}, and its plan" for each in chosen]
    jobs = [partial(forecasts, each, budgets, options.seed) for each in chosen]
    found = all_of(jobs, words, options.jobs)
    rows = [one for each in found for one in each]
    faults = [
        f"{one.stream}, {_kind(one)}, budget {100 * one.budget:g} %: {fault}" for one in rows for fault in one.faults()
    ]
    faults += [] if rounds is None else eval_rounds.faults(rounds)
    return Part(verdict(faults), report(rows, rounds), rows)


def _asked_for(subject: Subject, options: argparse.Namespace) -> bool:
    return not options.only or any(one in f"{subject.group} {subject.name}" for one in options.only)


def _kind(of: Subject | Forecast) -> str:
    return "at length" if of.at_length else "as recorded"
