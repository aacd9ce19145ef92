"""The official SDKs through the gateway, in the protocols beside chat completions: hedged, whole and broken."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx2
import openai
import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.support import MESSAGES, Config, GatewayProcess, config, script, until

pytestmark = pytest.mark.e2e

Running = tuple[LabProcess, LabProcess, GatewayProcess]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
STALLS = {"x-lab-script-primary": script(fault="stall")}
HANGS = {"x-lab-script-primary": script(fault="hang")}
FAILS = {"x-lab-script-primary": script(fault="error", at=0)}
BACKUP = "backup A hedge is a row of shrubs planted close"
PRIMARY = BACKUP.replace("backup", "primary")
CLAUDE: Any = {"model": "fast", "max_tokens": 99, "messages": MESSAGES}
RESPONSE: Any = {"model": "fast", "input": "hi", "store": False}


def multilingual(*labs: LabProcess) -> Config:
    """Targets that speak all protocols, as a lab does."""
    settings = config(*(lab.base_url for lab in labs), delay="300ms")
    for target in settings["targets"].values():
        target["protocol"] = ["openai", "anthropic", "gemini"]
    return settings


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with (
        LabProcess(["--name", "primary", "--preset", "fast"]) as primary,
        LabProcess(["--name", "backup", "--preset", "fast"]) as backup,
        GatewayProcess(multilingual(primary, backup)) as gateway,
    ):
        yield primary, backup, gateway


@pytest.fixture
def labs(running: Running) -> tuple[LabProcess, LabProcess]:
    for lab in running[:2]:
        lab.reset()
    return running[:2]


@pytest.fixture
def client(labs: tuple[LabProcess, LabProcess], running: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=running[2].base_url, api_key="sk-any", max_retries=0) as client:
        yield client


@pytest.fixture
def claude(labs: tuple[LabProcess, LabProcess], running: Running) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=running[2].url, api_key="sk-any", max_retries=0) as client:
        yield client


@pytest.fixture
def google(labs: tuple[LabProcess, LabProcess], running: Running) -> Iterator[httpx2.Client]:
    """Google's SDK sends just this."""
    with httpx2.Client(base_url=running[2].url, headers={"x-goog-api-key": "any"}) as client:
        yield client


def assert_hedged(headers: Any) -> None:
    marks = {name: headers["x-hedgerow-" + name] for name in ("target", "attempts", "hedged")}
    assert marks == {"target": "backup", "attempts": "2", "hedged": "true"}


def assert_one_cancel(lab: LabProcess, ending: str) -> None:
    """The loser has been told, and it had not shown a token."""
    until(lambda: bool(lab.stats()[ending] == 1))
    assert lab.stats()["tokens_wasted"] == 0


# Anthropic


@pytest.mark.parametrize(("behaviour", "spoken"), [({}, PRIMARY), (STALLS, BACKUP), (FAILS, BACKUP)])
def test_a_message_streams(claude: anthropic.Anthropic, behaviour: dict[str, str], spoken: str) -> None:
    with claude.messages.stream(**CLAUDE, extra_headers=behaviour) as stream:
        assert "".join(stream.text_stream) == spoken
        final = stream.get_final_message()
    assert (final.stop_reason, final.usage.output_tokens) == ("end_turn", 10)


def test_a_message_that_stalls_after_its_opening_is_hedged(
    claude: anthropic.Anthropic, labs: tuple[LabProcess, LabProcess]
) -> None:
    with claude.messages.stream(**CLAUDE, extra_headers=STALLS) as stream:
        assert stream.get_final_text() == BACKUP
        assert_hedged(stream.response.headers)
        assert stream.response.headers["request-id"] == "req-backup-0"
    assert_one_cancel(labs[0], "cancelled_before_token")


def test_a_whole_message_is_hedged(claude: anthropic.Anthropic, labs: tuple[LabProcess, LabProcess]) -> None:
    raw = claude.messages.with_raw_response.create(**CLAUDE, extra_headers=HANGS)
    assert raw.parse().to_dict()["content"] == [{"type": "text", "text": BACKUP}]
    assert_hedged(raw.headers)
    assert_one_cancel(labs[0], "cancelled_before_headers")


def test_a_tool_use_is_a_first_token_and_exactly_one_reaches_the_client(claude: anthropic.Anthropic) -> None:
    asked: Any = {**CLAUDE, "tools": [{"name": "weather", "input_schema": SCHEMA}], "tool_choice": {"type": "any"}}
    with claude.messages.stream(**asked, extra_headers=STALLS) as stream:
        assert_hedged(stream.response.headers)
        final = stream.get_final_message()
    assert final.stop_reason == "tool_use"
    assert [(block["name"], block["input"]) for block in json.loads(final.to_json())["content"]] == [
        ("weather", {"city": BACKUP})
    ]


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, anthropic.BadRequestError), (429, anthropic.RateLimitError), (529, anthropic.InternalServerError)],
)
def test_an_upstreams_error_comes_back_in_its_own_words(
    labs: tuple[LabProcess, LabProcess], status: int, error: type[Exception]
) -> None:
    # A gateway of its own: one that was turned away by a rate limit hedges nothing there for a while.
    with (
        GatewayProcess(multilingual(*labs)) as gateway,
        anthropic.Anthropic(base_url=gateway.url, api_key="sk-any", max_retries=0) as claude,
        pytest.raises(error) as raised,
    ):
        claude.messages.create(**CLAUDE, extra_headers={"x-lab-script": script(status=status)})
    assert isinstance(raised.value, anthropic.APIStatusError)
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["type"] == "error"
    assert [lab.stats()["requests"] for lab in labs] == ([1, 0] if status == 400 else [1, 1])


def test_an_unknown_model_is_told_as_anthropic_does(claude: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.NotFoundError) as raised:
        claude.messages.create(**CLAUDE | {"model": "claude-0"})
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["error"]["type"] == "not_found_error"


@pytest.mark.parametrize("fault", ["cut", "close", "error"])
def test_a_broken_message_never_ends_well(
    claude: anthropic.Anthropic, labs: tuple[LabProcess, LabProcess], fault: str
) -> None:
    behaviour = {"x-lab-script": script(gap_ms=1, tokens=9, fault=fault, at=3)}
    words: list[str] = []
    with (
        pytest.raises(anthropic.APIStatusError),
        claude.messages.stream(**CLAUDE, extra_headers=behaviour) as stream,
    ):
        words.extend(stream.text_stream)
    assert "".join(words) == "primary A hedge"
    assert labs[1].stats()["requests"] == 0


def test_tokens_are_counted_by_the_primary(claude: anthropic.Anthropic, labs: tuple[LabProcess, LabProcess]) -> None:
    assert claude.messages.count_tokens(model="fast", messages=MESSAGES).input_tokens > 1
    assert [lab.stats()["requests"] for lab in labs] == [1, 0]


def test_models_are_listed_as_anthropic_does(claude: anthropic.Anthropic) -> None:
    assert [model.id for model in claude.models.list()] == ["fast"]


# OpenAI


@pytest.mark.parametrize(("behaviour", "spoken"), [({}, PRIMARY), (STALLS, BACKUP), (FAILS, BACKUP)])
def test_a_response_streams(client: openai.OpenAI, behaviour: dict[str, str], spoken: str) -> None:
    with client.responses.stream(**RESPONSE, extra_headers=behaviour) as stream:
        final = stream.until_done().get_final_response()
    assert (final.output_text, final.status) == (spoken, "completed")


def test_a_whole_response_is_hedged(client: openai.OpenAI, labs: tuple[LabProcess, LabProcess]) -> None:
    raw = client.responses.with_raw_response.create(**RESPONSE, extra_headers=HANGS)
    assert raw.parse().output_text == BACKUP
    assert_hedged(raw.headers)
    assert_one_cancel(labs[0], "cancelled_before_headers")


def test_a_response_that_is_stored_is_not_hedged(client: openai.OpenAI, labs: tuple[LabProcess, LabProcess]) -> None:
    slow = {"x-lab-script-primary": script(ttft_ms=900, gap_ms=0)}
    assert client.responses.create(model="fast", input="hi", extra_headers=slow).output_text == PRIMARY
    assert labs[1].stats()["requests"] == 0


def test_a_function_call_is_a_first_token(client: openai.OpenAI) -> None:
    tools: Any = [{"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}]
    stream = client.responses.create(**RESPONSE, tools=tools, tool_choice="required", stream=True, extra_headers=STALLS)
    assert_hedged(stream.response.headers)
    [item] = [event.item for event in stream if event.type == "response.output_item.done"]
    assert item.type == "function_call"
    assert (item.name, json.loads(item.arguments)) == ("weather", {"city": BACKUP})


@pytest.mark.parametrize("fault", ["cut", "close", "error"])
def test_a_broken_response_never_ends_well(client: openai.OpenAI, fault: str) -> None:
    behaviour = {"x-lab-script": script(gap_ms=1, tokens=9, fault=fault, at=3)}
    kinds: list[str] = []
    stream = client.responses.create(**RESPONSE, stream=True, extra_headers=behaviour)
    with pytest.raises(openai.APIError):
        kinds.extend(event.type for event in stream)
    assert kinds.count("response.output_text.delta") == 3
    assert "response.completed" not in kinds


@pytest.mark.parametrize(("behaviour", "spoken"), [({}, PRIMARY), (STALLS, BACKUP)])
def test_legacy_completions(client: openai.OpenAI, behaviour: dict[str, str], spoken: str) -> None:
    stream = client.completions.create(model="fast", prompt="hi", stream=True, extra_headers=behaviour)
    assert "".join(chunk.choices[0].text for chunk in stream if chunk.choices) == spoken
    whole = client.completions.create(model="fast", prompt="hi", extra_headers=HANGS if behaviour else {})
    assert whole.choices[0].text == spoken


@pytest.mark.parametrize("encoding", ["float", "base64"])
def test_embeddings_are_hedged_and_are_the_same_numbers(client: openai.OpenAI, encoding: Any) -> None:
    asked: Any = {"model": "fast", "input": ["a", "b"], "dimensions": 8}
    raw = client.embeddings.with_raw_response.create(**asked, encoding_format=encoding, extra_headers=HANGS)
    assert_hedged(raw.headers)
    hedged = client.embeddings.create(**asked, extra_headers=HANGS)
    assert hedged.data == client.embeddings.create(**asked).data
    assert [len(one.embedding) for one in hedged.data] == [8, 8]


def test_moderations_are_hedged(client: openai.OpenAI) -> None:
    raw = client.moderations.with_raw_response.create(input="a", model="fast", extra_headers=HANGS)
    assert not raw.parse().results[0].flagged
    assert_hedged(raw.headers)


def test_reranking_is_hedged(google: httpx2.Client) -> None:
    body = {"model": "fast", "query": "red fox", "documents": ["blue", "a red fox"]}
    answer = google.post("/v1/rerank", json=body, headers=HANGS)
    assert [result["index"] for result in answer.json()["results"]] == [1, 0]
    assert_hedged(answer.headers)


# Google


def generate(google: httpx2.Client, method: str, behaviour: dict[str, str], **more: Any) -> httpx2.Response:
    body = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}], **more}
    return google.post(f"/v1beta/models/fast:{method}", json=body, headers=behaviour)


def parts(answer: httpx2.Response) -> list[Any]:
    frames = [json.loads(frame.removeprefix("data: ")) for frame in answer.text.split("\r\n\r\n") if frame]
    return [part for frame in frames for one in frame.get("candidates", ()) for part in one["content"]["parts"]]


@pytest.mark.parametrize("method", ["streamGenerateContent?alt=sse", "generateContent"])
@pytest.mark.parametrize(("hedged", "spoken"), [(False, PRIMARY), (True, BACKUP)])
def test_gemini(google: httpx2.Client, method: str, hedged: bool, spoken: str) -> None:
    behaviour = (STALLS if "stream" in method else HANGS) if hedged else {}
    answer = generate(google, method, behaviour)
    assert "".join(part["text"] for part in parts(answer)) == spoken
    assert answer.headers["x-hedgerow-hedged"] == str(hedged).lower()


def test_a_gemini_stream_without_alt_sse_is_an_array(google: httpx2.Client) -> None:
    chunks = generate(google, "streamGenerateContent", STALLS).json()
    assert chunks[-1]["candidates"][0]["finishReason"] == "STOP"


def test_a_gemini_function_call_is_a_first_token(google: httpx2.Client) -> None:
    asked: Any = {
        "tools": [{"functionDeclarations": [{"name": "weather", "parameters": SCHEMA}]}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
    }
    answer = generate(google, "streamGenerateContent?alt=sse", STALLS, **asked)
    assert parts(answer)[0] == {"functionCall": {"name": "weather", "args": {"city": BACKUP}}}
    assert_hedged(answer.headers)


def test_a_gemini_error_comes_back_in_its_own_words(google: httpx2.Client) -> None:
    answer = generate(google, "generateContent", {"x-lab-script": script(status=503)})
    assert (answer.status_code, answer.json()["error"]["status"]) == (503, "UNAVAILABLE")
