"""Open-loop load: requests leave when their seeded arrival time comes, whether or not earlier ones are answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from hedgerow.demo.reply import Answer, Reply

IN_FLIGHT = 512
"""Most requests under way at once; an arrival beyond that waits, and is counted as held back."""

Send = Callable[[str, Reply], object]
"""Sends the request with this key and has the reply told what comes back."""


class Load(msgspec.Struct, frozen=True):
    """The answers in the order they ended, and how many arrivals had to wait for a place in flight."""

    answers: list[Answer]
    held_back: int


def arrivals(count: int, *, rate: float, seed: int) -> list[float]:
    """Seconds from the start at which each of `count` requests leaves: a Poisson process of `rate` per second."""
    random = Random(f"arrivals {seed}")  # noqa: S311 - a simulation, not a secret
    at = 0.0
    times = []
    for _ in range(count):
        at += random.expovariate(rate)
        times.append(at)
    return times


async def drive(times: Sequence[float], send: Send, on_answer: Callable[[Answer], None]) -> Load:
    """Send request "0", "1", ... at its time and wait for every answer."""
    loop = asyncio.get_running_loop()
    free = asyncio.Semaphore(IN_FLIGHT)
    answers: list[Answer] = []
    pending: set[asyncio.Future[Answer]] = set()
    held_back = 0

    def over(future: asyncio.Future[Answer]) -> None:
        free.release()
        pending.discard(future)
        if not future.cancelled():
            answers.append(future.result())
            on_answer(answers[-1])

    start = loop.time()
    for number, at in enumerate(times):
        await asyncio.sleep(max(0.0, start + at - loop.time()))
        held_back += free.locked()
        await free.acquire()
        reply = Reply(str(number))
        pending.add(reply.answer)
        reply.answer.add_done_callback(over)
        send(reply.key, reply)
    while pending:
        await asyncio.wait(set(pending))
    return Load(answers, held_back)
