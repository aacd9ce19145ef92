"""Ask many questions at once through hedgerow with the async OpenAI SDK, and see how long first answers took.

Start a gateway first: `hedgerow serve`, with a route named `fast` (see the README).
"""

import asyncio
import time

from openai import AsyncOpenAI


async def seconds_to_first_token(client: AsyncOpenAI, question: str) -> float:
    started = time.perf_counter()
    stream = await client.chat.completions.create(
        model="fast", messages=[{"role": "user", "content": question}], stream=True
    )
    async with stream:
        async for chunk in stream:
            if any(choice.delta.content for choice in chunk.choices):
                return time.perf_counter() - started
    raise RuntimeError("the answer was empty")


async def main() -> None:
    async with AsyncOpenAI(base_url="http://127.0.0.1:8080/v1", api_key="any") as client:
        questions = [f"What is {number} times {number}?" for number in range(1, 21)]
        times = sorted(await asyncio.gather(*(seconds_to_first_token(client, question) for question in questions)))
    print(f"first token: median {times[len(times) // 2] * 1000:.0f} ms, slowest {times[-1] * 1000:.0f} ms")


if __name__ == "__main__":
    asyncio.run(main())
