"""Your own p99, before and after: how long first tokens take, asked plainly and asked with hedging.

Without arguments it asks two simulated providers, which costs nothing. With two it asks yours, and costs 1,200 short
answers and a few hedges; both must speak OpenAI's chat completions.
"""

from __future__ import annotations

import asyncio
import os
import time
from argparse import ArgumentParser, ArgumentTypeError, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from math import ceil
from typing import Any, TypeVar

from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionUserMessageParam

from hedgerow import Hedger, Policy, Target
from hedgerow.events import Reason

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


async def hedged(hedger: Hedger[Any], question: str) -> tuple[float, bool, Reason | None]:
    """The same of both; whether the second was asked at all; and why not, where it was due."""
    started = time.perf_counter()
    result = await hedger(question)
    took = time.perf_counter() - started
    await result.value.aclose()
    return took, result.hedged, result.reason


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
    print(f"{'after':16}{row([took for took, *_ in after])}")
    print(f"hedged after {delay * 1000:.0f} ms: {sum(extra for _, extra, _ in after)} of {CALLS}")
    for reason, calls in Counter(reason for *_, reason in after if reason is not None).items():
        print(f"due and not hedged, {reason}: {calls}")


async def each(ask: Callable[[str], Awaitable[T]]) -> list[T]:
    """Ask CALLS questions, AT_ONCE at a time."""
    gate = asyncio.Semaphore(AT_ONCE)

    async def one(number: int) -> T:
        async with gate:
            return await ask(f"What is {number} times {number}?")

    return await asyncio.gather(*map(one, range(CALLS)))


def provider(said: str) -> tuple[str, str, str]:
    """Its base URL, model and key."""
    try:
        url, model, key = said.split(",")
        return url, model, os.environ[key]
    except ValueError:
        raise ArgumentTypeError(f"{said!r} is not URL,MODEL,KEY_VARIABLE") from None
    except KeyError as unset:
        raise ArgumentTypeError(f"the variable {unset} is not set") from None


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    such_as = "such as https://api.openai.com/v1,gpt-5-mini,OPENAI_API_KEY"
    parser.add_argument("provider", nargs="*", type=provider, help=f"two of URL,MODEL,KEY_VARIABLE, {such_as}")
    yours = parser.parse_args().provider
    if len(yours) not in (0, 2):
        parser.error("give two providers, or none for simulated ones")
    if yours:
        asyncio.run(measure(yours))
        return
    print("two simulated providers; for your own see --help")
    from hedgerow.lab.process import LabProcess

    usual = ["--preset", "openai", "--speed", "10", "--tokens", "4"]  # ten times as fast as life
    with LabProcess(["--name", "first", *usual]) as first, LabProcess(["--name", "second", *usual]) as second:
        asyncio.run(measure([(first.base_url, "any", "any"), (second.base_url, "any", "any")], first.reset))


if __name__ == "__main__":
    main()
