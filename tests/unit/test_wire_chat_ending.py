"""A stream of chat chunks after commit: what is its end, what is a cut, what it used; the same for every chunking."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Usage, UsageSource
from hedgerow.wire.base import ACCEPTED, Ending, Verdict
from tests.unit.chat_stream_support import (
    END,
    NO_TOKENS,
    RED,
    ROLE,
    STOP,
    USAGE,
    chunk,
    failed,
    frame,
    of,
    run,
    scanner,
    usage,
)


@pytest.mark.parametrize("clean", [True, False])
def test_an_answer_with_its_end_marker_is_whole_however_the_connection_ends(clean: bool) -> None:
    _, _, done, ending = run(ROLE, RED, RED, STOP, USAGE, END, clean=clean)
    assert done
    assert ending == Ending(None, Usage(12, 4))


def test_the_end_marker_counts_without_a_finish_reason() -> None:
    assert run(ROLE, RED, END)[2:] == (True, Ending(None, Usage(output_tokens=1, source=UsageSource.ESTIMATED)))


def test_a_whole_answer_in_the_deciding_read_is_seen_to_be_whole() -> None:
    assert run(ROLE + RED + STOP + USAGE + END) == (
        ACCEPTED,
        ROLE + RED + STOP + USAGE + END,
        True,
        Ending(None, Usage(12, 4)),
    )


@pytest.mark.parametrize(
    "end",
    [
        b"data: [DONE]\r\n\r\n",
        b"data: [DONE]\r\r",
        b"data:[DONE]\n\n",
        b": bye\ndata: [DONE]\nid: 7\n\n",
        b"data: [DONE]\n\n\n",
        b"data: [DONE] \n\n",
    ],
)
def test_the_end_marker_is_an_event_in_any_framing(end: bytes) -> None:
    for at in range(len(end)):
        _, _, done, ending = run(RED, end[:at], end[at:])
        assert of(ending).failure is None
        if end.endswith((b"]\n\n", b"]\r\n\r\n", b"]\r\r")):
            assert done, "seen at once, not only at the close"


@pytest.mark.parametrize("end", [b"data: [DONE]", b"data: [DONE]\n"])
def test_an_end_marker_without_its_blank_line_makes_the_answer_whole_at_the_close(end: bytes) -> None:
    assert of(run(RED, end)[3]).failure is None


@pytest.mark.parametrize(
    "text",
    [
        chunk({"content": "[DONE]"}),
        chunk({"content": "\n\ndata: [DONE]\n\n"}),
        b": [DONE]\n\n",
        b"id: [DONE]\n\n",
        b'data: {"choices":[]}[DONE]\n\n',
    ],
)
@pytest.mark.parametrize("clean", [True, False])
def test_a_stream_without_an_end_marker_is_a_cut(text: bytes, clean: bool) -> None:
    _, _, done, ending = run(ROLE, RED, text, STOP, clean=clean)
    failure = failed(of(ending).failure)
    assert not done
    assert (failure.kind, failure.body) == (FailureClass.PROTOCOL, None)


@pytest.mark.parametrize("tail", [b"", END, RED * 1000 + END])
def test_an_error_after_commit_is_the_failure(tail: bytes) -> None:
    lost = frame(error={"message": "upstream lost", "type": "server_error", "code": 503})
    failure = failed(of(run(ROLE, RED, lost, tail)[3]).failure)
    assert (failure.kind, failure.status, failure.body) == (FailureClass.SERVER_ERROR, 503, lost[6:-2])


@pytest.mark.parametrize(
    "harmless",
    [
        chunk({"content": 'the "error": {"code": 500}'}),
        chunk({"content": "x"}, error=None),
        frame(choices=[{"delta": {"content": "error"}, "logprobs": {"content": [{"token": "error"}]}}]),
        b'data: {"error": broken\n\n',
    ],
)
def test_talk_of_errors_is_no_error(harmless: bytes) -> None:
    assert of(run(ROLE, RED, harmless, STOP, END)[3]).failure is None


def test_the_last_usage_counts_when_every_chunk_reports_it() -> None:
    stream = [chunk({"content": "P"}, usage=usage(12, made)) for made in range(1, 301)]
    assert of(run(*stream, END)[3]).usage == Usage(12, 300)
    assert of(run(*stream)[3]).usage == Usage(12, 300, source=UsageSource.PARTIAL)


def test_a_stream_that_ends_early_used_at_least_a_token_for_each_delta() -> None:
    assert of(run(ROLE, RED, RED)[3]).usage == Usage(output_tokens=2, source=UsageSource.ESTIMATED)
    assert of(run(ROLE + RED + RED)[3]).usage == Usage(output_tokens=2, source=UsageSource.ESTIMATED)
    early = chunk({"content": "Red"}, usage=usage(12, 1))
    assert of(run(early, RED, RED)[3]).usage == Usage(12, 3, source=UsageSource.PARTIAL)
    late = chunk({"content": "Red"}, usage=usage(12, 9))
    assert of(run(ROLE, RED, late)[3]).usage == Usage(12, 9, source=UsageSource.PARTIAL)
    assert of(run(RED, USAGE, frame(error={"code": 503}))[3]).usage == Usage(12, 4, source=UsageSource.PARTIAL)


@pytest.mark.parametrize("quiet", [ROLE, chunk({}), frame(error={"code": 503}), chunk({}, error={"code": 503})])
def test_a_stream_that_has_said_nothing_is_taken_to_have_made_nothing(quiet: bytes) -> None:
    reading = scanner()
    reading.feed(quiet)
    assert reading.ending(False).usage == Usage(output_tokens=0, source=UsageSource.ESTIMATED)


def test_usage_says_what_was_cached_and_what_was_reasoning() -> None:
    report = usage(12, 4) | {
        "prompt_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 2, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 3},
    }
    assert of(run(RED, frame(choices=[], usage=report), END)[3]).usage == Usage(12, 4, 8, 3, 2)
    odd = report | {"prompt_tokens": "12"}
    assert of(run(RED, frame(choices=[], usage=odd), END)[3]).usage == Usage(
        output_tokens=1, source=UsageSource.ESTIMATED
    )


@pytest.mark.parametrize(
    ("total", "reasoning", "made"),
    [(16, 3, 4), (19, 3, 7), (19, None, 7), (18, 3, 4), (19, 0, 4), (11, 3, 4), ("19", 3, 4), (None, 3, 4)],
    ids=["OpenAI", "xAI", "Google", "neither", "no reasoning", "less", "a text", "no total"],
)
def test_reasoning_beside_the_completion_is_output_too(total: object, reasoning: int | None, made: int) -> None:
    report = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": total}
    report |= {} if reasoning is None else {"completion_tokens_details": {"reasoning_tokens": reasoning}}
    expected = Usage(12, made, reasoning_tokens=reasoning)
    assert of(run(RED, frame(choices=[], usage=report), END)[3]).usage == expected


def test_talk_of_usage_does_not_hide_the_last_report() -> None:
    talk = frame(choices=[], usage={"prompt_tokens": None})
    assert of(run(RED, USAGE, talk, b': "prompt_tokens"\n\n', END)[3]).usage == Usage(12, 4)


def test_the_first_of_two_errors_is_the_failure() -> None:
    first, second = frame(error={"code": 503}), frame(error={"code": 400})
    assert failed(of(run(RED, first, second)[3]).failure).status == 503


def reads(stream: bytes, cuts: list[int]) -> list[bytes]:
    marks = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    return [stream[a:b] for a, b in pairwise(marks)]


EVENTS = st.sampled_from(
    [
        *NO_TOKENS,
        RED,
        RED,
        STOP,
        USAGE,
        END,
        chunk({"content": "caf\u00e9 [DONE] \U0001f600"}, usage=usage(12, 2)),
        frame(error={"code": 503}),
        chunk({}, "error"),
        b"data: {broken\n\n",
        b"data: [DONE]\nid: 1\n\n",
        b"\xef\xbb\xbf",
        b"\n",
        b"<",
        b"{",
    ]
)
LINE_ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@settings(max_examples=300)
@given(st.lists(EVENTS, max_size=12), LINE_ENDS, st.lists(st.integers(0, 4000)), st.booleans())
def test_all_chunkings_agree(events: list[bytes], line_end: bytes, cuts: list[int], clean: bool) -> None:
    stream = b"".join(events).replace(b"\n", line_end)
    whole, pieces = run(stream, clean=clean), run(*reads(stream, cuts), clean=clean)
    assert same(pieces[0], whole[0])
    assert pieces[3] == whole[3]


def same(one: Verdict, other: Verdict) -> bool:
    """Equal but for the bytes of an empty answer, of which the reads after its end marker are no part."""
    if isinstance(one, Failure) and isinstance(other, Failure) and one.kind is FailureClass.EMPTY:
        assert one.body is not None
        assert other.body is not None
        return one.kind == other.kind and other.body.startswith(one.body)
    return one == other


@given(st.lists(st.sampled_from([RED, USAGE, STOP, ROLE]), max_size=80), st.lists(st.integers(0, 20_000)))
def test_the_end_is_seen_with_its_last_byte_in_every_chunking(middle: list[bytes], cuts: list[int]) -> None:
    stream = RED + b"".join(middle) + END
    verdict, _, done, ending = run(*reads(stream, cuts))
    assert verdict is ACCEPTED
    assert done
    assert of(ending).failure is None


@given(st.lists(st.binary(max_size=60) | EVENTS, max_size=8), st.booleans())
def test_random_bytes_never_raise(pieces: list[bytes], clean: bool) -> None:
    verdict, _, _, ending = run(*pieces, clean=clean)
    assert verdict is ACCEPTED or isinstance(verdict, Failure)
    assert (ending is not None) == (verdict is ACCEPTED)


def test_nothing_is_held_or_piles_up_once_a_stream_is_committed() -> None:
    tracemalloc.start()
    reading = scanner()
    assert reading.feed(b": " + b"x" * 1_000_000 + b"\n\n") is None
    assert reading.feed(ROLE + RED) is ACCEPTED
    for number in range(3_000):
        reading.watch(chunk({"content": f"word {number} "}))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 64 * 1024
