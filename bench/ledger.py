"""What the ledger costs: the pipeline alone, then a gateway without and with it, in turns.

Run: python -m bench.ledger [--paced] [ROUNDS]

With --paced requests come at fixed rates, whatever becomes of earlier ones: what a user's p99 is made of.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from bench.driver import LoadGenerator, Run, build
from bench.harness import WORK, cores, say
from bench.peer import Installed, Launch, Peer, Setup
from bench.peers.hedgerow import HEDGEROW
from bench.process import free_port, started
from hedgerow.events import (
    AttemptEnded,
    AttemptLaunched,
    Bill,
    Certainty,
    Event,
    Outcome,
    RequestBilled,
    RequestFinished,
    RequestStarted,
    Role,
    Usage,
)
from hedgerow.ledger import read
from hedgerow.ledger.feed import Feed
from hedgerow.ledger.settings import LedgerSettings

GOAL = 5_000
"""Requests per second into SQLite."""
REQUESTS = 50_000
RUNS = (Run("1 connection", "json", 1, 2.0, 1.0), Run("64 connections", "json", 64, 4.0, 3.0))
PACED = tuple(Run(f"{rate:,}/s", "json", 64, 5.0, 2.0, rate=rate) for rate in (1_000, 2_500, 5_000))
SHOWN = "us_per_request", "rps", "p50_us", "p99_us", "p999_us"


def told(number: int, at: float) -> Iterator[Event]:
    """All that is told of a request whose first attempt wins."""
    name, usage = f"hr-bench-{number}", Usage(400, 120, 256)
    yield RequestStarted(name, "bench", "openai.chat", False, at, "bench", "0123456789abcdef")
    yield AttemptLaunched(name, 0, "first", Role.PRIMARY, at, "bench-upstream")
    times = at, at + 0.4, at + 0.5, at + 1.0
    end = name, 0, "first", Role.PRIMARY, Outcome.WON, *times, 200, 900, None, usage, False, 400, "bench-upstream", at
    yield AttemptEnded(*end, "stop", "default")
    yield RequestFinished(name, "bench", "openai.chat", False, at, at + 0.5, at + 1.0, 200, 0, 1, Outcome.WON, usage)
    bill = Bill(0, "first", Role.PRIMARY, Outcome.WON, usage, Certainty.EXACT, 340_000, 340_000, 340_000)
    yield RequestBilled(name, "bench", at + 1.0, (bill,))


async def alone(url: str) -> tuple[float, float, float, int]:
    """Microseconds of CPU per request in the gateway and in the writer, requests written per second, and the lost."""
    loop = asyncio.get_running_loop()
    feed = Feed(LedgerSettings(url=url, flush=0.5, keep=None, keep_hourly=None, queue=1 << 30), loop, time.time)
    hear, spent = feed.book, 0.0
    for event in told(0, 0.0):
        hear(event)
    while not feed.backlog.written:  # noqa: ASYNC110  # the writer is ready when it has confirmed something
        await asyncio.sleep(0.01)
    writer = _child()
    began, before = time.perf_counter(), _cpu(writer)
    for first in range(1, REQUESTS, 100):
        events = [event for number in range(first, first + 100) for event in told(number, loop.time())]
        here = time.thread_time()
        for event in events:
            hear(event)
        spent += time.thread_time() - here
        await asyncio.sleep(0)
    while len(feed.book) or feed.backlog.queued:  # noqa: ASYNC110  # nobody tells
        await asyncio.sleep(0.01)
    took, worked = time.perf_counter() - began, _cpu(writer) - before
    await feed.close()
    return spent / REQUESTS * 1e6, worked / REQUESTS * 1e6, REQUESTS / took, feed.backlog.lost


def _child() -> str:
    [only] = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return only


def _cpu(process: str) -> float:
    """Seconds of CPU that it has had."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def with_ledger(installed: Installed, setup: Setup) -> Launch:
    """The gateway of the other benchmarks, and a ledger."""
    launch = HEDGEROW.launch(installed, setup)
    file = setup.work / "hedgerow.yaml"
    file.write_text(file.read_text().rstrip().removesuffix("}") + ", ledger: on}\n")
    return launch


NAMES = "without", "with"
PEERS = (replace(HEDGEROW, name="without"), replace(HEDGEROW, name="with", launch=with_ledger))


def gateways(rounds: int, runs: Sequence[Run]) -> None:
    """Throughput and latency of a gateway, without and with, in turns; and whether all was written."""
    load_core, _ = cores()
    program, found = build(WORK), HEDGEROW.install()
    results: dict[tuple[str, str], list[dict[str, float]]] = {}
    for number in range(rounds):
        for peer in PEERS if number % 2 == 0 else PEERS[::-1]:
            for run, result in _measured(peer, runs, program, found, load_core):
                results.setdefault((peer.name, run), []).append(result)
            say(f"  round {number + 1}: {peer.name}")
    for name in (each.name for each in runs):
        print(f"{name}; medians of {rounds} rounds, and the lowest and highest ratio of one round")
        for key in SHOWN:
            without, with_ = ([each[key] for each in results[peer, name]] for peer in NAMES)
            middle = statistics.median(without), statistics.median(with_)
            ratios = sorted(b / a for a, b in zip(without, with_, strict=True))
            said = f"{middle[0]:12,.0f} without{middle[1]:12,.0f} with{statistics.median(ratios):8.2f} of it"
            print(f"  {key:16}{said}  ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    print(f"load average: {os.getloadavg()[0]:.1f} of {os.cpu_count()} cores")


def _measured(
    peer: Peer, runs: Sequence[Run], program: Path, found: Installed, core: int
) -> Iterator[tuple[str, dict[str, float]]]:
    port = free_port()
    setup = Setup(port=port, upstream=port + 2, work=WORK / f"ledger-{peer.name}")
    load = LoadGenerator(program, core=core, upstream_port=setup.upstream, path=peer.path, model=peer.model, headers={})
    answered = 0.0
    with load, started(peer, found, setup, core="0-1") as running:
        time.sleep(3.0)  # the writer, if there is one, has started
        for run in runs:
            result = load.measure(run, port=running.port, pid=running.pid, spin=False)
            yield run.name, {key: float(value) for key, value in result.items() if isinstance(value, int | float)}
            answered += float(result["requests"])
    if peer.name == "with":
        with read.ledger(f"sqlite:///{setup.work}/hedgerow-ledger.db") as ledger:
            written = sum(map(len, ledger.requests()))
        say(f"  {written:,} requests in the ledger, at least {answered:,.0f} were measured")
        assert written >= answered


def main() -> None:
    """Print both parts; paced, the second."""
    words = [word for word in sys.argv[1:] if word != "--paced"]
    rounds = int(words[0]) if words else 3
    if "--paced" in sys.argv:
        gateways(rounds, PACED)
        return
    with tempfile.TemporaryDirectory() as folder:
        micros, worked, rate, lost = asyncio.run(alone(f"sqlite:///{folder}/l.db"))
    verdict = "ok" if rate >= GOAL and not lost else "short"
    print(f"alone: {micros:.1f} us of CPU per request in the gateway, {worked:.0f} in the writer, {lost} lost")
    print(f"a core that it has for itself would write {1e6 / worked:,.0f} requests/s, here it was {rate:,.0f}")
    print(f"goal: {GOAL:,} requests/s: {verdict}")
    gateways(rounds, RUNS)


if __name__ == "__main__":
    main()
