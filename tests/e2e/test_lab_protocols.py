"""Official SDKs believe the lab in every protocol: streams, whole answers, tool calls, errors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.support import MESSAGES, script

pytestmark = pytest.mark.e2e

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALLED = {"city": "primary A hedge is a row of shrubs planted close"}


def scripted(**fields: Any) -> dict[str, str]:
    return {"x-lab-script": script(**fields)}


def only(found: Any) -> Any:
    """The one element of a list."""
    [one] = found
    return one


@pytest.fixture(scope="module")
def running() -> Iterator[LabProcess]:
    with LabProcess(["--name", "primary", "--preset", "fast"]) as lab:
        yield lab


@pytest.fixture
def lab(running: LabProcess) -> LabProcess:
    running.reset()
    return running


@pytest.fixture
def client(lab: LabProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=lab.base_url, api_key="sk-lab", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(lab: LabProcess) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=lab.url, api_key="sk-lab", max_retries=0) as client:
        yield client


def test_the_sdk_assembles_a_tool_call(client: openai.OpenAI) -> None:
    asked: Any = {
        "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
        "tool_choice": "required",
    }
    with client.chat.completions.stream(model="m", messages=MESSAGES, **asked) as stream:
        streamed = stream.get_final_completion()
    for answer in (streamed, client.chat.completions.create(model="m", messages=MESSAGES, **asked)):
        [choice] = answer.choices
        assert choice.finish_reason == "tool_calls"
        assert choice.message.content is None
        assert choice.message.tool_calls is not None
        [call] = choice.message.tool_calls
        assert call.type == "function"
        assert (call.function.name, json.loads(call.function.arguments)) == ("weather", CALLED)


def test_the_sdk_reads_responses(client: openai.OpenAI) -> None:
    with client.responses.stream(model="m", input="hi") as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        final = stream.get_final_response()
    whole = client.responses.create(model="m", input="hi")
    assert "".join(deltas) == final.output_text == whole.output_text == CALLED["city"]
    assert final.status == whole.status == "completed"
    assert final.usage is not None
    assert (final.usage.output_tokens, final.usage) == (10, whole.usage)


def test_the_sdk_assembles_a_responses_function_call(client: openai.OpenAI) -> None:
    asked: Any = {
        "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}],
        "tool_choice": {"type": "function", "name": "weather"},
    }
    with client.responses.stream(model="m", input="hi", **asked) as stream:
        streamed = stream.until_done().get_final_response()
    for answer in (streamed, client.responses.create(model="m", input="hi", **asked)):
        call = only(answer.to_dict()["output"])
        assert (call["type"], call["name"]) == ("function_call", "weather")
        assert json.loads(call["arguments"]) == CALLED


def test_the_sdk_reads_legacy_completions(client: openai.OpenAI) -> None:
    chunks = list(client.completions.create(model="m", prompt="hi", max_tokens=3, stream=True))
    whole = client.completions.create(model="m", prompt="hi", max_tokens=3)
    assert "".join(chunk.choices[0].text for chunk in chunks) == whole.choices[0].text == "primary A hedge"
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason == "length"


def test_the_sdk_reads_embeddings_in_either_encoding(client: openai.OpenAI) -> None:
    packed = client.embeddings.create(model="m", input=["a", "b"], dimensions=8)
    floats = client.embeddings.create(model="m", input=["a", "b"], dimensions=8, encoding_format="float")
    assert [len(one.embedding) for one in packed.data] == [8, 8]
    assert packed.data == floats.data
    assert packed.data[0].embedding != packed.data[1].embedding


def test_the_sdk_reads_moderations(client: openai.OpenAI) -> None:
    [one, other] = client.moderations.create(input=["a", "b"]).results
    assert (one.flagged, other.categories.self_harm) == (False, False)


def test_the_anthropic_sdk_reads_messages(claude: anthropic.Anthropic, lab: LabProcess) -> None:
    asked: Any = {"model": "m", "max_tokens": 99, "messages": MESSAGES, "metadata": {"user_id": "u"}}
    with claude.messages.stream(**asked) as stream:
        words = list(stream.text_stream)
        streamed = stream.get_final_message()
    whole = claude.messages.create(**asked)
    for answer in (streamed, whole):
        block = only(answer.to_dict()["content"])
        assert (block["type"], block["text"]) == ("text", CALLED["city"])
        assert (answer.stop_reason, answer.usage.output_tokens) == ("end_turn", 10)
    assert "".join(words) == CALLED["city"]
    assert streamed.usage == whole.usage
    assert whole._request_id == "req-primary-1"
    assert [record["ending"] for record in lab.log(key="u")] == ["completed"] * 2


def test_the_anthropic_sdk_assembles_a_tool_use(claude: anthropic.Anthropic) -> None:
    asked: Any = {
        "model": "m",
        "max_tokens": 99,
        "messages": MESSAGES,
        "tools": [{"name": "weather", "input_schema": SCHEMA}],
        "tool_choice": {"type": "any"},
    }
    with claude.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    for answer in (streamed, claude.messages.create(**asked)):
        block = only(answer.to_dict()["content"])
        assert (block["type"], block["name"], block["input"]) == ("tool_use", "weather", CALLED)
        assert answer.stop_reason == "tool_use"


def test_the_anthropic_sdk_counts_tokens_and_lists_models(claude: anthropic.Anthropic) -> None:
    counted = claude.messages.count_tokens(model="m", messages=MESSAGES).input_tokens
    assert claude.messages.create(model="m", max_tokens=1, messages=MESSAGES).usage.input_tokens == counted
    assert [model.id for model in claude.models.list()] == ["lab-small", "lab-large"]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, anthropic.BadRequestError),
        (401, anthropic.AuthenticationError),
        (429, anthropic.RateLimitError),
        (500, anthropic.InternalServerError),
        (529, anthropic.InternalServerError),
    ],
)
def test_the_anthropic_sdk_knows_each_status(claude: anthropic.Anthropic, status: int, error: type[Exception]) -> None:
    with pytest.raises(error):
        claude.messages.create(model="m", max_tokens=9, messages=MESSAGES, extra_headers=scripted(status=status))


@pytest.mark.parametrize(
    ("fault", "error"),
    [({"fault": "error", "status": 529}, anthropic.APIStatusError), ({"fault": "cut"}, httpx2.RemoteProtocolError)],
)
def test_the_anthropic_sdk_sees_a_stream_fail(
    claude: anthropic.Anthropic, fault: dict[str, Any], error: type[Exception]
) -> None:
    headers = scripted(**fault, at=2, gap_ms=50)
    words: list[str] = []
    with (
        pytest.raises(error),
        claude.messages.stream(model="m", max_tokens=9, messages=MESSAGES, extra_headers=headers) as stream,
    ):
        words.extend(stream.text_stream)
    assert words == ["primary", " A"]


@pytest.mark.parametrize("fault", ["error", "cut"])
def test_the_sdk_sees_a_response_fail(client: openai.OpenAI, fault: str) -> None:
    stream = client.responses.create(
        model="m", input="hi", stream=True, extra_headers=scripted(fault=fault, at=2, gap_ms=50)
    )
    kinds: list[str] = []
    if fault == "cut":
        with pytest.raises(openai.APIConnectionError):
            kinds.extend(event.type for event in stream)
    else:
        kinds.extend(event.type for event in stream)
        assert kinds.pop() == "error"
    assert kinds[4:] == ["response.output_text.delta"] * 2
