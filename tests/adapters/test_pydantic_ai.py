"""Pydantic AI's agents with a model that hedges, against simulated providers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, TypeVar, cast

import pytest
from openai import AsyncOpenAI
from pydantic_ai import Agent, ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, PartStartEvent, TextPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.native_tools import WebSearchTool
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.settings import ModelSettings

from hedgerow import EveryAttemptFailed, Policy, Result
from hedgerow.adapters.pydantic_ai import HedgedModel, _says_something
from hedgerow.lab.control import LabControl
from hedgerow.testing import assert_hedged, assert_not_hedged, assert_winner
from tests.adapters.support import pair

pytestmark = pytest.mark.e2e
T = TypeVar("T")
TOOLS = frozenset({WebSearchTool})


@pytest.fixture
def labs() -> Iterator[tuple[LabControl, LabControl]]:
    with pair() as two:
        yield two


class Asked:
    """An agent with a hedged model, and what its calls came to."""

    def __init__(self, labs: tuple[LabControl, LabControl], *, delay: float = 0.05, **options: Any) -> None:
        self.results: list[Result[Any]] = []
        policy = Policy(delay=delay, budget=None, breaker=False)
        first, second = labs
        self._clients: list[AsyncOpenAI] = []
        models = self._model_at(first, "lab-small"), self._model_at(second, "lab-large")
        self.model = HedgedModel(*models, policy=policy, on_result=self.results.append, **options)
        self.agent = Agent(self.model)

    def _model_at(self, lab: LabControl, name: str) -> Model:
        client = AsyncOpenAI(base_url=lab.base_url, api_key="any", max_retries=0)
        self._clients.append(client)
        return OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))

    def finish(self, what: Coroutine[Any, Any, T]) -> T:
        """Run this, and close the clients."""

        async def main() -> T:
            try:
                return await what
            finally:
                for client in self._clients:
                    await client.close()

        return asyncio.run(main())

    def run(self) -> str:
        return self.finish(self.agent.run("hi")).output

    def stream(self) -> str:
        async def main() -> str:
            async with self.agent.run_stream("hi") as answer:
                return await answer.get_output()

        return self.finish(main())


def test_a_quick_answer_is_not_hedged(labs: tuple[LabControl, LabControl]) -> None:
    asked = Asked(labs, delay=5.0)
    assert asked.run().startswith("first")
    assert_not_hedged(asked.results[0])
    assert labs[1].stats()["requests"] == 0


@pytest.mark.parametrize("how", [Asked.run, Asked.stream], ids=["whole", "stream"])
@pytest.mark.parametrize("fault", ["hang", "stall"])
def test_a_stuck_model_is_hedged_and_cancelled(
    labs: tuple[LabControl, LabControl], how: Callable[[Asked], str], fault: str
) -> None:
    first, _ = labs
    first.behave(script={"fault": fault})
    asked = Asked(labs)
    assert how(asked).startswith("second")
    [result] = asked.results
    assert_hedged(result)
    assert_winner(result, "openai:lab-large")
    first.behave(script=None)
    cancelled = [record for record in first.log() if record["ending"].startswith("cancelled")]
    assert len(cancelled) == 1


@pytest.mark.parametrize("how", [Asked.run, Asked.stream], ids=["whole", "stream"])
def test_a_model_that_fails_makes_room_for_the_next(
    labs: tuple[LabControl, LabControl], how: Callable[[Asked], str]
) -> None:
    labs[0].behave(script={"status": 500})
    asked = Asked(labs, delay=5.0)
    assert how(asked).startswith("second")
    assert_not_hedged(asked.results[0])


@pytest.mark.parametrize("how", [Asked.run, Asked.stream], ids=["whole", "stream"])
def test_if_all_fail_the_error_is_pydantic_ais_own_too(
    labs: tuple[LabControl, LabControl], how: Callable[[Asked], str]
) -> None:
    labs[0].behave(script={"status": 503})
    labs[1].behave(script={"status": 500})
    with pytest.raises(ModelHTTPError) as failed:
        how(Asked(labs))
    assert isinstance(failed.value, EveryAttemptFailed)
    assert failed.value.status_code == 503
    assert [each.target for each in failed.value.attempts] == ["openai:lab-small", "openai:lab-large"]


def test_a_stream_is_whole_and_its_usage_and_messages_are_the_winners(labs: tuple[LabControl, LabControl]) -> None:
    labs[0].behave(script={"fault": "stall"})
    asked = Asked(labs)

    async def main() -> tuple[list[str], Any, list[ModelMessage]]:
        async with asked.agent.run_stream("hi") as answer:
            parts = [part async for part in answer.stream_text(delta=True, debounce_by=None)]
            return parts, answer.usage, answer.all_messages()

    parts, usage, messages = asked.finish(main())
    assert "".join(parts) == labs_text(labs[1])
    assert usage.output_tokens == 5
    said = messages[-1]
    assert isinstance(said, ModelResponse)
    assert (said.model_name, said.state) == ("lab-large", "complete")


def labs_text(lab: LabControl) -> str:
    """What a lab says to all."""

    async def main() -> str:
        async with AsyncOpenAI(base_url=lab.base_url, api_key="any") as client:
            answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "hi"}])
            return answer.choices[0].message.content or ""

    return asyncio.run(main())


def test_who_leaves_a_stream_ends_it_at_the_provider(labs: tuple[LabControl, LabControl]) -> None:
    labs[0].behave(script={"ttft_ms": 1, "gap_ms": 200, "tokens": 100})
    asked = Asked(labs)

    async def main() -> None:
        async with asked.agent.run_stream("hi") as answer:
            async for _ in answer.stream_text(delta=True, debounce_by=None):
                break

    asked.finish(main())
    assert labs[0].stats()["cancelled_mid_stream"] == 1


def test_a_gate_asks_for_better(labs: tuple[LabControl, LabControl]) -> None:
    asked = Asked(labs, gate=lambda response: "second" in response.text)
    assert asked.run().startswith("second")


def chained(labs: tuple[LabControl, LabControl], **settings: Any) -> Asked:
    labs[0].behave(script={"ttft_ms": 300})
    asked = Asked(labs)
    asked.agent = Agent(asked.model, model_settings=cast("ModelSettings", settings))
    return asked


def test_what_a_provider_keeps_is_sent_once(labs: tuple[LabControl, LabControl]) -> None:
    asked = chained(labs, openai_store=True)
    assert asked.run().startswith("first")
    assert asked.results == []
    assert labs[1].stats()["requests"] == 0


def test_a_providers_own_tools_are_used_once() -> None:
    calls: list[str] = []

    def model(name: str) -> FunctionModel:
        async def answer(_: list[ModelMessage], __: AgentInfo) -> ModelResponse:
            calls.append(name)
            await asyncio.sleep(0.1)
            return ModelResponse(parts=[TextPart(name)])

        return FunctionModel(answer, model_name=name, profile=ModelProfile(supported_native_tools=TOOLS))

    hedged = HedgedModel(model("one"), model("two"), policy=Policy(delay=0.01, budget=None))
    for tools, asked in (([], ["one", "two"]), ([WebSearchTool()], ["one"])):
        calls.clear()
        parameters = ModelRequestParameters(native_tools=list(tools))
        asyncio.run(hedged.request([ModelRequest.user_text_prompt("hi")], None, parameters))
        assert calls == asked


def test_an_empty_start_of_a_part_is_no_first_token() -> None:
    assert not _says_something(PartStartEvent(index=0, part=TextPart("")))
    assert _says_something(PartStartEvent(index=0, part=TextPart("x")))


def test_a_strict_gate_refuses_streams() -> None:
    async def say(_: list[ModelMessage], __: AgentInfo) -> AsyncIterator[str]:
        yield "unjudged"

    async def main() -> None:
        model = FunctionModel(stream_function=say)
        agent = Agent(HedgedModel(model, model, policy=Policy(delay=5, strict=True), gate=lambda _: False))
        with pytest.raises(TypeError, match="no gate can judge before it wins"):
            async with agent.run_stream("hi"):
                raise AssertionError

    asyncio.run(main())
