"""What the examples beside this share: two simulated providers, an agent's run of ten chained calls, and a table.

The providers answer in 60 ms, and one time in twenty in ten times as long: `--preset stragglers`, sped up. Ten calls in
a row meet at least one such answer in four runs of ten.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from math import ceil

from hedgerow.lab.process import LabProcess

CALLS = 10
RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 100
AT_ONCE = 5
DELAY = 0.15
"""Seconds after which a call is hedged: in these examples a fixed number, so that few calls are enough to see it."""

Ask = Callable[[str], Awaitable[str]]


@contextmanager
def providers() -> Iterator[tuple[LabProcess, LabProcess]]:
    """Two providers, independent of each other."""
    usual = ["--preset", "stragglers", "--speed", "4", "--tokens", "4", "--gap-ms", "10"]
    with LabProcess(["--name", "first", *usual]) as first, LabProcess(["--name", "second", *usual]) as second:
        yield first, second


async def run(ask: Ask, number: int) -> list[float]:
    """One run of an agent: ten calls, each with the answer of the last in its prompt. Seconds of each."""
    took, said = [], f"Task {number}: plan a hedge."
    for step in range(CALLS):
        started = time.perf_counter()
        said = f"Task {number}, step {step + 1}. Before: {await ask(said)}"
        took.append(time.perf_counter() - started)
    return took


async def runs(ask: Ask) -> list[list[float]]:
    """Many runs, some at once."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> list[float]:
        async with gate:
            return await run(ask, number)

    return await asyncio.gather(*map(one, range(RUNS)))


def percentile(times: list[float], share: float) -> float:
    """The nearest rank."""
    return sorted(times)[ceil(share * len(times)) - 1]


def show(without: list[list[float]], hedged: list[list[float]], extra: int) -> None:
    """The table."""
    print(f"{'':22}{'p50':>10}{'p90':>10}{'p99':>10}   ms")
    rows = {
        "one call, without": [each for took in without for each in took],
        "one call, hedged": [each for took in hedged for each in took],
        "ten calls, without": [sum(took) for took in without],
        "ten calls, hedged": [sum(took) for took in hedged],
    }
    for name, times in rows.items():
        print(f"{name:22}" + "".join(f"{percentile(times, share) * 1000:10.0f}" for share in (0.5, 0.9, 0.99)))
    print(f"extra calls: {extra} of {RUNS * CALLS} ({extra / (RUNS * CALLS):.1%})")


def compare(
    agents: Callable[[LabProcess, LabProcess], Sequence[Ask]], close: Callable[[], Awaitable[None]] | None = None
) -> None:
    """Run what `agents` makes of two providers, one that asks the first alone and one that hedges, and show both.

    Each is asked once before, and so is whatever else `agents` gives: first calls open connections, and import. `close`
    is called at the end.
    """

    async def main(first: LabProcess, second: LabProcess) -> tuple[list[list[float]], list[list[float]]]:
        asks = agents(first, second)
        for ask in asks:
            await ask("Are you there?")
        second.reset()
        without = await runs(asks[0])
        first.reset()  # the same draws for both
        hedged = await runs(asks[1])
        if close is not None:
            await close()
        return without, hedged

    with providers() as (first, second):
        without, hedged = asyncio.run(main(first, second))
        show(without, hedged, second.stats()["requests"])
