"""The plain form: text in, text out, from functions or from the clients of SDKs against simulated providers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import anthropic
import openai
import pytest

from hedgerow import EveryAttemptFailed, hedged_completion
from hedgerow.client.completion import content_of
from hedgerow.lab.process import LabProcess
from hedgerow.testing import VirtualLoop
from tests.client.support import Book, run, turn


def test_the_backups_text_is_returned_where_the_primary_is_slow() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        answer = await hedged_completion(
            "hi", primary=book.target("slow", 9.0), backup=book.target("quick", 1.0), hedge_delay_ms=500, temperature=0
        )
        assert (answer.content, answer.provider, answer.latency, answer.hedged) == ("quick", "quick", 1.5, True)
        assert [each.target for each in answer.attempts] == ["slow", "quick"]
        await turn()

    run(main)


def test_prompt_and_options_go_to_both() -> None:
    async def main(_: VirtualLoop) -> None:
        got: list[Any] = []

        async def ask(prompt: str, **model_kwargs: Any) -> str:
            got.append((prompt, model_kwargs))
            if len(got) == 1:
                raise ConnectionError
            return "ok"

        async def other(prompt: str, **model_kwargs: Any) -> str:
            return await ask(prompt, **model_kwargs)

        answer = await hedged_completion("hi", primary=ask, backup=other, hedge_delay_ms=500, top_p=0.5)
        assert (answer.content, answer.hedged) == ("ok", False)
        assert got == [("hi", {"top_p": 0.5})] * 2

    run(main)


def test_what_fails_the_quality_check_is_no_answer_unless_nobody_is_better() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        short, long = book.target("short", 1.0, "no"), book.target("long", 1.0, "a proper answer")
        answer = await hedged_completion(
            "hi", primary=short, backup=long, hedge_delay_ms=5_000, quality_check=lambda text: len(text) > 5
        )
        assert (answer.content, answer.latency) == ("a proper answer", 2.0)
        answer = await hedged_completion(
            "hi", primary=short, backup=short, hedge_delay_ms=5_000, quality_check=lambda text: "too short"
        )
        assert answer.content == "no"

    run(main)


@pytest.mark.parametrize(
    "model",
    [3, ("client", 3), (openai.OpenAI(api_key="x"), "m"), (object(), "m"), ()],
    ids=lambda each: str(type(each)),
)
def test_what_cannot_be_asked_is_refused(model: Any) -> None:
    async def main(_: VirtualLoop) -> None:
        with pytest.raises(TypeError, match=r"async (function|client)"):
            await hedged_completion("hi", primary=model, backup=model)

    run(main)


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("text", "text"),
        ({"choices": [{"message": {"content": "chat"}}]}, "chat"),
        ({"choices": [{"message": {"content": None}}]}, ""),
        ({"content": [{"type": "text", "text": "a"}, {"type": "tool_use"}, {"text": "b"}]}, "ab"),
        (SimpleNamespace(output_text="response"), "response"),
        (SimpleNamespace(content="langchain"), "langchain"),
    ],
)
def test_the_text_of_an_answer(answer: object, text: str) -> None:
    assert content_of(answer) == text


def test_an_answer_without_known_text_is_an_error_that_says_so() -> None:
    with pytest.raises(TypeError, match="a int is no answer"):
        content_of(3)


@pytest.fixture(scope="module")
def labs() -> Iterator[tuple[str, str]]:
    with LabProcess(["--name", "a"]) as a, LabProcess(["--name", "b"]) as b:
        yield a.base_url, b.base_url


@pytest.mark.e2e
def test_clients_of_both_sdks_are_asked_each_in_its_own_way(labs: tuple[str, str]) -> None:
    """The OpenAI SDK would try again twice by itself, and wait: here the other provider is asked at once."""

    async def main() -> None:
        stalled = {"x-lab-script": '{"status": 500}'}
        async with (
            openai.AsyncOpenAI(api_key="k", base_url=labs[0], default_headers=stalled) as broken,
            openai.AsyncOpenAI(api_key="k", base_url=labs[0]) as chat,
            anthropic.AsyncAnthropic(api_key="k", base_url=labs[1].removesuffix("/v1")) as messages,
        ):
            answer = await hedged_completion("hi", primary=(chat, "lab-small"), backup=(messages, "lab-large"))
            assert (answer.provider, answer.hedged) == ("openai/lab-small", False)
            assert answer.content
            answer = await hedged_completion("hi", primary=(broken, "lab-small"), backup=(messages, "lab-large"))
            assert answer.provider == "anthropic/lab-large"
            assert answer.content
            assert len(answer.attempts) == 2
            with pytest.raises(openai.InternalServerError) as caught:
                await hedged_completion("hi", primary=(broken, "lab-small"), backup=(broken, "lab-small"))
            assert isinstance(caught.value, EveryAttemptFailed)

    asyncio.run(main())


def test_a_stream_is_refused_before_it_is_paid_for() -> None:
    async def main(_: VirtualLoop) -> None:
        asked: list[str] = []

        async def model(prompt: str, **_said: object) -> str:
            asked.append(prompt)
            return prompt

        with pytest.raises(TypeError, match="gives whole texts"):
            await hedged_completion("x", primary=model, backup=model, stream=True)
        assert asked == []
        assert (await hedged_completion("x", primary=model, backup=model, stream=False)).content == "x"

    run(main)
