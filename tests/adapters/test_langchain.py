"""LangChain's chat models, hedged as one runnable, against simulated providers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.runnables import Runnable, RunnableLambda
from langchain_openai import ChatOpenAI
from pydantic import BaseModel, SecretStr

from hedgerow import EveryAttemptFailed, Result
from hedgerow.adapters.langchain import HedgedRunnable
from hedgerow.lab.control import LabControl
from hedgerow.testing import assert_hedged, assert_not_hedged, assert_winner
from tests.adapters.support import pair

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # LangChain never closes its clients
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def labs() -> Iterator[tuple[LabControl, LabControl]]:
    with pair() as two:
        yield two


def chat(lab: LabControl, model: str) -> ChatOpenAI:
    return ChatOpenAI(model=model, base_url=lab.base_url, api_key=SecretStr("any"), max_retries=0)


class Asked:
    """Two models as one, and what its calls came to."""

    def __init__(self, labs: tuple[LabControl, LabControl], **options: Any) -> None:
        self.results: list[Result[Any]] = []
        models = chat(labs[0], "one"), chat(labs[1], "two")
        rules = {"delay": 0.05, "budget": None, "breaker": False} | options
        self.model: HedgedRunnable[Any, Any] = HedgedRunnable(*models, on_result=self.results.append, **rules)


async def words(model: Any) -> list[str]:
    return [chunk.content async for chunk in model.astream("hi") if chunk.content]


@pytest.mark.parametrize("how", ["ainvoke", "invoke", "astream", "stream"])
def test_a_stuck_model_is_hedged_and_cancelled(labs: tuple[LabControl, LabControl], how: str) -> None:
    labs[0].behave(script={"fault": "stall"})
    asked = Asked(labs)
    match how:
        case "ainvoke":
            said = asyncio.run(asked.model.ainvoke("hi")).content
        case "invoke":
            said = asked.model.invoke("hi").content
        case "astream":
            said = "".join(asyncio.run(words(asked.model)))
        case _:
            said = "".join(chunk.content for chunk in asked.model.stream("hi"))
    assert said.startswith("second")
    assert len(said.split()) == 5
    assert_hedged(asked.results[0])
    assert_winner(asked.results[0], "two")
    stats = labs[0].stats()
    assert stats["requests"] - stats["open"] == 1


def test_a_quick_answer_is_not_hedged_and_one_that_fails_makes_room(labs: tuple[LabControl, LabControl]) -> None:
    asked = Asked(labs, delay=5.0)
    assert asked.model.invoke("hi").content.startswith("first")
    assert_not_hedged(asked.results[0])
    labs[0].behave(script={"status": 500})
    assert asked.model.invoke("hi").content.startswith("second")
    assert_winner(asked.results[1], "two")


def test_if_all_fail_the_error_is_the_sdks_own_too(labs: tuple[LabControl, LabControl]) -> None:
    for lab in labs:
        lab.behave(script={"status": 429})
    asked = Asked(labs)
    with pytest.raises(openai.RateLimitError) as failed:
        asked.model.invoke("hi")
    assert isinstance(failed.value, EveryAttemptFailed)
    with pytest.raises(openai.RateLimitError):
        next(asked.model.stream("hi"))


class Weather(BaseModel):
    """The weather in a city."""

    city: str


def test_tools_and_schemas_are_bound_to_each_and_what_is_bound_anew_goes_on_learning(
    labs: tuple[LabControl, LabControl],
) -> None:
    labs[0].behave(script={"fault": "hang"})
    asked = Asked(labs)
    called = asked.model.bind_tools([Weather], tool_choice="Weather").invoke("hi").tool_calls
    assert [call["name"] for call in called] == ["Weather"]
    parsed = asked.model.with_structured_output(Weather, method="function_calling").invoke("hi")
    assert parsed.city.startswith("second")
    assert [result.target for result in asked.results] == ["two", "RunnableSequence-2"]

    late = Asked(labs, delay="p95", warmup_delay=0.05, name="learns")
    for _ in range(3):
        late.model.bind_tools([Weather]).invoke("hi")
    assert [result.hedged for result in late.results] == [True] * 3


def test_it_is_a_link_of_chains_and_takes_a_gate(labs: tuple[LabControl, LabControl]) -> None:
    asked = Asked(labs, gate=lambda answer: "second" in answer.content)
    ask: Runnable[str, Any] = RunnableLambda(lambda city: f"Weather in {city}?")
    chain: Runnable[str, str] = ask | asked.model | (lambda answer: answer.content)
    assert chain.invoke("Ribe").startswith("second")
    assert asked.model.batch(["a", "b"])[1].content.startswith("second")


class Seen(BaseCallbackHandler):
    """Which runs started and how they ended."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def on_chain_start(self, *args: Any, **kwargs: Any) -> None:
        self.seen.append("chain")

    def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
        self.seen.append("model")

    def on_chain_end(self, *args: Any, **kwargs: Any) -> None:
        self.seen.append("end")

    def on_chain_error(self, *args: Any, **kwargs: Any) -> None:
        self.seen.append("error")


def test_callbacks_see_one_run_with_a_child_for_each_attempt(labs: tuple[LabControl, LabControl]) -> None:
    model, whole, streamed = Asked(labs).model, Seen(), Seen()

    async def main() -> None:
        labs[0].behave(script={"fault": "hang"})
        await model.ainvoke("hi", {"callbacks": [whole]})
        await drain(model, {"callbacks": [streamed]})
        assert whole.seen == streamed.seen == ["chain", "model", "model", "end"]
        for lab in labs:
            lab.behave(script={"status": 500})
        for call in (model.ainvoke("hi", {"callbacks": [whole]}), drain(model, {"callbacks": [streamed]})):
            with pytest.raises(openai.InternalServerError):
                await call
        assert whole.seen[4:] == streamed.seen[4:] == ["chain", "model", "model", "error"]

    asyncio.run(main())


async def drain(model: Any, config: Any) -> None:
    async for _ in model.astream("hi", config):
        pass


def test_who_leaves_a_stream_ends_it_at_the_provider(labs: tuple[LabControl, LabControl]) -> None:
    labs[0].behave(script={"ttft_ms": 1, "gap_ms": 100, "tokens": 100})
    for chunk in Asked(labs).model.stream("hi"):
        if chunk.content:
            break
    assert labs[0].stats()["cancelled_mid_stream"] == 1


def fake() -> Any:
    return GenericFakeChatModel(messages=iter([AIMessage("one two three")] * 9))


def test_leaving_a_stream_early_is_an_end_and_no_error() -> None:
    seen = Seen()

    async def main() -> None:
        stream: Any = HedgedRunnable(fake(), fake(), delay=5).astream("hi", {"callbacks": [seen]})
        assert (await anext(stream)).content == "one"
        await stream.aclose()

    asyncio.run(main())
    assert (seen.seen[0], seen.seen[-1]) == ("chain", "end")
    assert "error" not in seen.seen


def test_where_a_gate_is_strict_a_stream_is_the_whole_answer() -> None:
    """It won unjudged."""

    async def main() -> None:
        judged: list[str] = []
        model = HedgedRunnable(fake(), fake(), delay=5, strict=True, gate=lambda one: judged.append(one.content))
        assert await words(model) == ["one two three"] == judged
        with pytest.raises(EveryAttemptFailed):
            await words(HedgedRunnable(fake(), fake(), delay=5, strict=True, gate=lambda _: False))

    asyncio.run(main())
