"""The official SDKs through the gateway: all they do needs a changed base URL and nothing else."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import openai
import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.support import MESSAGES, GatewayProcess, config, script, until
from tests.e2e.upstream import (
    LAST_CHUNK,
    SSE_HEAD,
    Answer,
    Cut,
    Received,
    Upstream,
    always,
    chunk,
    completion,
    event,
    stream,
    whole,
)

pytestmark = pytest.mark.e2e

Labs = tuple[LabProcess, LabProcess]
RETRYABLE = script(status=500)


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[LabProcess, LabProcess, GatewayProcess]]:
    with (
        LabProcess(["--name", "primary", "--preset", "fast"]) as primary,
        LabProcess(["--name", "backup", "--preset", "fast"]) as backup,
        GatewayProcess(config(primary.base_url, backup.base_url, delay="100ms")) as gateway,
    ):
        yield primary, backup, gateway


@pytest.fixture
def labs(running: tuple[LabProcess, LabProcess, GatewayProcess]) -> Labs:
    for lab in running[:2]:
        lab.reset()
    return running[:2]


@pytest.fixture
def client(labs: Labs, running: tuple[LabProcess, LabProcess, GatewayProcess]) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=running[2].base_url, api_key="sk-any", max_retries=0) as client:
        yield client


def text_of(chunks: Any) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_a_whole_answer(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="fast", messages=MESSAGES, max_tokens=3)
    assert answer.choices[0].message.content == "primary A hedge"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == 3


def test_a_stream_with_its_usage(client: openai.OpenAI) -> None:
    with client.chat.completions.create(
        model="fast", messages=MESSAGES, max_tokens=5, stream=True, stream_options={"include_usage": True}
    ) as answer:
        chunks = list(answer)
    assert text_of(chunks) == "primary A hedge is a"
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 5


def test_async_streams_side_by_side(labs: Labs, running: tuple[LabProcess, LabProcess, GatewayProcess]) -> None:
    async def story() -> list[str]:
        async with openai.AsyncOpenAI(base_url=running[2].base_url, api_key="sk-any", max_retries=0) as client:

            async def one() -> str:
                answer = await client.chat.completions.create(
                    model="fast", messages=MESSAGES, max_tokens=20, stream=True
                )
                return text_of([chunk async for chunk in answer])

            return await asyncio.gather(*(one() for _ in range(20)))

    texts = asyncio.run(story())
    assert {text.split(" ", 1)[1] for text in texts} == {
        "A hedge is a row of shrubs planted close together; it marks a border, keeps the wind from the"
    }
    assert sum(lab.stats()["completed"] for lab in labs) == 20


def test_raw_responses_say_who_answered(client: openai.OpenAI) -> None:
    behaviour = {"x-lab-script-primary": script(fault="hang")}
    raw = client.chat.completions.with_raw_response.create(model="fast", messages=MESSAGES, extra_headers=behaviour)
    marks = {name: value for name, value in raw.headers.items() if name.startswith("x-hedgerow-")}
    assert marks.pop("x-hedgerow-request-id").startswith("hr-")
    assert marks == {"x-hedgerow-target": "backup", "x-hedgerow-attempts": "2", "x-hedgerow-hedged": "true"}
    assert raw.headers["x-lab-provider"] == "backup"
    content = raw.parse().choices[0].message.content
    assert content is not None
    assert content.startswith("backup ")


def test_hedging_can_be_declined_by_request(client: openai.OpenAI, labs: Labs) -> None:
    headers = {"x-hedgerow-hedge": "off", "x-lab-script-primary": script(ttft_ms=300, gap_ms=0, tokens=2)}
    raw = client.chat.completions.with_raw_response.create(model="fast", messages=MESSAGES, extra_headers=headers)
    assert (raw.headers["x-hedgerow-target"], raw.headers["x-hedgerow-attempts"]) == ("primary", "1")
    assert labs[1].stats()["requests"] == 0


def test_the_models_are_the_routes(client: openai.OpenAI, labs: Labs) -> None:
    assert [model.id for model in client.models.list()] == ["fast"]
    assert client.models.retrieve("fast").owned_by == "hedgerow"
    with pytest.raises(openai.NotFoundError) as raised:
        client.models.retrieve("gpt-0")
    assert raised.value.code == "model_not_found"
    assert [lab.stats()["other_requests"] for lab in labs] == [0, 0]


def test_an_unknown_model_is_said_to_be_one(client: openai.OpenAI, labs: Labs) -> None:
    with pytest.raises(openai.NotFoundError, match=r"There is no route 'gpt-0'\. Ask for one of 'fast'") as raised:
        client.chat.completions.create(model="gpt-0", messages=MESSAGES)
    assert (raised.value.code, raised.value.param) == ("model_not_found", "model")
    assert [lab.stats()["requests"] for lab in labs] == [0, 0]


def test_a_bad_request_comes_back_as_the_upstream_said_it(client: openai.OpenAI, labs: Labs) -> None:
    with pytest.raises(openai.BadRequestError, match="refused by the lab's script") as raised:
        client.chat.completions.create(
            model="fast", messages=MESSAGES, extra_headers={"x-lab-script": script(status=400, code="string_too_long")}
        )
    assert raised.value.code == "string_too_long"
    assert raised.value.response.headers["x-lab-provider"] == "primary"
    assert [lab.stats()["requests"] for lab in labs] == [1, 0]


def test_a_rate_limit_everywhere_comes_back_with_its_retry_after(client: openai.OpenAI, labs: Labs) -> None:
    with pytest.raises(openai.RateLimitError) as raised:
        client.chat.completions.create(
            model="fast",
            messages=MESSAGES,
            extra_headers={"x-lab-script": script(status=429, retry_after=0.05)},
        )
    headers = raised.value.response.headers
    assert (headers["retry-after"], headers["retry-after-ms"]) == ("1", "50")
    assert raised.value.code == "rate_limit_exceeded"
    assert [lab.stats()["requests"] for lab in labs] == [1, 1]
    time.sleep(0.1)  # until then both are out, and the next request would be sent to one of them only


@pytest.mark.parametrize("streaming", [True, False])
def test_used_up_attempts_are_not_repeated_by_the_sdk(client: openai.OpenAI, labs: Labs, streaming: bool) -> None:
    patient = client.with_options(max_retries=3)
    with pytest.raises(openai.InternalServerError) as raised:
        patient.chat.completions.create(
            model="fast", messages=MESSAGES, stream=streaming, extra_headers={"x-lab-script": RETRYABLE}
        )
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert raised.value.response.headers["x-hedgerow-attempts"] == "2"
    assert [lab.stats()["requests"] for lab in labs] == [1, 1]


def test_a_lone_targets_failure_is_left_to_the_sdks_own_retries(labs: Labs) -> None:
    with (
        GatewayProcess(config(labs[0].base_url)) as gateway,
        openai.OpenAI(base_url=gateway.base_url, api_key="sk-any", max_retries=1) as client,
        pytest.raises(openai.InternalServerError),
    ):
        client.chat.completions.create(model="fast", messages=MESSAGES, extra_headers={"x-lab-script": RETRYABLE})
    assert labs[0].stats()["requests"] == 2


@pytest.mark.parametrize("fault", ["cut", "close", "error"])
def test_a_stream_that_breaks_raises_and_never_ends_well(client: openai.OpenAI, labs: Labs, fault: str) -> None:
    answer = client.chat.completions.create(
        model="fast",
        messages=MESSAGES,
        stream=True,
        extra_headers={"x-lab-script": script(ttft_ms=1, gap_ms=1, tokens=9, fault=fault, at=3)},
    )
    words: list[str] = []
    contents = (chunk.choices[0].delta.content or "" for chunk in answer)
    with pytest.raises(openai.APIError) as raised:
        words.extend(contents)
    assert "".join(words) == "primary A hedge"
    # What breaks a stream off is told within it, and so as an error of the API, not of the connection.
    assert raised.type is openai.APIError
    assert labs[1].stats()["requests"] == 0


def test_closing_a_stream_closes_the_upstream(client: openai.OpenAI, labs: Labs) -> None:
    answer = client.chat.completions.create(
        model="fast",
        messages=MESSAGES,
        stream=True,
        extra_headers={"x-lab-script": script(ttft_ms=1, gap_ms=1, tokens=9, fault="stall", at=3)},
    )
    next(answer)
    answer.close()
    until(lambda: labs[0].stats()["cancelled_mid_stream"] == 1)


def test_the_gateways_own_keys(labs: Labs) -> None:
    settings = config(labs[0].base_url, server={"api_keys": ["sk-gate"]})
    settings["targets"]["primary"]["api_key"] = "sk-upstream"
    with GatewayProcess(settings) as gateway:
        with (
            openai.OpenAI(base_url=gateway.base_url, api_key="sk-wrong", max_retries=0) as wrong,
            pytest.raises(openai.AuthenticationError, match="does not know the key") as raised,
        ):
            wrong.chat.completions.create(model="fast", messages=MESSAGES)
        assert raised.value.code == "invalid_api_key"
        assert labs[0].stats()["requests"] == 0
        with openai.OpenAI(base_url=gateway.base_url, api_key="sk-gate", max_retries=0) as right:
            assert right.chat.completions.create(model="fast", messages=MESSAGES).choices
            echo = right.post("/batches", cast_to=dict, body={"model": "fast"})
        assert "sk-gate" not in gateway.log
    fields = [value for name, value in echo["headers"] if name == "authorization"]
    assert fields == ["sha256:" + sha256(b"Bearer sk-upstream").hexdigest()[:12]], "the target's key, not the client's"


@pytest.fixture(scope="module")
def upstream_and_gateway() -> Iterator[tuple[Upstream, GatewayProcess]]:
    with Upstream(always(b"")) as upstream, GatewayProcess(config(upstream.base_url)) as gateway:
        yield upstream, gateway


@pytest.fixture
def scripted(upstream_and_gateway: tuple[Upstream, GatewayProcess]) -> Iterator[tuple[Upstream, openai.OpenAI]]:
    """An upstream whose answer the test sets, and a client of the gateway before it."""
    upstream, gateway = upstream_and_gateway
    upstream.requests.clear()
    with openai.OpenAI(base_url=gateway.base_url, api_key="sk-any", max_retries=0) as client:
        yield upstream, client


CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
PIECES = ['{"ci', 'ty":"Ys"', "}"]
TOOL_STREAM = stream(
    event({"role": "assistant", "content": None}),
    event({"tool_calls": [CALL]}),
    *(event({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}) for piece in PIECES),
    event({}, "tool_calls"),
)
TOOLS: Any = [{"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}]


def test_tool_calls_stream_piece_by_piece(scripted: tuple[Upstream, openai.OpenAI]) -> None:
    upstream, client = scripted
    upstream.answer = always(TOOL_STREAM)
    answer = client.chat.completions.create(model="fast", messages=MESSAGES, tools=TOOLS, stream=True)
    deltas = [chunk.choices[0].delta.tool_calls for chunk in answer]
    calls = [delta[0] for delta in deltas if delta]
    assert calls[0].id == "call_1"
    assert "".join(call.function.arguments or "" for call in calls if call.function) == '{"city":"Ys"}'
    assert upstream.requests[0].json["tools"] == TOOLS


def test_a_tool_call_is_a_first_token() -> None:
    done = threading.Event()

    def stalls(_: Received) -> Iterator[bytes]:
        yield SSE_HEAD + chunk(event({"role": "assistant", "content": None}))
        done.wait(10)

    with (
        Upstream(stalls) as primary,
        Upstream(always(TOOL_STREAM)) as backup,
        GatewayProcess(config(primary.base_url, backup.base_url, delay="50ms")) as gateway,
        openai.OpenAI(base_url=gateway.base_url, api_key="sk-any", max_retries=0) as client,
    ):
        answer = client.chat.completions.create(model="fast", messages=MESSAGES, tools=TOOLS, stream=True)
        assert [chunk.choices[0].finish_reason for chunk in answer][-1] == "tool_calls"
        assert answer.response.headers["x-hedgerow-target"] == "backup"
        done.set()


def test_the_upstream_is_sent_what_the_sdk_wrote_with_only_the_model_changed() -> None:
    settings = {"api_key": "sk-upstream", "model": "gpt-5-mini"}
    with Upstream(always(whole(completion("Hi")))) as upstream:
        plan = config(upstream.base_url)
        plan["targets"]["primary"] |= settings
        with (
            GatewayProcess(plan) as gateway,
            openai.OpenAI(base_url=gateway.base_url, api_key="sk-mine", organization="org-1") as client,
        ):
            client.chat.completions.create(model="fast", messages=[{"role": "user", "content": "Größe 😀 \u2028"}])
    [seen] = upstream.requests
    assert seen.json == {"model": "gpt-5-mini", "messages": [{"role": "user", "content": "Größe 😀 \u2028"}]}
    assert seen.headers["authorization"] == "Bearer sk-upstream"
    assert seen.headers["openai-organization"] == "org-1"
    assert seen.headers["user-agent"].startswith("OpenAI/Python")
    assert seen.headers["host"] == f"127.0.0.1:{upstream.port}"


def cut_after_a_word(_: Received) -> Iterator[bytes]:
    yield SSE_HEAD + chunk(event({"role": "assistant", "content": ""})) + chunk(event({"content": "Hel"}))
    raise Cut


@pytest.mark.parametrize(
    "broken",
    [
        cut_after_a_word,
        # All chunks end well, as after a crash behind a proxy, but nothing says that the answer is whole.
        always(SSE_HEAD + chunk(event({"content": "Hel"})) + LAST_CHUNK),
        always(SSE_HEAD + chunk(event({"content": "Hel"})[:-2]) + LAST_CHUNK),
        always(SSE_HEAD + chunk(event({"content": "Hel"})) + b"zz\r\n"),
    ],
)
def test_no_broken_stream_passes_for_a_whole_one(scripted: tuple[Upstream, openai.OpenAI], broken: Answer) -> None:
    upstream, client = scripted
    upstream.answer = broken
    with pytest.raises(openai.APIError):
        list(client.chat.completions.create(model="fast", messages=MESSAGES, stream=True))
    assert len(upstream.requests) == 1
