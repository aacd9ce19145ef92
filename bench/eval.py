"""Recorded latencies, replayed through the gateway's own decisions and through the gateway itself.

    python -m bench.eval FOLDER          (or: make eval DATA=FOLDER)

Three parts. `policy`: every stream of the folder, and some that are made up, goes through the objects with which the
gateway decides, in virtual time, within budgets of 2, 5, 10 and 20 % of the requests. What comes of it is set beside
the best that was possible. `planner`: what a plan of the first half of each stream says is set beside what comes of it
in the second. `gateway`: three streams go through the gateway as a process, with real sockets and a fixed
delay, and what comes of it is set beside arithmetic. docs/evaluation.md says where the files come from.

Exit code 1 if something is worse than promised, 2 if the folder is not usable, 3 if the machine was too busy for the
last part.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from bench import eval_gateway, eval_planner
from bench.eval_part import Part, all_of, verdict
from bench.eval_replay import RATE
from bench.eval_report import report
from bench.eval_score import WARM, Score, score
from bench.streams_made import MEDIAN, alike, day, spells
from bench.streams_recorded import Plan, files, plans

BUDGETS = (0.02, 0.05, 0.1, 0.2)
CHANGING = 3
"""How many times as long the streams are that change, so that they change often."""


def made() -> list[Plan]:
    """Streams that need no file."""
    return [
        Plan(MEDIAN.name, "made", partial(alike, MEDIAN)),
        Plan(f"{MEDIAN.name}, r 0.3", "made", partial(alike, MEDIAN, correlation=0.3)),
        Plan("slow spells, both", "changing", partial(spells, MEDIAN, both=True)),
        Plan("slow spells, primary", "changing", partial(spells, MEDIAN, both=False)),
        Plan("course of a day", "changing", partial(day, MEDIAN)),
    ]


def scores(chosen: Sequence[Plan], options: argparse.Namespace) -> list[Score]:
    """All streams within all budgets, on as many processes as asked for; progress goes to stderr."""
    jobs = [(plan, budget) for plan in chosen for budget in options.budgets or BUDGETS]
    words = [f"{plan.name}, budget {100 * budget:g} %" for plan, budget in jobs]
    return all_of([partial(_score, *job, options) for job in jobs], words, options.jobs)


def _score(plan: Plan, budget: float, options: argparse.Namespace) -> Score:
    count = options.requests * (CHANGING if plan.group == "changing" else 1)
    stream = plan.make(count, Random(options.seed))
    return score(plan.group, stream, budget, rate=options.rate, seed=options.seed)


def replay_policy(options: argparse.Namespace) -> Part:
    """The part in virtual time."""
    try:
        every = [*plans(options.folder, options.endpoints, options.seed), *made()]
    except (OSError, ValueError, KeyError) as error:
        print(f"eval: {options.folder}: {error}", file=sys.stderr)
        return Part(2)
    chosen = [
        plan for plan in every if not options.only or any(one in f"{plan.group} {plan.name}" for one in options.only)
    ]
    if not chosen:
        print(f"eval: no stream is called so; there are {', '.join(sorted({p.name for p in every}))}", file=sys.stderr)
        return Part(2)
    missing = [name for name in files() if not (options.folder / name).exists()]
    for name in missing:
        print(f"eval: {options.folder} has no {name}: its streams are left out", file=sys.stderr)
    found = scores(chosen, options)
    faults = [
        f"{one.stream}, {one.draw}, budget {100 * one.budget:g} %: {fault}" for one in found for fault in one.faults()
    ]
    return Part(verdict(faults), report(found, options), found)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.eval",
        description="Replay recorded latencies through the gateway's decisions, its planner (virtual time) and itself.",
        epilog='With make: make eval DATA=folder ARGS="--only gpt-4o --budgets 0.05"',
    )
    parser.add_argument("folder", type=Path, help=f"where the files are; any of: {', '.join(files())}")
    parser.add_argument("--part", choices=("policy", "planner", "gateway", "all"), default="all", help="(default: all)")
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD", help="streams whose group or name holds it; repeatable"
    )
    parser.add_argument(
        "--budgets",
        type=_shares,
        metavar="A,B",
        help="extra attempts per request (0.02,0.05,0.1,0.2; planner 0.05,0.1)",
    )
    parser.add_argument(
        "--requests", type=int, default=20_000, help="of each stream, for the planner of each half (default: 20000)"
    )
    parser.add_argument("--rate", type=float, default=RATE, help=f"requests per second (default: {RATE:g})")
    parser.add_argument("--endpoints", type=int, default=12, help="of those known by percentiles (default: 12)")
    parser.add_argument("--seed", type=int, default=13, help="of draws and arrivals (default: 13)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes (default: all cores)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write the tables there too")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    options = parser.parse_args(arguments)
    if options.requests < 2 * WARM:
        parser.error(f"--requests: the first {WARM} are not counted, so there must be {2 * WARM} or more")
    return options


def _shares(text: str) -> tuple[float, ...]:
    shares = tuple(float(part) for part in text.split(","))
    if not all(0.0 < share <= 1.0 for share in shares):
        raise argparse.ArgumentTypeError("budgets are shares above 0 and at most 1, such as 0.05")
    return shares


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code, the worst of its parts'."""
    options = _options(arguments)
    if not options.folder.is_dir():
        print(f"eval: {options.folder} is no folder", file=sys.stderr)
        return 2
    parts = {name: run for name, run in _PARTS.items() if options.part in (name, "all")}
    done = {}
    for name, run in parts.items():
        done[name] = part = run(options)
        if part.text:
            print(part.text, flush=True)
    _write(done, options)
    codes = [part.code for part in done.values()]
    if options.part in ("gateway", "all"):
        print("\nThrough the gateway:\n", flush=True)
        codes.append(eval_gateway.main([str(options.folder), f"--seed={options.seed}"]))
    return next((code for code in (2, 1, 3) if code in codes), 0)


_PARTS = {"policy": replay_policy, "planner": eval_planner.run}


def _write(done: Mapping[str, Part], options: argparse.Namespace) -> None:
    if options.markdown:
        options.markdown.write_text("".join(f"{part.text}\n" for part in done.values()))
    if options.json:
        figures = {name: part.figures for name, part in done.items()}
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(figures), indent=1))


if __name__ == "__main__":
    sys.exit(main())
