"""`python -m bench`: measures hedgerow beside its peers and writes bench/results/<date>-<host class>.{md,json}."""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from bench.driver import build
from bench.goals import US
from bench.harness import WORK, Bench, cores, say
from bench.install import CannotInstall
from bench.machine import look
from bench.peers import ALL, QUICK
from bench.plan import Plan
from bench.table import report

_RESULTS = Path(__file__).parent / "results"


def _options(argv: Sequence[str]) -> argparse.Namespace:
    names = ", ".join(peer.name for peer in ALL)
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="hedgerow, nginx and Envoy only, two short rounds; under 90 s"
    )
    parser.add_argument("--peers", metavar="A,B", help=f"only these, of: {names}")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each candidate (5; slow ones 2)")
    parser.add_argument("--seconds", type=float, metavar="S", help="length of one run (2; 0.8 with --quick)")
    parser.add_argument("--no-spin", action="store_true", help="let the load generator sleep when it has nothing to do")
    parser.add_argument("--results", type=Path, default=_RESULTS, metavar="DIR", help="where to write (bench/results)")
    options = parser.parse_args(argv)
    wanted = options.peers.split(",") if options.peers else [peer.name for peer in (QUICK if options.quick else ALL)]
    if unknown := set(wanted) - {peer.name for peer in ALL}:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}; there are {names}")
    options.chosen = tuple(peer for peer in ALL if peer.name in wanted)
    return options


def main(argv: Sequence[str]) -> int:
    """Returns 1 when hedgerow could not be measured or gave a wrong answer; a goal that is short is only reported."""
    options = _options(argv)
    rounds = options.rounds or (2 if options.quick else 5)
    plan = Plan(
        peers=options.chosen,
        rounds=rounds,
        slow_rounds=min(rounds, 2),
        duration=options.seconds or (0.8 if options.quick else 2.0),
    )
    try:
        program = build(WORK)
    except CannotInstall as reason:
        raise SystemExit(f"bench: the load generator needs a C compiler and its headers: {reason}") from None
    machine = look()
    load_core, gateway_core = cores()
    bench = Bench(plan=plan, program=program, spin=not options.no_spin, load_core=load_core, gateway_core=gateway_core)
    names = ", ".join(peer.name for peer in plan.peers)
    say(f"bench: {names}; {rounds} rounds; load on core {load_core}, gateway on core {gateway_core}")
    bench.install()
    bench.measure()
    command = " ".join(["python -m bench", *argv])
    text = report(
        bench.candidates, machine, command=command, when=time.strftime("%Y-%m-%d"), spin=bench.spin, rounds=rounds
    )
    options.results.mkdir(parents=True, exist_ok=True)
    name = f"{time.strftime('%Y-%m-%d')}-{machine.host_class}{'-quick' if options.quick else ''}"
    (options.results / f"{name}.md").write_text(text)
    raw = {"command": command, "machine": asdict(machine), "candidates": [asdict(c) for c in bench.candidates.values()]}
    (options.results / f"{name}.json").write_text(json.dumps(raw, indent=1) + "\n")
    print(text)
    say(f"written: {options.results / name}.md and .json")
    ours = bench.candidates.get(US)
    return 1 if ours is not None and (ours.failed or ours.errors()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
