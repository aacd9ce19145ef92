"""Your own p99, before and after: how long first tokens take, asked plainly and asked with hedging.

Without arguments it asks two simulated providers, which costs nothing. With two it asks yours, and costs twice CALLS
short answers and a few hedges: `python examples/before_after.py URL,MODEL,KEY_VARIABLE URL,MODEL,KEY_VARIABLE`, such as
`https://api.openai.com/v1,gpt-5-mini,OPENAI_API_KEY`. Both must speak OpenAI's chat completions.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from math import ceil
from typing import Any, TypeVar

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionUserMessageParam

from hedgerow import Hedger, Policy, Target

T = TypeVar("T")

CALLS = 600
AT_ONCE = 20
BUDGET = 0.1
"""The share of calls that may be hedged."""


def says_something(chunk: Any) -> bool:
    """A first token: a chunk with text, and not the one that only says who speaks."""
    return any(choice.delta.content for choice in chunk.choices)


def asker(client: AsyncOpenAI, model: str) -> Callable[[str], Awaitable[Any]]:
    async def ask(question: str) -> Any:
        said: ChatCompletionUserMessageParam = {"role": "user", "content": question}
        return await client.chat.completions.create(model=model, messages=[said], stream=True, max_completion_tokens=16)

    return ask


async def plainly(ask: Callable[[str], Awaitable[Any]], question: str) -> float:
    """Seconds to the first token of one provider."""
    started = time.perf_counter()
    async with await ask(question) as chunks:
        async for chunk in chunks:
            if says_something(chunk):
                break
    return time.perf_counter() - started


async def hedged(hedger: Hedger[Any], question: str) -> tuple[float, bool]:
    """The same of both; and whether the second was asked at all."""
    started = time.perf_counter()
    result = await hedger(question)
    took = time.perf_counter() - started
    await result.value.aclose()
    return took, result.hedged


def percentile(times: list[float], share: float) -> float:
    """The nearest rank."""
    return sorted(times)[ceil(share * len(times)) - 1]


def row(times: list[float]) -> str:
    return "".join(f"{percentile(times, share) * 1000:9.0f}" for share in (0.5, 0.9, 0.95, 0.99))


async def measure(providers: list[tuple[str, str, str]], between: Callable[[], object] = int) -> None:
    async with AsyncExitStack() as stack:
        asks = []
        for url, model, key in providers:
            client = await stack.enter_async_context(AsyncOpenAI(base_url=url, api_key=key, max_retries=0))
            asks.append(asker(client, model))
        for ask in asks:
            await plainly(ask, "Are you there?")  # opens a connection
        before = await each(lambda question: plainly(asks[0], question))
        between()

        delay = percentile(before, 1 - BUDGET)  # hedges as many as the budget allows; delay="auto" learns it
        targets = [Target(call=ask, name=url) for ask, (url, _, _) in zip(asks, providers, strict=True)]
        hedger: Hedger[Any] = Hedger("after", targets, Policy(delay=delay, budget=BUDGET), first_token=says_something)
        after = await each(lambda question: hedged(hedger, question))
        await hedger.aclose()
    print(f"{'first token, ms':16}{'p50':>9}{'p90':>9}{'p95':>9}{'p99':>9}")
    print(f"{'before':16}{row(before)}")
    print(f"{'after':16}{row([took for took, _ in after])}")
    print(f"hedged after {delay * 1000:.0f} ms: {sum(extra for _, extra in after)} of {CALLS}")


async def each(ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Ask CALLS questions, AT_ONCE at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> T:
        async with gate:
            return await ask(f"What is {number} times {number}?")

    return await asyncio.gather(*map(one, range(CALLS)))


def main() -> None:
    if len(sys.argv) == 3:
        yours = [(url, model, os.environ[key]) for url, model, key in (said.split(",") for said in sys.argv[1:])]
        asyncio.run(measure(yours))
        return
    from hedgerow.lab.process import LabProcess

    usual = ["--preset", "openai", "--speed", "10", "--tokens", "4"]  # ten times as fast as life
    with LabProcess(["--name", "first", *usual]) as first, LabProcess(["--name", "second", *usual]) as second:
        asyncio.run(measure([(first.base_url, "any", "any"), (second.base_url, "any", "any")], first.reset))


if __name__ == "__main__":
    main()
