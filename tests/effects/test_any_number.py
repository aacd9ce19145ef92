"""Whatever number or half a character a client or an upstream sends: what is told of it, every listener can write."""

from __future__ import annotations

import json

import msgspec
import pytest

from hedgerow.cost import MOST_NANOUSD
from hedgerow.events import AttemptEnded, Event, RequestBilled, RequestFinished
from hedgerow.usage import MOST_TOKENS
from tests.effects.support import Sent, Story, settings, tell
from tests.effects.test_costs import answer
from tests.engine.scripted import JSON, SSE, Answer

MESSAGES = b'{"model":"fast","max_tokens":9,"messages":[{"role":"user","content":"x"}]}'
INPUT = b'{"model":"fast","input":"x","prompt":"x"}'
ASKS = {
    b"/v1/chat/completions": MESSAGES,
    b"/v1/completions": INPUT,
    b"/v1/responses": INPUT,
    b"/v1/embeddings": INPUT,
    b"/v1/rerank": INPUT,
    b"/v1/messages": MESSAGES,
    b"/v1beta/models/fast:generateContent": b'{"contents":[]}',
}
FAMILIES = {b"/v1/messages": "anthropic", b"/v1beta/models/fast:generateContent": "gemini"}
MOST = 2**63 - 1
NUMBERS = [2**31, 2**63, 2**64 - 1, 2**70, -(10**30), -1]
COUNTS = [
    "prompt_tokens",
    "completion_tokens",
    "total_tokens",
    "cached_tokens",
    "reasoning_tokens",
    "cache_write_tokens",
    "input_tokens",
    "output_tokens",
    "cache_read_input_tokens",
    "cache_creation_input_tokens",
    "promptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
    "toolUsePromptTokenCount",
]


def everything(value: object, most: int = MOST) -> None:
    """All the numbers in this are such as a database, Redis and JSON's readers hold."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list | tuple):
        for each in value:
            everything(each, most)
    elif isinstance(value, int):
        assert 0 <= value <= most, value


def written(events: list[Event]) -> None:
    """The events can be written in any form."""
    for event in events:
        msgspec.msgpack.encode(event)
        msgspec.json.encode(event)
        everything(msgspec.to_builtins(event))


def usage(number: int) -> dict[str, object]:
    """Every count that any protocol knows."""
    counts: dict[str, object] = dict.fromkeys(COUNTS, number)
    for details in ("prompt", "completion", "input", "output"):
        counts[f"{details}_tokens_details"] = dict.fromkeys(COUNTS, number)
    return counts


def whole(number: int, word: str = "stop") -> Answer:
    """One document that is an answer of every protocol."""
    told = {
        "choices": [{"index": 0, "text": "hi", "message": {"content": "hi"}, "finish_reason": word}],
        "type": "message",
        "object": "list",
        "data": [{"object": "embedding", "index": 0, "embedding": [0.1]}],
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": word,
        "status": "completed",
        "output": [{"type": "message", "content": [{"type": "output_text", "text": "hi"}]}],
        "candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": word}],
        "service_tier": word,
        "usage": usage(number),
        "usageMetadata": usage(number),
    }
    return Answer([(0.1, json.dumps(told).encode())], headers=JSON)


def story(script: Answer, *sent: Sent) -> Story:
    price = {"input": 1_000_000, "output": 1_000_000, "request": 1_000_000}
    family = FAMILIES.get(sent[0].path, "openai")
    one = settings({"routes.fast.targets": ["a"], "targets.a.price": price, "targets.a.protocol": family})
    return tell(one, {"a": script}, list(sent))


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("path", ASKS)
def test_tokens_that_an_upstream_makes_up(path: bytes, number: int) -> None:
    told = story(whole(number), Sent(path=path, body=ASKS[path]))
    written(told.events)
    (end,) = told.of(AttemptEnded)
    assert end.usage is not None
    everything(msgspec.to_builtins(end.usage), MOST_TOKENS)
    (billed,) = told.of(RequestBilled)
    everything([msgspec.to_builtins(each) | {"usage": None} for each in billed.bills], MOST_NANOUSD)


@pytest.mark.parametrize("number", NUMBERS)
def test_tokens_of_a_stream(number: int) -> None:
    told = story(answer(f'"prompt_tokens":{number},"completion_tokens":{number}'), Sent())
    written(told.events)
    assert [event.usage and event.usage.output_tokens for event in told.of(RequestFinished)] == [
        MOST_TOKENS if number > 0 else 0
    ]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("path", ASKS)
def test_a_limit_that_a_client_makes_up(path: bytes, number: int) -> None:
    limits = dict.fromkeys(("max_tokens", "max_completion_tokens", "max_output_tokens"), number)
    limits |= {"generationConfig": {"maxOutputTokens": number}}  # type: ignore[dict-item]  # Gemini's
    body = json.dumps(json.loads(ASKS[path]) | limits).encode()
    written(story(whole(1), Sent(path=path, body=body)).events)


@pytest.mark.parametrize("path", ASKS)
def test_half_a_character_in_an_upstreams_words(path: bytes) -> None:
    told = story(whole(1, "\ud800"), Sent(path=path, body=ASKS[path]))
    written(told.events)
    (end,) = told.of(AttemptEnded)
    assert end.status == 200


def test_half_a_character_at_the_end_of_a_stream() -> None:
    last = b'data: {"choices":[{"index":0,"delta":{"content":"w"},"finish_reason":"\\ud800"}],"service_tier":"\\udfff"}'
    told = story(Answer([(0.1, last + b"\n\n"), (0.0, b"data: [DONE]\n\n")], headers=SSE), Sent())
    written(told.events)
    assert [(event.finish_reason, event.service_tier) for event in told.of(AttemptEnded)] == [("?", "?")]


@pytest.mark.parametrize("model", [b"fast\\ud800", b"\\udfff", b"fast\xff", "fast\N{ELEPHANT}".encode()])
def test_half_a_character_in_what_a_client_names(model: bytes) -> None:
    passed = b'{"model":"%b","input":"x"}' % model
    headers = [(b"x-hedgerow-session", model), (b"authorization", b"Bearer " + model)]
    paths = [path for path in (b"/v1/audio/speech", *ASKS) if path not in FAMILIES]
    told = story(whole(1), *(Sent(path=path, body=passed, headers=headers) for path in paths))
    written(told.events)
