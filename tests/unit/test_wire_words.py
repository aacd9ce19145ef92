"""Why an answer ended and in which tier it was served, in the upstream's own words."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Headers
from hedgerow.policy.price import STANDARD
from hedgerow.wire import lookup
from hedgerow.wire.base import Accepted, Scanner
from hedgerow.wire.words import NO_WORDS, Words, tier_at_end

CHAT, TEXT = b"/v1/chat/completions", b"/v1/completions"
RESPONSES, MESSAGES = b"/v1/responses", b"/v1/messages"
GEMINI, ARRAY = b"/v1beta/models/g:streamGenerateContent?alt=sse", b"/v1beta/models/g:streamGenerateContent"
PRIORITY: Headers = [(b"content-type", b"text/event-stream"), (b"x-gemini-service-tier", b"priority")]


def sse(*documents: dict[str, Any] | bytes, named: bool = False) -> list[bytes]:
    """Each as an event."""
    return [
        b"data: %b\n\n" % document
        if isinstance(document, bytes)
        else (b"event: %b\n" % document["type"].encode() if named else b"")
        + b"data: %b\n\n" % json.dumps(document).encode()
        for document in documents
    ]


def chunk(delta: dict[str, Any], finish: Any = None, *, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": index, "delta": delta, "finish_reason": finish}], **fields}


def text(said: str, finish: str | None = None) -> dict[str, Any]:
    return {"choices": [{"index": 0, "text": said, "finish_reason": finish}]}


def candidate(said: str, finish: str | None = None) -> dict[str, Any]:
    reason = {} if finish is None else {"finishReason": finish}
    return {"candidates": [{"content": {"parts": [{"text": said}] if said else []}, **reason}]}


USAGE = {"choices": [], "usage": {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}}
COUNTED = {"usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 4}}
STARTED = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "service_tier": "priority"}}}
BLOCK = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
SAID = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": '"finish_reason":"x"'}}


def stopped(reason: str | None, **fields: Any) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, **fields}


OUTPUT = {"usage": {"output_tokens": 7}}
DELTA = {"type": "response.output_text.delta", "delta": "Red"}
OPENING = {"type": "response.created", "response": {"status": "in_progress", "service_tier": "auto", "usage": None}}


def response(kind: str, **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 12, "output_tokens": 2}
    return {"type": f"response.{kind}", "response": {"status": kind, "output": [], "usage": usage, **fields}}


STREAMS: dict[str, tuple[bytes, Sequence[bytes], Words]] = {
    "chat": (
        CHAT,
        sse(chunk({"role": "assistant"}), *[chunk({"content": "Red"})] * 20, chunk({}, "stop"), USAGE, b"[DONE]"),
        Words("stop"),
    ),
    "chat served in a tier": (
        CHAT,
        sse(
            chunk({"content": "R"}, service_tier="flex"),
            chunk({}, "length", service_tier="flex"),
            {**USAGE, "service_tier": "flex"},
            b"[DONE]",
        ),
        Words("length", "flex"),
    ),
    "chat without usage": (CHAT, sse(chunk({"content": "R"}), chunk({}, "tool_calls"), b"[DONE]"), Words("tool_calls")),
    "chat that ends with its text": (
        CHAT,
        sse(chunk({"content": "R"}), chunk({"content": "ed"}, "stop", usage=USAGE["usage"]), b"[DONE]"),
        Words("stop"),
    ),
    "chat with usage in each chunk": (
        CHAT,
        sse(
            *[chunk({"content": "R"}, usage=USAGE["usage"])] * 9,
            chunk({}, "stop", usage=USAGE["usage"]),
            USAGE,
            b"[DONE]",
        ),
        Words("stop"),
    ),
    "chat of two": (
        CHAT,
        sse(chunk({"content": "R"}), chunk({}, "stop"), chunk({}, "length", index=1), USAGE, b"[DONE]"),
        Words("length"),
    ),
    "chat with odd words": (
        CHAT,
        sse(chunk({"content": "R"}), chunk({}, 7, service_tier=["x"]), USAGE, b"[DONE]"),
        NO_WORDS,
    ),
    "chat that does not say": (CHAT, sse(chunk({"content": "R"}), USAGE, b"[DONE]"), NO_WORDS),
    "text": (TEXT, sse(text("Red"), text("", "length"), USAGE, b"[DONE]"), Words("length")),
    "responses": (
        RESPONSES,
        sse(OPENING, *[DELTA] * 9, response("completed", service_tier="default"), named=True),
        Words("completed", "default"),
    ),
    "responses cut short": (
        RESPONSES,
        sse(OPENING, DELTA, response("incomplete", incomplete_details={"reason": "max_output_tokens"})),
        Words("max_output_tokens"),
    ),
    "responses that do not say why": (
        RESPONSES,
        sse(OPENING, DELTA, response("incomplete", incomplete_details=None, usage=None)),
        Words("incomplete"),
    ),
    "messages": (
        MESSAGES,
        sse(STARTED, BLOCK, *[SAID] * 9, stopped("end_turn", **OUTPUT), {"type": "message_stop"}, named=True),
        Words("end_turn", "priority"),
    ),
    "messages without a last usage": (
        MESSAGES,
        sse(STARTED, BLOCK, SAID, stopped("max_tokens"), {"type": "message_stop"}, named=True),
        Words("max_tokens", "priority"),
    ),
    "gemini": (GEMINI, sse(candidate("Red"), candidate("", "MAX_TOKENS"), COUNTED), Words("MAX_TOKENS", "priority")),
    "gemini, long at its end": (
        GEMINI,
        sse(candidate("Red"), candidate("x" * 9000, "STOP"), COUNTED, COUNTED, COUNTED),
        Words("STOP", "priority"),
    ),
    "gemini, blocked": (
        GEMINI,
        sse({"promptFeedback": {"blockReason": "SAFETY"}, **COUNTED}),
        Words("SAFETY", "priority"),
    ),
    "gemini, an array": (
        ARRAY,
        [b"[", json.dumps(candidate("Red")).encode(), b",\r\n", json.dumps(candidate("", "STOP")).encode(), b"]"],
        Words("STOP", "priority"),
    ),
}
NAMES = list(STREAMS)


def scanner_of(path: bytes, *, stream: bool = True) -> Scanner:
    protocol = lookup(b"POST", path)
    facts = protocol.facts(
        path, b'{"model":"m","stream":%b,"messages":[],"input":"?"}' % (b"true" if stream else b"false")
    )
    return protocol.scanner(facts, PRIORITY)


def read(scanner: Scanner, reads: Sequence[bytes], *, clean: bool = True) -> Words:
    """Feed as the gateway does."""
    for number, data in enumerate(reads):
        if scanner.feed(data) is not None:
            for piece in (b"", *reads[number + 1 :]):
                scanner.watch(piece)
            break
    else:
        scanner.eof(b"".join(reads))
    scanner.ending(clean)
    said = scanner.words()
    scanner.ending(clean)
    assert scanner.words() == said
    return said


@pytest.mark.parametrize("name", NAMES)
def test_a_stream_says_why_it_ended_and_how_it_was_served(name: str) -> None:
    path, events, said = STREAMS[name]
    assert read(scanner_of(path), events) == said
    assert read(scanner_of(path), [b"".join(events)]) == said


@pytest.mark.parametrize("name", NAMES)
def test_a_quick_look_at_the_tier_sees_the_same(name: str) -> None:
    path, events, said = STREAMS[name]
    scanner = scanner_of(path)
    read(scanner, events)
    found = scanner.tier()
    assert (None if found in STANDARD else found) == (None if said.service_tier in STANDARD else said.service_tier)


@pytest.mark.parametrize(
    ("text", "tier"),
    [
        (b'{"service_tier":"flex","usage":{}}', "flex"),
        (b'{"service_tier" : "default"}\n{"a":1,"service_tier":\t"flex"}', "flex"),
        (b'{"service_tier":null}', None),
        (b'{"service_tier":["flex"]}', None),
        (b'{"content":"\\"service_tier\\": \\"flex\\""}', None),
        (b"", None),
    ],
)
def test_a_tier_is_found_where_json_has_it(text: bytes, tier: str | None) -> None:
    assert tier_at_end(text) == tier


@given(st.sampled_from(NAMES), st.lists(st.integers(0, 20_000), max_size=30))
def test_however_a_stream_is_read_it_says_the_same(name: str, cuts: list[int]) -> None:
    path, events, said = STREAMS[name]
    stream = b"".join(events)
    marks = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    assert read(scanner_of(path), [stream[a:b] for a, b in pairwise(marks)]) == said


@pytest.mark.parametrize("name", NAMES)
def test_byte_by_byte_it_says_the_same(name: str) -> None:
    path, events, said = STREAMS[name]
    stream = b"".join(events)
    assert read(scanner_of(path), [stream[at : at + 1] for at in range(len(stream))]) == said


@pytest.mark.parametrize(
    ("path", "events", "said"),
    [
        (CHAT, sse(chunk({"content": "R"}, service_tier="flex"), chunk({"content": "R"})), Words(None, "flex")),
        (CHAT, sse(chunk({"role": "assistant"}, service_tier="flex")), Words(None, "flex")),
        (TEXT, sse(text("Red")), NO_WORDS),
        (RESPONSES, sse(OPENING), NO_WORDS),
        (RESPONSES, sse(OPENING, DELTA), NO_WORDS),
        (MESSAGES, sse(STARTED), Words(None, "priority")),
        (MESSAGES, sse(STARTED, BLOCK, SAID), Words(None, "priority")),
        (GEMINI, sse(candidate("Red")), Words(None, "priority")),
    ],
)
def test_what_breaks_off_has_no_reason_and_maybe_a_tier(path: bytes, events: list[bytes], said: Words) -> None:
    assert read(scanner_of(path), [*events, b'data: {"choi'], clean=False) == said


@pytest.mark.parametrize(
    ("path", "events", "said"),
    [
        (
            CHAT,
            sse(chunk({"content": ""}), chunk({}, "length", service_tier="flex"), b"[DONE]"),
            Words("length", "flex"),
        ),
        (RESPONSES, sse(OPENING, response("completed")), Words("completed")),
        (
            MESSAGES,
            sse(STARTED, stopped("end_turn", **OUTPUT), {"type": "message_stop"}),
            Words("end_turn", "priority"),
        ),
        (GEMINI, sse(candidate("", "STOP"), COUNTED), Words("STOP", "priority")),
    ],
)
def test_an_empty_answer_says_why_it_is(path: bytes, events: list[bytes], said: Words) -> None:
    assert read(scanner_of(path), events) == said


MESSAGE = {"role": "assistant", "content": "Red"}
ITEM = {"type": "message", "content": [{"type": "output_text", "text": "Red"}]}
WHOLE: list[tuple[bytes, dict[str, Any], Words]] = [
    (
        CHAT,
        {"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}], "service_tier": "default"},
        Words("stop", "default"),
    ),
    (TEXT, {"choices": [{"index": 0, "text": "Red", "finish_reason": "length"}]}, Words("length")),
    (RESPONSES, {"status": "completed", "output": [ITEM], "service_tier": "flex"}, Words("completed", "flex")),
    (
        RESPONSES,
        {"status": "incomplete", "output": [ITEM], "incomplete_details": {"reason": "content_filter"}},
        Words("content_filter"),
    ),
    (RESPONSES, {"status": "queued", "output": [], "service_tier": "auto"}, NO_WORDS),
    (
        MESSAGES,
        {
            "type": "message",
            "content": [{"type": "text", "text": "Red"}],
            "stop_reason": "tool_use",
            "usage": {"input_tokens": 9, "output_tokens": 7, "service_tier": "standard"},
        },
        Words("tool_use", "standard"),
    ),
    (GEMINI, candidate("Red", "STOP"), Words("STOP", "priority")),
]


@pytest.mark.parametrize(("path", "document", "said"), WHOLE)
def test_a_whole_answer_says_it_too_in_place_of_a_stream_or_as_one(
    path: bytes, document: dict[str, Any], said: Words
) -> None:
    body = json.dumps(document).encode()
    whole = scanner_of(path.replace(b"streamGenerate", b"generate").removesuffix(b"?alt=sse"), stream=False)
    assert read(whole, [body[:20], body[20:]]) == said
    if document.get("status") != "queued":
        assert read(scanner_of(path), [body[:20], body[20:]]) == said


def test_an_array_in_place_of_events_and_the_reverse_say_it_too() -> None:
    (_, events, said), (_, pieces, also) = STREAMS["gemini"], STREAMS["gemini, an array"]
    assert read(scanner_of(ARRAY), [b"".join(events)]) == said
    assert read(scanner_of(GEMINI), [b"".join(pieces)]) == also


def test_a_stream_in_place_of_a_whole_answer_says_it_too() -> None:
    _, events, _ = STREAMS["chat"]
    whole = scanner_of(CHAT, stream=False)
    verdict = whole.eof(b"".join(events))
    assert isinstance(verdict, Accepted)
    assert whole.words() == Words("stop")


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b'{"choices":7}', b'{"delta":"x"}', b'{"response":3}'])
@pytest.mark.parametrize("path", [CHAT, TEXT, RESPONSES, MESSAGES, GEMINI, b"/v1/embeddings", b"/v1/other"])
def test_of_what_is_no_answer_there_are_no_words(path: bytes, body: bytes) -> None:
    whole = scanner_of(path.replace(b"streamGenerate", b"generate").removesuffix(b"?alt=sse"), stream=False)
    whole.eof(body)
    assert whole.words().finish_reason is None
