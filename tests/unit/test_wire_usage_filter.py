"""The client that did not ask for usage gets the stream as it was sent, without the report; whatever the reads are."""

from __future__ import annotations

import json
import tracemalloc
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.wire.usage_filter import MAX_REPORT, UsageFilter

TOKENS = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}


def frame(**fields: Any) -> bytes:
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"


def chunk(content: str, **more: Any) -> bytes:
    return frame(id="c", choices=[{"index": 0, "delta": {"content": content}, "finish_reason": None}], **more)


REPORTS = [
    frame(id="c", object="chat.completion.chunk", choices=[], usage=TOKENS),
    frame(id="c", object="text_completion", choices=[], usage=TOKENS),
    frame(id="", choices=[], usage=TOKENS, obfuscation="x", prompt_filter_results=[], service_tier="default"),
    frame(choices=None, usage=TOKENS, error=None),
    b'data:{"choices":[],\ndata:"usage":{"prompt_tokens":1}}\nid: 7\n\n',
    b': late\nevent: message\ndata: {"usage": {"prompt_tokens":1}, "choices" : [ ] }\n\n',
]
"""What goes."""
OTHERS = [
    chunk("Red"),
    chunk("", usage=TOKENS),
    chunk("Red", usage=None),
    chunk('{"choices":[],"usage":{"prompt_tokens":1}}'),
    chunk('\n\ndata: {"choices":[],"usage":{"prompt_tokens":1}}\n\n'),
    frame(choices=[], usage=None),
    frame(choices=[], usage={}),
    frame(choices=[], usage=TOKENS, error={"code": 500}),
    frame(choices=[], usage=TOKENS, moderation={"input": {}}),
    frame(choices=[], usage=TOKENS, prompt_filter_results=[{"prompt_index": 0}]),
    frame(choices=[], prompt_filter_results=[{"prompt_index": 0}]),
    frame(response="", usage=TOKENS),
    frame(choices="odd", usage=TOKENS),
    b': {"choices":[],"usage":{"prompt_tokens":1}}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":1}\n\n',
    b'data: {"choices":[],"usage":{"prompt_tokens":1},"x":' + b"[" * 2000 + b"\n\n",
    b"data: [DONE]\n\n",
    b": ping\n\n",
    b"data: caf\xc3\xa9 \xff\n\n",
]
"""What stays."""
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def filtered(*reads: bytes) -> bytes:
    reading = UsageFilter()
    return b"".join(map(reading.feed, reads)) + reading.rest()


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(stream), *(at % (len(stream) + 1) for at in cuts)})
    return [stream[a:b] for a, b in pairwise(marks)]


@pytest.mark.parametrize("report", REPORTS)
@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_the_report_goes_and_nothing_else(report: bytes, line_end: bytes) -> None:
    before, gone, after = (part.replace(b"\n", line_end) for part in (chunk("a"), report, b"data: [DONE]\n\n"))
    assert filtered(before + gone + after) == before + after
    assert filtered(before, gone, after) == before + after
    assert filtered(gone) == b""
    for at in range(len(gone)):
        assert filtered(before + gone[:at], gone[at:] + after) == before + after


@pytest.mark.parametrize("other", OTHERS)
def test_whatever_is_not_the_report_stays(other: bytes) -> None:
    assert filtered(other) == other
    assert filtered(other[:9], other[9:]) == other


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from([(event, True) for event in REPORTS] + [(event, False) for event in OTHERS]), max_size=9),
    LINE_ENDS,
    st.sampled_from([b"", b"\xef\xbb\xbf", b": hello\n\n"]),
    st.lists(st.integers(0, 3000)),
)
def test_every_chunking_delivers_what_was_sent_but_for_the_reports(
    events: list[tuple[bytes, bool]], line_end: bytes, start: bytes, cuts: list[int]
) -> None:
    start += chunk("first")
    stream = (start + b"".join(event for event, _ in events)).replace(b"\n", line_end)
    expected = (start + b"".join(event for event, goes in events if not goes)).replace(b"\n", line_end)
    assert filtered(stream) == expected
    assert filtered(*cut(stream, cuts)) == expected
    assert filtered(*(stream[at : at + 1] for at in range(len(stream)))) == expected


@given(st.lists(st.binary(max_size=40) | st.sampled_from([b"\n", b"\r", b"\r\n", b"data: ", *OTHERS[:3]]), max_size=12))
def test_random_bytes_pass(pieces: list[bytes]) -> None:
    assert filtered(*pieces) == b"".join(pieces)


@given(
    st.lists(st.sampled_from([b"\n", b"\r", b"\r\n", b"data: x", *REPORTS]), max_size=12), st.lists(st.integers(0, 999))
)
def test_all_chunkings_agree_with_any_mix_of_line_ends(parts: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(parts)
    assert filtered(stream) == filtered(*cut(stream, cuts))


def test_a_line_feed_long_after_the_carriage_return_of_a_report_stays() -> None:
    report = REPORTS[0].replace(b"\n", b"\r")
    assert filtered(report + b"data: [DONE]\n", b"\n") == b"data: [DONE]\n\n"
    assert filtered(report, b"\ndata: [DONE]\n", b"\n") == b"data: [DONE]\n\n"


def test_what_is_whole_goes_out_at_once_and_as_it_is() -> None:
    reading = UsageFilter()
    whole = chunk("Red")
    assert reading.feed(whole) is whole
    assert reading.feed(whole + b"data: {") == whole
    assert reading.feed(b"}\n") == b""
    assert reading.feed(b"\n" + whole) == b"data: {}\n\n" + whole
    assert reading.feed(whole) is whole


def test_an_event_too_long_for_a_report_is_not_held() -> None:
    reading = UsageFilter()
    piece = b"x" * 10_000
    assert reading.feed(b"data: ") == b""
    sent = b"data: " + piece * 6
    assert b"".join(reading.feed(piece) for _ in range(6)) == b""
    assert reading.feed(piece) == sent + piece
    assert reading.feed(piece) == piece
    assert reading.feed(b"\n" + REPORTS[0][:-2]) == b"\n" + REPORTS[0][:-2], "still the same event"
    assert reading.feed(b"\n\n" + REPORTS[0] + chunk("a")) == b"\n\n" + chunk("a")
    assert reading.feed(sent + piece) == sent + piece
    assert reading.feed(b"\n" + REPORTS[0] + REPORTS[0]) == b"\n" + REPORTS[0], "its last line is no event of its own"
    padded = frame(choices=[], usage=TOKENS, obfuscation="x" * MAX_REPORT)
    assert filtered(padded) == padded
    assert filtered(*cut(padded, list(range(0, len(padded), 1000)))) == padded


def test_an_event_that_the_stream_breaks_off_in_is_given_at_the_end_unless_it_is_the_report() -> None:
    assert filtered(chunk("a"), b'data: {"choi') == chunk("a") + b'data: {"choi'
    assert filtered(chunk("a"), REPORTS[0][:-1]) == chunk("a")
    assert filtered(chunk("a"), REPORTS[0][:-2]) == chunk("a")


def test_an_event_that_comes_byte_by_byte_is_held_in_little_more_than_its_bytes() -> None:
    reading = UsageFilter()
    event = b"data: " + b"x" * 60_000
    tracemalloc.start()
    for at in range(len(event)):
        assert reading.feed(event[at : at + 1]) == b""
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 4 * len(event)
    assert reading.feed(b"\n\n") == event + b"\n\n"
