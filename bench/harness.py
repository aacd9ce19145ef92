"""Runs a plan: a fresh process for each candidate and round, load on one core, the candidate on the other."""

import os
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from bench.driver import LoadGenerator
from bench.install import CannotInstall
from bench.peer import Installed, Peer, Setup
from bench.plan import DIRECT, Plan
from bench.process import Wrong, free_port, started
from bench.record import Candidate

WORK = Path(__file__).parent / ".work"


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


@dataclass(slots=True)
class Bench:
    """One benchmark under way: plan, load generator, cores, and what was measured so far."""

    plan: Plan
    program: Path
    spin: bool
    load_core: int
    gateway_core: int
    candidates: dict[str, Candidate] = field(default_factory=dict)
    installed: dict[str, Installed] = field(default_factory=dict)

    def install(self) -> None:
        """Installs what is missing; what cannot be installed stays in the table with the reason."""
        self.candidates[DIRECT] = Candidate(name=DIRECT, about="the load generator to its own upstream, no gateway")
        for peer in self.plan.peers:
            candidate = self.candidates[peer.name] = Candidate(name=peer.name, about=peer.about)
            try:
                self.installed[peer.name] = peer.install()
                candidate.version = self.installed[peer.name].version
            except CannotInstall as reason:
                candidate.failed = f"cannot be installed: {reason}"
                say(f"  {peer.name}: {candidate.failed}")

    def measure(self) -> None:
        """All rounds."""
        begun = time.monotonic()
        for number in range(self.plan.rounds):
            say(f"round {number + 1} of {self.plan.rounds} ({time.monotonic() - begun:.0f} s)")
            self._direct(number)
            for peer in self.plan.turn(number):
                if not self.candidates[peer.name].failed:
                    self._one(peer, number)

    def _load(self, setup: Setup, peer: Peer | None) -> LoadGenerator:
        return LoadGenerator(
            self.program,
            core=self.load_core,
            upstream_port=setup.upstream,
            path=peer.path if peer else "/v1/chat/completions",
            model=peer.model if peer else "bench",
            headers=peer.headers(setup) if peer else {},
        )

    def _direct(self, number: int) -> None:
        setup = _setup(DIRECT)
        with self._load(setup, None) as load:
            for run in self.plan.runs(None):
                self.candidates[DIRECT].add(run.name, number, load.measure(run, port=setup.upstream, spin=self.spin))

    def _one(self, peer: Peer, number: int) -> None:
        candidate, setup = self.candidates[peer.name], _setup(peer.name)
        try:
            with (
                self._load(setup, peer) as load,
                started(peer, self.installed[peer.name], setup, core=self.gateway_core) as running,
            ):
                candidate.ready[number] = running.ready
                for run in self.plan.runs(peer):
                    result = load.measure(run, port=running.port, pid=running.pid, spin=self.spin)
                    candidate.add(run.name, number, result)
        except Wrong as reason:
            candidate.failed = str(reason)
        except Exception as error:  # a peer that breaks the run is a row of the table, not the end of the benchmark
            candidate.failed = f"{type(error).__name__}: {error}"
        say(f"  {_short(candidate, number)}")


def _setup(name: str) -> Setup:
    port = free_port()
    return Setup(port=port, upstream=port + 2, work=WORK / name)


def _short(candidate: Candidate, number: int) -> str:
    """One line of progress."""
    if candidate.failed:
        return f"{candidate.name}: {candidate.failed}"
    rounds = {run: results[number] for run, results in candidate.runs.items()}
    rates = ", ".join(
        f"{run} {float(result['chunks_per_s' if result['mode'] == 'sse' else 'rps']):,.0f}/s"
        for run, result in rounds.items()
    )
    wrong = sum(float(result["errors"]) for result in rounds.values())
    return f"{candidate.name}: ready {candidate.ready[number]:.2f} s, {rates}" + (
        f", {wrong:.0f} ERRORS" if wrong else ""
    )


def cores() -> tuple[int, int]:
    """The core of the load generator and the core of the gateway."""
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise SystemExit("bench: needs two cores, one for the load and one for the gateway")
    return allowed[0], allowed[1]
