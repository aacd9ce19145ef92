"""Generated chats converted between stream and document, and chunks of any shape."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.wire import lookup
from tests.unit.chat_support import END, USAGE, accumulated, call, piece, plain, stream

CHAT = lookup(b"POST", b"/v1/chat/completions")
ROLE = piece({"role": "assistant", "content": ""})
STOP = piece({}, "stop")


def document(raw: bytes) -> Any:
    return json.loads(CHAT.as_document(raw))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAMES = st.text("abc_", min_size=1, max_size=5)


@st.composite
def messages(draw: st.DrawFn) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A message, and deltas that it may be streamed in."""
    told: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None}]
    for key in draw(st.permutations(["content", "refusal", "reasoning_content", "reasoning"])):
        parts = draw(st.lists(TEXTS, max_size=4))
        if parts:
            told[key] = "".join(parts)
            deltas += [{key: part} for part in parts]
    calls = draw(st.lists(st.tuples(NAMES, st.lists(TEXTS, max_size=3)), max_size=3))
    if calls:
        told["tool_calls"] = []
    for at, (name, arguments) in enumerate(calls):
        whole = {"name": name, "arguments": "".join(arguments)}
        told["tool_calls"].append({"id": f"call_{at}", "type": "function", "function": whole})
        deltas.append(call(at, id=f"call_{at}", type="function", function={"name": name, "arguments": ""}))
        deltas += [call(at, function={"arguments": part}) for part in arguments]
    return told, deltas


@settings(max_examples=40)
@given(st.lists(messages(), min_size=1, max_size=3), st.randoms(use_true_random=False), st.booleans())
def test_generated_streams_are_put_together_as_the_sdk_does(
    told: list[tuple[dict[str, Any], list[dict[str, Any]]]], order: Any, usage: bool
) -> None:
    chunks = [piece(deltas[0], index=index) for index, (_, deltas) in enumerate(told)]
    left = {index: [*deltas[1:], None] for index, (_, deltas) in enumerate(told)}
    while left:
        index = order.choice(sorted(left))
        delta = left[index].pop(0)
        chunks.append(piece({}, "stop", index=index) if delta is None else piece(delta, index=index))
        if not left[index]:
            del left[index]
    raw = stream([*chunks, USAGE] if usage else chunks)
    whole = document(raw)
    assert [choice["message"] for choice in whole["choices"]] == [message for message, _ in told]
    assert plain(whole) == accumulated(raw)
    again = CHAT.as_stream(CHAT.as_document(raw))
    assert plain(document(again)) == plain(whole) == accumulated(again)


@given(st.lists(st.binary(max_size=30) | st.sampled_from([b"data: ", b"\n\n", END, stream([ROLE, STOP], b"")])))
def test_random_bytes_raise_nothing_but_what_is_said(pieces: list[bytes]) -> None:
    for convert in (CHAT.as_document, CHAT.as_stream):
        with suppress(ValueError):
            convert(b"".join(pieces))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["index", "id", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = [
    "choices",
    "index",
    "delta",
    "message",
    "content",
    "tool_calls",
    "logprobs",
    "finish_reason",
    "usage",
    "error",
]


@settings(max_examples=60)
@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4), max_size=2))
def test_chunks_of_any_shape_raise_nothing_but_what_is_said(shapes: list[dict[str, Any]]) -> None:
    chunks = [
        *shapes,
        {"choices": shapes},
        {"choices": [{"index": 0, "delta": shape, "message": shape} for shape in shapes]},
    ]
    for raw in (stream(chunks), *(json.dumps(chunk).encode() for chunk in chunks)):
        for convert in (CHAT.as_document, CHAT.as_stream):
            with suppress(ValueError):
                convert(raw)
