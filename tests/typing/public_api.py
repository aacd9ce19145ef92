"""Uses every public name of `hedgerow` as callers do: read by mypy and pyright, and never run.

`assert_type` says what each infers, so a change that a caller's type checker would notice is noticed here.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, assert_type

import aiohttp
import anthropic
import httpx
import httpx2
import openai
from langchain_core.runnables import Runnable
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic_ai.models.fallback import FallbackModel

import hedgerow
from hedgerow import (
    Alternative,
    AttemptRecord,
    Breaker,
    Completion,
    EveryAttemptFailed,
    Hedger,
    Held,
    HttpTarget,
    Outage,
    Policy,
    Result,
    Target,
    Winner,
    chain,
    config,
    hedge,
    hedge_sync,
    hedged,
    hedged_completion,
    http_client,
    http_client_sync,
    race,
)
from hedgerow.adapters.langchain import HedgedRunnable
from hedgerow.adapters.litellm import litellm_target, says_something
from hedgerow.adapters.pydantic_ai import HedgedModel
from hedgerow.asgi import Application, application
from hedgerow.client.sync import SyncHeld, SyncResult, SyncWinner
from hedgerow.events import Event, FailureClass, Outcome, Reason, Role
from hedgerow.testing import (
    Called,
    Deadlock,
    Scripted,
    VirtualLoop,
    assert_hedged,
    assert_not_hedged,
    assert_winner,
    run_virtual,
    scripted,
)
from hedgerow.testing.labs import Labs
from hedgerow.transports.aiohttp import HedgeConnector
from hedgerow.transports.httpx2 import HedgeTransport, SyncHedgeTransport

ALL: Sequence[str] = hedgerow.__all__


async def text() -> str:
    return "text"


async def translate(prompt: str, *, temperature: float = 0.0) -> str:
    return prompt


async def items() -> AsyncIterator[int]:
    yield 1


@asynccontextmanager
async def session() -> AsyncIterator[bytes]:
    yield b""


@asynccontextmanager
async def events() -> AsyncIterator[AsyncIterator[int]]:
    yield items()


async def plain_values() -> None:
    result = await hedge(text, text, delay="p95", budget=0.05, deadline=10, gate=bool, name="greeting")
    assert_type(result, Result[str])
    assert_type(result.value, str)
    assert_type(result.target, str)
    assert_type(result.latency, float)
    assert_type(result.hedged, bool)
    assert_type(result.reason, Reason | None)
    assert_type(result.attempts, tuple[AttemptRecord, ...])
    async for other in result.alternatives:
        assert_type(other, Alternative[Any])
        assert_type(other.role, Role)
    assert_type(await race(text, text, losers="keep"), Result[str])
    assert_type(await chain(text, text, first_token_timeout="2s"), Result[str])
    assert_type(await hedge(translate, translate, args=("hi",), kwargs={"temperature": 0.5}), Result[str])
    assert_type(await hedge(partial(translate, "hi"), lambda: translate("hi")), Result[str])
    target = Target(call=text, name="first", account="key", region="eu", first_token=2.0)
    assert_type(await hedge(target, text), Result[str])


async def streams_and_contexts() -> None:
    assert_type(await hedge(items, items, first_token=bool), Result[Winner[int]])
    assert_type(await hedge(events, events), Result[Winner[int]])
    assert_type(await hedge(session, session), Result[Held[bytes]])
    async with (await hedge(items)).value as winner:
        async for item in winner:
            assert_type(item, int)
    async with (await hedge(session)).value as held:
        assert_type(held, bytes)
    await (await race(items)).value.aclose()
    await (await chain(session)).value.aclose()


async def of_sdks(client: openai.AsyncOpenAI, other: anthropic.AsyncAnthropic) -> None:
    async def create() -> ChatCompletion:
        return await client.chat.completions.create(model="m", messages=[])

    async def stream() -> openai.AsyncStream[ChatCompletionChunk]:
        return await client.chat.completions.create(model="m", messages=[], stream=True)

    assert_type(await hedge(create, create), Result[ChatCompletion])
    assert_type(await hedge(stream, stream), Result[Winner[ChatCompletionChunk]])
    await hedge(lambda: other.messages.stream(max_tokens=1, model="m", messages=[]))


async def objects() -> None:
    def told(event: Event) -> None: ...

    def classify(error: BaseException) -> FailureClass | None:
        return FailureClass.FATAL_REQUEST if isinstance(error, KeyError) else None

    hedger = Hedger(
        "translate",
        [translate, translate],
        Policy(
            delay="p90",
            max_hedges=2,
            budget=None,
            mode="shadow",
            breaker=Breaker(failures=3),
            outage=Outage(both_slow=None),
        ),
        gate=[bool, lambda answer: "short" if len(answer) < 3 else None],
        classify=classify,
        size=lambda prompt, **_: len(prompt) // 4,
        listeners=[told],
        grace=2.0,
    )
    assert_type(hedger, Hedger[str])
    assert_type(await hedger("hi", temperature=0.5), Result[str])
    assert_type(hedger.state(), dict[str, Any])
    await hedger.aclose(within=2)
    assert_type(Hedger("numbers", [items, items]), Hedger[Winner[int]])
    assert_type(Hedger("sessions", [session]), Hedger[Held[bytes]])


@hedged(translate, delay=0.5)
async def translated(prompt: str, *, temperature: float = 0.0) -> str:
    return prompt


@hedged(delay="p95")
async def counted(start: int) -> AsyncIterator[int]:
    yield start


class Service:
    @hedged(delay=1)
    async def ask(self, prompt: str) -> int:
        return len(prompt)


async def decorated() -> None:
    assert_type(await translated("hi", temperature=1.0), str)
    assert_type(translated.hedger, Hedger[Any])
    async for number in counted(1):
        assert_type(number, int)
    assert_type(await Service().ask("hi"), int)


async def errors() -> None:
    try:
        await hedge(text)
    except EveryAttemptFailed as error:
        for attempt in error.attempts:
            assert_type(attempt.outcome, Outcome | None)
            assert_type(attempt.error, BaseException | None)


def sync() -> None:
    assert_type(hedge_sync(text, text, delay=1), SyncResult[str])
    assert_type(hedge_sync(items), SyncResult[SyncWinner[int]])
    assert_type(hedge_sync(session), SyncResult[SyncHeld[bytes]])
    with hedge_sync(session).value as held:
        assert_type(held, bytes)
    for item in hedge_sync(items).value:
        assert_type(item, int)


async def completions(client: openai.AsyncOpenAI, other: anthropic.AsyncAnthropic) -> None:
    answer = await hedged_completion(
        "Translate: hi",
        primary=(client, "gpt-x"),
        backup=(other, "claude-x"),
        hedge_delay_ms=800,
        quality_check=lambda said: len(said) > 3,
        temperature=0,
    )
    assert_type(answer, Completion)
    assert_type(answer.content, str)
    assert_type(answer.provider, str)
    await hedged_completion("hi", primary=translate, backup=translate)


def transports() -> None:
    places = [HttpTarget(base_url="https://api.example.com/v1", api_key="passthrough", protocol="openai")]
    assert_type(http_client(places), httpx2.AsyncClient)
    assert_type(http_client(places, Policy(delay=1), library="httpx", timeout=5), httpx.AsyncClient)
    assert_type(http_client_sync(places, nonstream_as_stream=True), httpx2.Client)
    assert_type(http_client_sync(places, library="httpx"), httpx.Client)
    openai.AsyncOpenAI(http_client=http_client(places))
    anthropic.Anthropic(http_client=http_client_sync(places))


def what_is_refused(number: int) -> None:
    hedge_sync(number)  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType, reportCallIssue]
    Hedger("x", [number])  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]


def testing(labs: Labs) -> None:
    slow: Scripted[Coroutine[Any, Any, str]] = scripted("slow", after=9)
    stream: Scripted[AsyncGenerator[int]] = scripted("stream", items=[1, 2], gap=0.1)
    numbers = scripted("numbers", value=3).then(error=ValueError)
    calls: list[Called] = numbers.calls
    assert_type(calls[0].how, Literal["answered", "raised", "cancelled"] | None)

    async def main(loop: VirtualLoop) -> Result[str]:
        assert_type(await hedge(numbers, numbers), Result[int])
        assert_type(await hedge(stream, stream), Result[Winner[int]])
        return await hedge(slow, slow, delay=loop.time())

    try:
        result = run_virtual(main)
    except Deadlock:
        return
    assert_type(result, Result[str])
    assert_hedged(result)
    assert_not_hedged(result, reason="budget")
    assert_winner(result, "slow")
    assert_type(labs("primary", script={"fault": "stall"}).base_url, str)


def frameworks(chat: Runnable[str, str]) -> None:
    assert_type(HedgedRunnable(chat, chat, delay="p95").invoke("why?"), str)
    model: FallbackModel = HedgedModel("openai:gpt-5", "anthropic:claude-sonnet-5", policy=Policy(delay=1))
    assert_type(model.model_name, str)
    one: Target[Any] = litellm_target("openai/gpt-5", account="mine")
    hedge_sync(one, one, args=([],), first_token=says_something)


def sync_alternatives() -> None:
    for other in hedge_sync(text, text, losers="keep").alternatives:
        assert_type(other, Alternative[Any])


def mounted(file: str) -> None:
    app: Application = application(config.load(Path(file)))
    assert_type(app, Application)


def at_session_level(places: Sequence[HttpTarget]) -> None:
    aiohttp.ClientSession(connector=HedgeConnector(places, Policy(delay=1)))
    httpx2.AsyncClient(transport=HedgeTransport(places, Policy(delay=1)))
    httpx2.Client(transport=SyncHedgeTransport(places, allow=["store"]))
