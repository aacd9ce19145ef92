"""What gates see of generated streams, cut anywhere, and of any bytes at all."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.wire import PROTOCOLS, lookup
from hedgerow.wire.base import Protocol
from tests.unit import anthropic_support as a
from tests.unit import chat_support as c
from tests.unit import gemini_support as g

CHAT = lookup(b"POST", b"/v1/chat/completions")
TEXT = lookup(b"POST", b"/v1/completions")
RESPONSES = lookup(b"POST", b"/v1/responses")
MESSAGES = lookup(b"POST", b"/v1/messages")
GEMINI = lookup(b"POST", b"/v1beta/models/g:generateContent")

WORDS = st.lists(st.text(st.characters(exclude_characters="\r\n"), max_size=6), max_size=4)
PARTS = (
    st.lists(st.sampled_from(["Ré", "d ", "😀", "\ud83d", "\ude00", "", '"{', "\\", "\n\n", "data: "]), max_size=5)
    | WORDS
)


@st.composite
def chats(draw: st.DrawFn) -> bytes:
    """A whole stream of one or two choices."""
    chunks: list[dict[str, Any]] = []
    for index in range(draw(st.integers(1, 2))):
        deltas = [
            c.piece({key: part}, index=index) for key in ("content", "refusal", "reasoning") for part in draw(PARTS)
        ]
        if draw(st.booleans()):
            deltas.append(c.piece(c.call(0, id="x", function={"name": "f"}), index=index))
        finish = draw(st.sampled_from(["stop", "length", "tool_calls", "content_filter", None]))
        chunks += [c.piece({"role": "assistant"}, index=index), *deltas, c.piece({}, finish, index=index)]
    return c.stream([*chunks, c.USAGE] if draw(st.booleans()) else chunks)


@st.composite
def texts(draw: st.DrawFn) -> bytes:
    """A whole stream of a text completion."""
    pieces: list[dict[str, Any]] = [{"text": part} for part in draw(PARTS)]
    finish = {"text": "", "finish_reason": draw(st.sampled_from(["stop", "length", None]))}
    return c.stream([{"choices": [{"index": 0, **piece}]} for piece in [*pieces, finish]])


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    """A whole stream of a response."""
    said: list[dict[str, Any]] = [{"type": "output_text", "text": "".join(draw(WORDS))} for _ in draw(WORDS)]
    refused = [{"type": "refusal", "refusal": part} for part in draw(WORDS)]
    output = [
        {"type": "reasoning", "id": "r", "summary": []},
        {"type": "message", "id": "m", "content": said + refused},
        {"type": "function_call", "id": "f", "arguments": "{}"},
    ]
    status = draw(st.sampled_from(["completed", "incomplete"]))
    details = {"reason": draw(st.sampled_from(["max_output_tokens", "content_filter", "steered"]))}
    document = {
        "status": status,
        "incomplete_details": details if status == "incomplete" else None,
        "output": output[: draw(st.integers(0, 3))],
        "usage": {
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": draw(st.none() | st.integers(0, 9))},
        },
    }
    return RESPONSES.as_stream(json.dumps(document).encode())


def said(index: int, kind: str, text: str) -> bytes:
    """A delta, in which surrogates are escaped."""
    event = {"type": "content_block_delta", "index": index, "delta": {"type": f"{kind}_delta", kind: text}}
    return b"data: %b\n\n" % json.dumps(event).encode()


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    """A whole stream of a message."""
    events = [a.START, a.PING]
    for index in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["text", "thinking", "tool_use"]))
        if kind == "tool_use":
            events.append(a.block(kind, index, id="t", name="f", input={}))
        else:
            events.append(a.block(kind, index, **{kind: draw(st.sampled_from(["", "R"]))}))
            events += [said(index, kind, part) for part in draw(PARTS)]
        events.append(a.event("content_block_stop", index=index))
    reason = draw(st.sampled_from(["end_turn", "max_tokens", "tool_use", "refusal", "pause_turn"]))
    usage: dict[str, Any] = {"output_tokens": 5}
    if draw(st.booleans()):
        usage["output_tokens_details"] = {"thinking_tokens": 2}
    return b"".join([*events, a.stopped(reason, usage), a.END])


@st.composite
def generations(draw: st.DrawFn) -> bytes:
    """A whole stream of Gemini's, as events or as an array."""
    chunks = [g.answer([{"text": part}, {"text": "hm", "thought": True}]) for part in draw(PARTS)]
    if draw(st.booleans()):
        chunks.append(g.answer([{"functionCall": {"name": "f"}}]))
    finish = draw(st.sampled_from(["STOP", "MAX_TOKENS", "SAFETY", "OTHER"]))
    chunks.append(g.answer([], finish, usageMetadata=g.usage(9, 4)))
    if draw(st.booleans()):
        return b"[" + b",\r\n".join(json.dumps(chunk).encode() for chunk in chunks) + b"]"
    return b"".join(g.event(chunk) for chunk in chunks)


STREAMS = st.one_of(
    st.tuples(st.just(CHAT), chats()),
    st.tuples(st.just(TEXT), texts()),
    st.tuples(st.just(RESPONSES), responses()),
    st.tuples(st.just(MESSAGES), messages()),
    st.tuples(st.just(GEMINI), generations()),
)


@settings(max_examples=200)
@given(STREAMS, st.data())
def test_a_whole_stream_is_the_answer_of_its_document_however_it_comes(
    told: tuple[Protocol, bytes], data: st.DataObject
) -> None:
    protocol, stream = told
    answer = protocol.answer(protocol.as_document(stream))
    assert answer.complete
    assert protocol.answer_so_far(stream) == answer
    reading = protocol.reading()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        reading.feed(stream[start:end])
    reading.end()
    assert reading.answer() == answer


@settings(max_examples=200)
@given(STREAMS, st.data())
def test_the_start_of_a_stream_holds_the_start_of_its_text(told: tuple[Protocol, bytes], data: st.DataObject) -> None:
    protocol, stream = told
    answer = protocol.answer_so_far(stream)
    start = protocol.answer_so_far(stream[: data.draw(st.integers(0, len(stream)))])
    assert answer.text.startswith(
        start.text.rstrip("\ud83d").rstrip("\ufffd")
    )  # the other half of a character may be missing
    assert start.finish in (None, answer.finish)
    assert answer.tool_calls or not start.tool_calls
    assert not start.complete or start == answer or protocol is GEMINI


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["index", "type", "text"]), inner),
    max_leaves=6,
)
FIELDS = [
    *("choices", "index", "delta", "message", "content", "tool_calls", "audio", "images", "finish_reason", "usage"),
    *("type", "item", "response", "output", "part", "output_index", "status", "incomplete_details", "refusal"),
    *("content_block", "stop_reason", "stop_details", "text", "completion_tokens", "completion_tokens_details"),
    *(
        "output_tokens",
        "candidates",
        "finishReason",
        "promptFeedback",
        "usageMetadata",
        "parts",
        "candidatesTokenCount",
    ),
]
KINDS = [
    *("response.output_text.delta", "response.output_item.added", "response.output_item.done", "response.completed"),
    *("content_block_start", "content_block_delta", "message_start", "message_delta", "message_stop", "text_delta"),
    *("text", "message"),
]
SHAPES = st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4)
NESTED = st.recursive(
    SHAPES,
    lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner | st.lists(inner, max_size=2), max_size=3),
    max_leaves=5,
)


@settings(max_examples=60)
@given(st.lists(NESTED, max_size=3), st.sampled_from(KINDS))
def test_events_of_any_shape_raise_nothing(shapes: list[dict[str, Any]], kind: str) -> None:
    events = [
        *shapes,
        {"choices": shapes},
        {"candidates": shapes},
        *({"type": kind, "delta": shape, "item": shape, "message": shape, "response": shape} for shape in shapes),
    ]
    stream = c.stream(events)
    for protocol in PROTOCOLS:
        protocol.answer_so_far(stream)
        for event in events:
            protocol.answer(json.dumps(event).encode())


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"data: ", b"\n\n", c.END, a.START, g.RED, b"[{", b"}]"])))
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_random_bytes_raise_nothing(protocol: Protocol, pieces: list[bytes]) -> None:
    protocol.answer(b"".join(pieces))
    protocol.answer_so_far(b"".join(pieces))


@pytest.mark.parametrize(
    ("protocol", "piece"),
    [
        (CHAT, c.stream([c.piece({"content": "Red "})], b"")),
        (TEXT, c.stream([{"choices": [{"text": "Red "}]}], b"")),
        (MESSAGES, a.delta("text_delta", text="Red ")),
        (GEMINI, g.RED),
    ],
    ids=lambda value: value.name if isinstance(value, Protocol) else "",
)
def test_the_work_is_linear_in_the_bytes_however_they_come(protocol: Protocol, piece: bytes) -> None:
    """A hundred thousand pieces; were any of them looked at again for each that follows, this would take minutes."""
    reading = protocol.reading()
    if protocol is MESSAGES:
        reading.feed(a.START + a.TEXT)
    for _ in range(100_000):
        reading.feed(piece)
    assert reading.chars == 400_000
    assert len(reading.answer().text) == 400_000
