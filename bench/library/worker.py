"""Measures one way of hedging and prints a line of JSON. Needs nothing but its way: it runs in that one's environment.

Run: python worker.py WAY [CALLS]
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from math import exp, log
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from bench.library.ways import WAYS, Way  # found by the line above, in whatever environment

MEDIAN, SPREAD, STRAGGLERS, SLOWDOWN = 0.016, 0.3, 0.05, 10.0
"""What an attempt takes: lognormal around the median, in seconds; so many of them are so much slower."""
DELAY = MEDIAN * exp(SPREAD * 1.5341)
"""The 90th percentile: 0.5 + 9.5 in a hundred are slower, so that fixed delays launch 11 %."""
WIDTH, TRIES = 16, 20


class Answer:
    """Something that its receiver must close."""

    open = 0

    def __init__(self) -> None:
        Answer.open += 1
        self._closed = False

    async def aclose(self) -> None:
        if not self._closed:
            self._closed = True
            Answer.open -= 1


async def speed(way: Way, calls: int) -> float:
    """Microseconds of CPU per call whose first attempt answers at once; the least of some rounds."""

    async def attempt(_: int) -> int:
        return 1

    best = float("inf")
    for _ in range(7):
        gc.collect()
        began = time.process_time()
        for _call in range(calls):
            await way(attempt)
        best = min(best, time.process_time() - began)
    return best / calls * 1e6


async def tail(way: Way, calls: int) -> dict[str, float]:
    """p50 and p99 in milliseconds and extra attempts per call, on the same latencies for every way."""
    draw = random.Random(20261130)

    def takes() -> float:
        slow = SLOWDOWN if draw.random() < STRAGGLERS else 1.0
        return exp(log(MEDIAN) + SPREAD * draw.gauss(0, 1)) * slow

    script = [(takes(), takes()) for _ in range(calls)]
    took, made = [], 0

    async def one(times: tuple[float, float]) -> None:
        async def attempt(number: int) -> int:
            nonlocal made
            made += 1
            await asyncio.sleep(times[min(number, 1)])
            return number

        began = time.perf_counter()
        await way(attempt)
        took.append(time.perf_counter() - began)

    waiting = iter(script)

    async def worker() -> None:
        for times in waiting:
            await one(times)

    await asyncio.gather(*(worker() for _ in range(WIDTH)))
    took.sort()
    return {
        "p50": took[len(took) // 2] * 1e3,
        "p99": took[int(len(took) * 0.99)] * 1e3,
        "extra": made / calls - 1.0,
    }


async def orphans(new_way: Callable[[], Way]) -> int:
    """Attempts that go on after their caller was cancelled while two of them ran."""
    running = 0

    async def attempt(_: int) -> None:
        nonlocal running
        running += 1
        try:
            await asyncio.sleep(30)
        finally:
            running -= 1

    way = new_way()
    for _ in range(TRIES):
        task = asyncio.ensure_future(way(attempt))
        await asyncio.sleep(0.03)
        task.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await asyncio.wait_for(task, 1)
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    left = running
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.sleep(0.01)
    return left


async def unclosed(new_way: Callable[[], Way]) -> int:
    """Answers that nobody closed, where both attempts answered in one turn of the loop."""
    before = Answer.open
    for _ in range(TRIES):
        way, both = new_way(), asyncio.Event()

        async def attempt(_number: int, both: asyncio.Event = both) -> Answer:
            await both.wait()
            return Answer()

        asyncio.get_running_loop().call_later(0.03, both.set)
        with suppress(Exception):
            answer = await way(attempt)
            await answer.aclose()
        await asyncio.sleep(0.005)
    return Answer.open - before


async def wrong(new_way: Callable[[], Way]) -> int:
    """Calls that ended with the hedge's error although the primary's answer was on its way."""
    lost = 0
    for _ in range(TRIES):
        way = new_way()

        async def attempt(number: int) -> str:
            await asyncio.sleep(0.005 if number else 0.05)
            if number:
                raise ConnectionError("the hedge")
            return "good"

        try:
            lost += await way(attempt) != "good"
        except Exception:
            lost += 1
    return lost


async def measure(name: str, calls: int) -> dict[str, Any]:
    made = WAYS[name]

    def quick() -> Way:
        return made(0.01)

    way = made(1.0)
    await speed(way, max(calls // 10, 10))
    found: dict[str, Any] = {"us": await speed(way, calls)}
    if name in ("bare", "asyncio task", "httpx bare", "LiteLLM bare"):
        return found | await only_tail(made, calls)
    steps: dict[str, Callable[[Callable[[], Way]], Awaitable[int]]] = {
        "unclosed": unclosed,
        "wrong": wrong,
        "orphans": orphans,
    }
    for step, run in steps.items():
        found[step] = await run(quick)
    return found | await only_tail(made, calls)


async def only_tail(made: Callable[[float], Way], calls: int) -> dict[str, float]:
    return await tail(made(DELAY), calls)


def main() -> None:
    logging.disable()
    name, calls = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3_000
    print(json.dumps(asyncio.run(measure(name, calls))))


if __name__ == "__main__":
    main()
