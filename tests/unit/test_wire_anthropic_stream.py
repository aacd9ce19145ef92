"""The first token, the failures, the end and the usage of a stream of Anthropic messages."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Usage
from hedgerow.wire.base import ACCEPTED, Accepted, Ending, Verdict
from tests.unit.anthropic_support import (
    BLOCK_END,
    END,
    HM,
    PING,
    RED,
    SIGNATURE,
    SSE,
    START,
    STOP,
    TEXT,
    THINKING,
    block,
    delta,
    error,
    event,
    failed,
    of,
    reads,
    run,
    scanner,
    started,
    stopped,
)

TOKENS = [
    RED,
    delta("input_json_delta", partial_json="{"),
    delta("compaction_delta", content="The talk so far."),
    block("tool_use", id="toolu_1", name="look", input={}),
    block("server_tool_use", id="srvtoolu_1", name="web_search", input={}),
    block("mcp_tool_use", id="mcptoolu_1", name="look", server_name="s", input={}),
    block("text", text="Red"),
    stopped("refusal", usage={"output_tokens": 0}, stop_details={"type": "refusal", "category": "cyber"}),
    RED.replace(b"\n", b"\r\n"),
    RED.replace(b"\n", b"\r"),
    RED.replace(b"}\n\n", b"}   \n\n"),
    b'data:{"type":\ndata: "content_block_delta","delta":{"type":"text_delta","text":"Red"}}\n\n',
    b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"\\ud83d"}}\n\n',
    b'data: {"type":"content_block_delta","delta":{"type":"text_delta","text":"\xff"}}\n\n',
    delta("text_delta", text="P\u2028one\u0085"),
    delta("text_delta", text="R" * 1_048_576),
]


@pytest.mark.parametrize("reasoning_counts", [True, False])
@pytest.mark.parametrize("token", TOKENS)
def test_output_is_a_first_token(token: bytes, reasoning_counts: bool) -> None:
    assert run(START, TEXT, PING, token, reasoning_counts=reasoning_counts)[:2] == (ACCEPTED, token)


@pytest.mark.parametrize("thought", [HM, block("thinking", thinking="hm", signature="")])
def test_reasoning_is_a_first_token_where_it_counts(thought: bytes) -> None:
    assert run(START, THINKING, thought)[:2] == (ACCEPTED, thought)
    assert run(START, THINKING, thought, SIGNATURE, RED, reasoning_counts=False)[:2] == (ACCEPTED, RED)


NO_TOKENS = [
    START,
    started(cache_read_input_tokens=7),
    TEXT,
    THINKING,
    PING,
    BLOCK_END,
    block("redacted_thinking", data="AAAA"),
    delta("thinking_delta", thinking=""),
    SIGNATURE,
    delta("citations_delta", citation={"type": "char_location", "cited_text": "x"}),
    delta("text_delta", text=""),
    delta("input_json_delta", partial_json=""),
    delta("compaction_delta", content=None),
    delta("of_tomorrow"),
    event("of_tomorrow", text="Red"),
    event("content_block_delta", delta="odd"),
    event("content_block_start"),
    stopped(None),
    b"data: 1\n\n",
    b"data: \n\n",
    b": keep-alive\n\n",
    b"event: ping\nid: 1\nretry: 10\n\n",
]


@pytest.mark.parametrize("quiet", NO_TOKENS)
def test_what_is_no_output_leaves_the_race_open(quiet: bytes) -> None:
    assert scanner().feed(quiet) is None
    assert run(START, quiet, quiet, RED)[:2] == (ACCEPTED, RED)


def test_a_token_in_an_event_that_is_not_yet_complete_does_not_count() -> None:
    assert scanner().feed(RED[:-1]) is None
    assert failed(run(START, RED[:-1])[0]).kind is FailureClass.PROTOCOL


EMPTY = [
    (START, TEXT, BLOCK_END, STOP, END),
    (START, STOP, END),
    (START, TEXT, STOP),
    (START, stopped("max_tokens"), END),
    (START, END),
]


@pytest.mark.parametrize("stream", EMPTY)
def test_a_whole_answer_with_nothing_in_it_is_empty_and_keeps_its_bytes(stream: tuple[bytes, ...]) -> None:
    failure = failed(run(*stream)[0])
    assert (failure.kind, failure.status, failure.headers) == (FailureClass.EMPTY, 200, SSE)
    assert failure.body == b"".join(stream)


def test_the_usage_of_an_empty_answer_is_on_record() -> None:
    reading = scanner()
    for read in (START, TEXT, STOP):
        assert reading.feed(read) is None
    assert failed(reading.feed(END)).kind is FailureClass.EMPTY
    assert reading.ending(True).usage == Usage(25, 17)


@pytest.mark.parametrize(
    "silent",
    [
        (THINKING, HM, SIGNATURE),
        (THINKING, SIGNATURE),
        (block("redacted_thinking", data="AAAA"),),
        (block("container_upload", file_id="f"),),
        (block("of_tomorrow"),),
        (TEXT, delta("of_tomorrow")),
    ],
)
def test_an_answer_of_what_is_no_first_token_is_accepted_when_it_is_over(silent: tuple[bytes, ...]) -> None:
    for over in (stopped("max_tokens"), END):
        verdict, decided, _, _ = run(START, *silent, over, END, reasoning_counts=False)
        assert (verdict, decided) == (ACCEPTED, over)


def test_an_answer_that_is_to_hold_nothing_may_be_empty() -> None:
    last = stopped("max_tokens")
    assert run(START, last, END, limit=0) == (ACCEPTED, last, True, Ending(None, Usage(25, 17)))
    assert run(START, END, limit=0)[0] is ACCEPTED


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"\n\n",
        START,
        START + TEXT + PING,
        b"<!DOCTYPE html><html></html>",
        b'{"truncated',
        b'{"id":"x","object":"chat.completion","choices":[]}',
        b"data: {not json}\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        b'data: {"choices":[{"delta":{"content":"Red"}}]}\n\ndata: [DONE]\n\n',
    ],
)
def test_what_is_no_stream_of_a_message_is_a_protocol_failure(stream: bytes) -> None:
    failure = failed(run(stream)[0])
    assert (failure.kind, failure.status, failure.body) == (FailureClass.PROTOCOL, None, None)


EVENTS = st.sampled_from(
    [
        *NO_TOKENS,
        RED,
        RED,
        HM,
        STOP,
        END,
        stopped("refusal"),
        delta("text_delta", text="caf\u00e9 message_stop \U0001f600"),
        error("overloaded_error", "Overloaded"),
        b"data: {broken\n\n",
        b"\xef\xbb\xbf",
        b"\n",
        b"<",
        b"{",
    ]
)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=12), LINE_ENDS, st.lists(st.integers(0, 4000)), st.booleans(), st.booleans())
def test_all_chunkings_agree(
    events: list[bytes], line_end: bytes, cuts: list[int], clean: bool, reasoning_counts: bool
) -> None:
    stream = b"".join(events).replace(b"\n", line_end)
    whole = run(stream, clean=clean, reasoning_counts=reasoning_counts)
    pieces = run(*reads(stream, cuts), clean=clean, reasoning_counts=reasoning_counts)
    assert same(pieces[0], whole[0])
    assert pieces[3] == whole[3]


def same(one: Verdict, other: Verdict) -> bool:
    """Equal but for the bytes of an empty answer, of which the reads after its end marker are no part."""
    if isinstance(one, Failure) and isinstance(other, Failure) and one.kind is FailureClass.EMPTY:
        assert one.body is not None
        assert other.body is not None
        return one.kind == other.kind and other.body.startswith(one.body)
    return one == other


@given(st.lists(st.sampled_from([RED, HM, STOP, PING]), max_size=80), st.lists(st.integers(0, 20_000)))
def test_the_end_is_seen_with_its_last_byte_in_every_chunking(middle: list[bytes], cuts: list[int]) -> None:
    verdict, _, done, ending = run(*reads(RED + b"".join(middle) + END, cuts))
    assert verdict is ACCEPTED
    assert done
    assert of(ending).failure is None


@given(st.lists(st.binary(max_size=60) | EVENTS, max_size=8), st.booleans())
def test_random_bytes_never_raise(pieces: list[bytes], clean: bool) -> None:
    verdict, _, _, ending = run(*pieces, clean=clean)
    assert isinstance(verdict, Accepted | Failure)
    assert (ending is not None) == isinstance(verdict, Accepted)
