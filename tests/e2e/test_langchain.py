"""LangChain's ChatOpenAI and OpenAIEmbeddings through the gateway."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import SecretStr

from hedgerow.lab.process import LabProcess
from tests.e2e.support import GatewayProcess, config, script

pytestmark = pytest.mark.e2e

STALLS = {"x-lab-script-primary": script(fault="stall")}
HANGS = {"x-lab-script-primary": script(fault="hang")}
BACKUP = "backup A hedge is a row of shrubs planted close"
WEATHER = {
    "title": "weather",
    "description": "The weather.",
    "type": "object",
    "properties": {"city": {"type": "string"}},
}


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with (
        LabProcess(["--name", "primary", "--preset", "fast"]) as primary,
        LabProcess(["--name", "backup", "--preset", "fast"]) as backup,
        GatewayProcess(config(primary.base_url, backup.base_url, delay="300ms")) as gateway,
    ):
        yield gateway.base_url


def chat(base_url: str, headers: dict[str, str] | None = None, **settings: Any) -> ChatOpenAI:
    return ChatOpenAI(
        base_url=base_url,
        api_key=SecretStr("sk-any"),
        model="fast",
        max_retries=0,
        default_headers=headers,
        **settings,
    )


def test_it_invokes(base_url: str) -> None:
    answer = chat(base_url, HANGS).invoke("Say hedge.")
    assert answer.content == BACKUP
    assert answer.usage_metadata is not None
    assert answer.usage_metadata["output_tokens"] == 10


def test_it_streams_and_counts(base_url: str) -> None:
    chunks = list(chat(base_url, STALLS, stream_usage=True).stream("Say hedge."))
    assert "".join(str(chunk.content) for chunk in chunks) == BACKUP
    counts = [chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata]
    assert counts == [10]


def test_it_streams_without_counting(base_url: str) -> None:
    chunks = list(chat(base_url, stream_usage=False).stream("Say hedge."))
    assert [chunk for chunk in chunks if chunk.usage_metadata] == []


def test_it_runs_batches_at_once(base_url: str) -> None:
    async def story() -> list[Any]:
        return await chat(base_url, max_tokens=3).abatch(["one", "two", "three"])

    assert [answer.content for answer in asyncio.run(story())] == ["primary A hedge"] * 3


@pytest.mark.parametrize("responses", [False, True], ids=["chat", "responses"])
def test_it_calls_tools(base_url: str, responses: bool) -> None:
    settings: Any = {"use_responses_api": True, "store": False} if responses else {}
    model = chat(base_url, STALLS, **settings).bind_tools([WEATHER], tool_choice="any")
    whole: Any = None
    for chunk in model.stream("Ys?"):
        whole = chunk if whole is None else whole + chunk
    assert whole is not None
    [call] = whole.tool_calls
    assert (call["name"], call["args"]) == ("weather", {"city": BACKUP})


def test_it_reads_responses(base_url: str) -> None:
    model = chat(base_url, STALLS, use_responses_api=True, store=False)
    chunks = list(model.stream("Say hedge."))
    assert "".join(chunk.text for chunk in chunks) == BACKUP


def test_it_reads_embeddings(base_url: str) -> None:
    embeddings = OpenAIEmbeddings(
        base_url=base_url,
        api_key=SecretStr("sk-any"),
        model="fast",
        dimensions=4,
        check_embedding_ctx_length=False,  # else it counts tokens with a table that it fetches
        default_headers=HANGS,
    )
    assert [len(vector) for vector in embeddings.embed_documents(["a", "b"])] == [4, 4]


def test_it_sees_errors_and_broken_streams(base_url: str) -> None:
    with pytest.raises(openai.RateLimitError):
        chat(base_url, {"x-lab-script": script(status=429)}).invoke("Say hedge.")
    with pytest.raises(openai.APIError):
        list(chat(base_url, {"x-lab-script": script(fault="close", at=3)}).stream("Say hedge."))
