"""Message and stream stand for each other, as the official SDK's own accumulator has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import jiter
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.wire.anthropic_convert import as_document, as_stream
from hedgerow.wire.anthropic_partial import closed
from hedgerow.wire.base import ACCEPTED, Ending
from tests.unit.anthropic_support import (
    BLOCK_END,
    END,
    PING,
    RED,
    START,
    STOP,
    TEXT,
    block,
    delta,
    error,
    event,
    final_beta_message,
    final_message,
    run,
    started,
    stopped,
    whole_beta_message,
    whole_message,
)

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
INPUTS = st.dictionaries(WORDS, VALUES, max_size=4)
CITATIONS = st.fixed_dictionaries(
    {
        "type": st.just("char_location"),
        "cited_text": WORDS,
        "document_index": st.integers(0, 9),
        "document_title": st.none() | WORDS,
        "start_char_index": st.integers(0, 9),
        "end_char_index": st.integers(0, 9),
    }
)
FOUND = {"type": "web_search_result", "url": "https://x", "title": "X", "encrypted_content": "e", "page_age": None}
WHOLE_BLOCKS: list[dict[str, Any]] = [
    {"type": "redacted_thinking", "data": "AAAA"},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [FOUND, FOUND]},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "s1",
        "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
    },
    {
        "type": "code_execution_tool_result",
        "tool_use_id": "s1",
        "content": {"type": "code_execution_result", "stdout": "1\n", "stderr": "", "return_code": 0, "content": []},
    },
    {"type": "container_upload", "file_id": "f1"},
]
COUNTS = st.integers(1, 99)
USAGES = st.fixed_dictionaries(
    {},
    optional={
        "input_tokens": COUNTS | st.none(),
        "cache_creation_input_tokens": COUNTS | st.none(),
        "cache_read_input_tokens": COUNTS | st.none(),
        "output_tokens_details": st.fixed_dictionaries({"thinking_tokens": COUNTS}),
        "server_tool_use": st.fixed_dictionaries({"web_search_requests": COUNTS, "web_fetch_requests": COUNTS}),
    },
)
ENDS: list[dict[str, Any]] = [
    {"reason": "end_turn"},
    {"reason": "max_tokens"},
    {"reason": "stop_sequence", "stop_sequence": "\n\nHuman:"},
    {"reason": "tool_use", "container": {"id": "c1", "expires_at": "2026-11-30T00:00:00Z"}},
    {"reason": "pause_turn", "container": None},
    {"reason": "refusal", "stop_details": {"type": "refusal", "category": "cyber", "explanation": None}},
]


def cut(text: str, cuts: list[int]) -> list[str]:
    marks = sorted({0, len(text), *(at % (len(text) + 1) for at in cuts)})
    return [text[a:b] for a, b in pairwise(marks)]


@st.composite
def block_events(draw: st.DrawFn, index: int) -> list[bytes]:
    kind = draw(st.sampled_from(["text", "thinking", "tool_use", "server_tool_use", "whole"]))
    if kind == "whole":
        return [event("content_block_start", index=index, content_block=draw(st.sampled_from(WHOLE_BLOCKS)))]
    if kind == "text":
        empty: dict[str, Any] = draw(st.sampled_from([{}, {"citations": None}, {"citations": []}]))
        said = [delta("text_delta", index, text=piece) for piece in draw(st.lists(WORDS, max_size=4))]
        cited = [
            delta("citations_delta", index, citation=citation) for citation in draw(st.lists(CITATIONS, max_size=2))
        ]
        return [block("text", index, text="", **empty), *draw(st.permutations(said + cited))]
    if kind == "thinking":
        thought = [delta("thinking_delta", index, thinking=piece) for piece in draw(st.lists(WORDS, max_size=4))]
        return [
            block("thinking", index, thinking="", signature=""),
            *thought,
            delta("signature_delta", index, signature=draw(WORDS)),
        ]
    given = json.dumps(draw(INPUTS), ensure_ascii=draw(st.booleans()))
    short = draw(st.sampled_from([len(given), draw(st.integers(0, len(given)))]))
    pieces = ["", *cut(given[:short], draw(st.lists(st.integers(0, 999), max_size=4)))]
    name = "web_search" if kind == "server_tool_use" else "look"
    told = [delta("input_json_delta", index, partial_json=piece) for piece in pieces]
    return [block(kind, index, id=f"t{index}", name=name, input={}), *told]


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    events = [started(**{key: value for key, value in draw(USAGES).items() if value is not None})]
    for index in range(draw(st.integers(0, 4))):
        events += [*draw(block_events(index)), event("content_block_stop", index=index)]
    for at in draw(st.lists(st.integers(1, len(events)), max_size=2)):
        events.insert(at, PING)
    counts = {"output_tokens": draw(st.integers(0, 99)), **draw(USAGES)}
    return b"".join((*events, stopped(**draw(st.sampled_from(ENDS)), usage=counts), END))


@settings(max_examples=150)
@given(streams())
def test_a_stream_amounts_to_what_the_sdk_makes_of_it(stream: bytes) -> None:
    assert whole_message(as_document(stream)).model_dump() == final_message(stream).model_dump()


@settings(max_examples=150)
@given(streams(), st.sampled_from([None, 1]))
def test_a_message_and_the_stream_of_it_are_the_same_to_the_sdk(stream: bytes, indent: int | None) -> None:
    document = json.dumps(json.loads(as_document(stream)), indent=indent).encode()
    again = as_stream(document)
    assert final_message(again).model_dump() == whole_message(document).model_dump()
    assert json.loads(as_document(again)) == json.loads(document)


@given(streams())
def test_the_stream_of_a_message_has_its_usage_and_its_end(stream: bytes) -> None:
    verdict, _, done, ending = run(stream)
    again = run(as_stream(as_document(stream)))
    assert again[0] == verdict or verdict is not ACCEPTED
    assert (again[2], again[3]) == (done, ending)
    assert ending is None or ending == Ending(None, ending.usage)


BETA = [
    block("mcp_tool_use", 0, id="m1", name="look", server_name="s", input={}),
    delta("input_json_delta", 0, partial_json='{"q":"x"}'),
    block("compaction", 1, content=None),
    delta("compaction_delta", 1, content="So far.", encrypted_content="e"),
    event(
        "content_block_start",
        index=2,
        content_block={
            "type": "fallback",
            "from": {"model": "c-p"},
            "to": {"model": "c-b"},
            "trigger": {"type": "refusal", "category": None},
        },
    ),
    event(
        "message_delta",
        delta={"stop_reason": "end_turn", "stop_sequence": None},
        usage={"output_tokens": 7, "iterations": [{"type": "message", "input_tokens": 1, "output_tokens": 7}]},
        context_management={"applied_edits": []},
    ),
]


def test_what_is_in_beta_amounts_to_what_the_sdk_makes_of_it() -> None:
    stream = b"".join((START, *BETA, END))
    document = as_document(stream)
    assert whole_beta_message(document).model_dump() == final_beta_message(stream).model_dump()
    assert json.loads(document)["model"] == "c-b"
    again = as_stream(document)
    assert final_beta_message(again).model_dump() == whole_beta_message(document).model_dump()
    assert json.loads(as_document(again)) == json.loads(document)


def test_values_keep_their_spelling_and_what_is_not_known_survives() -> None:
    numbers = '{"big":123456789012345678901234567890,"exact":1.10,"huge":1e400}'
    stream = b"".join(
        (
            START,
            block("tool_use", 0, id="t", name="look", input={}, caller={"type": "direct"}),
            delta("input_json_delta", 0, partial_json=numbers),
            b'data: {"type":"content_block_start","index":1,"content_block":{"type":"of_tomorrow","n":1.0e2}}\n\n',
            stopped(of_tomorrow=[1.50]),
            END,
        )
    )
    document = as_document(stream)
    for spelled in (numbers.encode(), b"1.0e2", b'"of_tomorrow":[1.5]', b'"caller":{"type":"direct"}'):
        assert spelled in document
    assert json.loads(as_document(as_stream(document))) == json.loads(document)
    assert json.dumps(numbers).encode() in as_stream(document)


def test_an_emoji_whose_halves_came_apart_is_put_together() -> None:
    halves = (delta("text_delta", text="X").replace(b"X", half) for half in (b"\\ud83d", b"\\ude00"))
    document = as_document(b"".join((START, TEXT, *halves, STOP, END)))
    assert json.loads(document)["content"][0]["text"] == "\U0001f600"
    assert json.loads(as_document(as_stream(document))) == json.loads(document)


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        START,
        START + TEXT + RED + BLOCK_END + STOP,
        TEXT + RED + STOP + END,
        END,
        START + START + END,
        START + RED + END,
        START + TEXT + delta("text_delta", 1, text="x") + END,
        START + TEXT + delta("text_delta", text=["x"]) + END,
        START + TEXT + delta("of_tomorrow", text="x") + END,
        START + TEXT + RED + error("overloaded_error") + END,
        START + block("tool_use", input={}) + delta("input_json_delta", partial_json="no") + END,
        START + event("content_block_start", index=0, content_block="odd") + END,
        START + event("message_delta", usage={"output_tokens": 1}) + END,
        event("message_start", message={"content": []}) + END,
        START + b"data: {broken\n\n" + END,
        START + b"data: []\n\n" + END,
        START + b'data: {"type":"ping","x":' + b"[" * 100_000 + b"\n\n" + END,
    ],
)
def test_a_stream_that_is_not_whole_or_not_clear_has_no_document(stream: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        as_document(stream)


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"[]",
        b"{broken",
        b"{}",
        b'{"content":[],"usage":{}}',
        b'{"content":{},"usage":{"output_tokens":1}}',
        b'{"content":["x"],"usage":{"output_tokens":1}}',
        b'{"content":[{}],"usage":{"output_tokens":1}}',
        b'{"type":"error","error":{"type":"api_error","message":"no"}}',
    ],
)
def test_what_is_no_message_has_no_stream(document: bytes) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        as_stream(document)


@given(INPUTS, st.booleans(), st.sampled_from([None, 1]), st.integers(0, 999))
def test_an_unfinished_input_is_closed_as_the_sdk_closes_it(
    given_input: dict[str, Any], ascii_only: bool, indent: int | None, at: int
) -> None:
    text = json.dumps(given_input, ensure_ascii=ascii_only, indent=indent)
    start = text[: 1 + at % len(text)]
    assert json.loads(closed(start)) == jiter.from_json(start.encode(), partial_mode=True)


@given(st.text(st.sampled_from('{}[]":,\\ \n0a1.e-'), max_size=14) | st.text(max_size=9))
def test_closing_never_fails_otherwise_than_said(text: str) -> None:
    with suppress(ValueError):
        json.loads(closed(text))


PIECES = st.sampled_from([START, TEXT, RED, BLOCK_END, STOP, END, *BETA, b'data: {"type":', b'"x"}\n\n'])


@pytest.mark.parametrize("convert", [as_document, as_stream])
@given(st.lists(st.binary(max_size=30) | PIECES, max_size=10))
def test_random_bytes_never_raise_anything_else(convert: Callable[[bytes], bytes], pieces: list[bytes]) -> None:
    for body in (b"".join(pieces), b'{"content":[{"type":"text","text":' + b"".join(pieces) + b"}]}"):
        with suppress(ValueError):
            convert(body)
