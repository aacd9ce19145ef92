"""A stream of Gemini's chunks: what is a first token, what is an error, what is an end; the same for every chunking."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Usage, UsageSource
from hedgerow.wire.base import ACCEPTED
from hedgerow.wire.gemini import GeminiFacts
from tests.unit.gemini_support import (
    BLUE,
    EVENTS,
    GEMINI,
    OVERLOADED,
    RED,
    SSE,
    STOP,
    answer,
    chunk,
    cut,
    event,
    failed,
    of,
    run,
    usage,
)

QUIET = [
    event({"usageMetadata": usage(9, 0), "modelVersion": "g-p", "responseId": "r"}),
    event(answer([{"text": ""}])),
    event(answer([{"text": "", "thoughtSignature": "c2ln"}])),
    event(answer([{"thoughtSignature": "c2ln"}])),
    event(answer([])),
    event(answer(None)),
    event({"candidates": []}),
    event({"candidates": None, "promptFeedback": {"safetyRatings": []}}),
    event(answer([{"text": ""}], "FINISH_REASON_UNSPECIFIED")),
    event({"candidates": "odd"}),
    event({"error": None}),
    b": keep-alive\n\n",
    b"data: \n\n",
    b"data: [DONE]\n\n",
]
THOUGHT = event(answer([{"text": "weighing", "thought": True}], usageMetadata=usage(9, 0)))


@pytest.mark.parametrize(
    "token",
    [
        RED,
        THOUGHT,
        RED.replace(b"\r\n", b"\n"),
        RED.replace(b"\r\n", b"\r"),
        event(answer([{"functionCall": {"name": "look", "args": {"q": "x"}}}], "STOP")),
        event(answer([{"inlineData": {"mimeType": "image/png", "data": "AAAA"}}])),
        event(answer([{"executableCode": {"language": "PYTHON", "code": "1"}}])),
        event(answer([{"codeExecutionResult": {"outcome": "OUTCOME_OK"}}])),
        event(answer([{"fileData": {"fileUri": "gs://a/b"}}])),
        event(answer([{"text": ""}, {"text": "Red"}])),
        event({"candidates": [{"index": 0, "content": {}}, {"index": 1, "content": {"parts": [{"text": "b"}]}}]}),
        event({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": usage(9, 0)}),
        *(
            event(answer(None, reason))
            for reason in ("SAFETY", "RECITATION", "SPII", "IMAGE_SAFETY", "IMAGE_NEW", "NO_IMAGE")
        ),
        event(answer([{"text": ""}], "BLOCKLIST")),
        b'data: {"candidates":[{"content":{"parts":[{"text":"\\ud83d"}]}}]}\n\n',
        b'data: {"candidates":[{"content":{"parts":[{"text":"\xff"}]},"avgLogprobs":-Infinity}]}\n\n',
        b'data:{"candidates":\ndata: [{"content":{"parts":[{"text":"Red"}]}}]}\n\n',
        chunk("R" * 1_048_576),
        'data: {"candidates":[{"content":{"parts":[{"text":"P\u2028one\u0085"}]}}]}\r\n\r\n'.encode(),
    ],
)
def test_output_and_decisions_are_a_first_token(token: bytes) -> None:
    assert run(*QUIET, token)[:2] == (ACCEPTED, token)


@pytest.mark.parametrize("quiet", QUIET)
def test_what_is_no_output_leaves_the_race_open(quiet: bytes) -> None:
    assert run(quiet, quiet, RED)[:2] == (ACCEPTED, RED)


def test_a_thought_counts_only_if_the_route_says_so() -> None:
    assert run(THOUGHT, RED, reasoning_counts=False)[:2] == (ACCEPTED, RED)
    assert run(THOUGHT, STOP, reasoning_counts=False)[:2] == (ACCEPTED, STOP)  # it thought, and that was all
    fault = event(answer(None, "MALFORMED_FUNCTION_CALL"))
    assert failed(run(THOUGHT, fault, reasoning_counts=False)[0]).kind is FailureClass.EMPTY


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "OTHER"])
@pytest.mark.parametrize("parts", [None, [], [{"text": "call:look{"}]])
def test_a_fault_fails_at_once_and_can_still_be_delivered(reason: str, parts: list[Any] | None) -> None:
    fault = event(answer(parts, reason))
    verdict, read, _ = run(QUIET[0], fault, STOP)
    assert read == fault
    assert failed(verdict) == Failure(
        FailureClass.EMPTY, "a whole answer with nothing in it", 200, SSE, QUIET[0] + fault
    )


def test_a_fault_of_one_of_several_candidates_waits_for_the_others() -> None:
    several = GeminiFacts("g", True, needs=("n",))
    fault = event(answer(None, "MALFORMED_FUNCTION_CALL"))
    assert run(fault, RED, facts=several)[:2] == (ACCEPTED, RED)
    assert failed(run(fault, facts=several)[0]).kind is FailureClass.EMPTY


@pytest.mark.parametrize("reason", ["STOP", "MAX_TOKENS", "SOMETHING_NEW"])
def test_a_finish_without_any_part_is_empty_once_the_body_ends(reason: str) -> None:
    verdict, read, _ = run(event(answer([{"text": ""}], reason)), QUIET[0])
    assert (failed(verdict).kind, read) == (FailureClass.EMPTY, b"")
    assert run(event(answer(None, reason)), RED)[:2] == (ACCEPTED, RED)  # some models say STOP in every chunk


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (event({"error": {"code": 503, "message": "x", "status": "UNAVAILABLE"}}), FailureClass.OVERLOADED, 503),
        (event({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED"}}), FailureClass.RATE_LIMITED, 429),
        (event({"error": {"code": 400, "status": "INVALID_ARGUMENT"}}), FailureClass.FATAL_REQUEST, 400),
        (event({"error": {"status": "INTERNAL"}}), FailureClass.SERVER_ERROR, 500),
        (event({"error": "out of memory"}), FailureClass.SERVER_ERROR, 500),
        (OVERLOADED, FailureClass.OVERLOADED, 503),
        (OVERLOADED + b"\n", FailureClass.OVERLOADED, 503),
        (OVERLOADED.replace(b"\n", b"\r\n"), FailureClass.OVERLOADED, 503),
        (b"".join(OVERLOADED.split(b"\n")), FailureClass.OVERLOADED, 503),
        (b"[" + OVERLOADED + b"]", FailureClass.OVERLOADED, 503),
    ],
)
@pytest.mark.parametrize("before", [b"", QUIET[0], QUIET[5]])
def test_an_error_before_the_first_token_is_the_http_error_it_stands_for(
    before: bytes, error: bytes, kind: FailureClass, status: int
) -> None:
    failure = failed(run(before + error)[0])
    assert (failure.kind, failure.status) == (kind, status)
    assert failure.body is not None
    body = json.loads(failure.body)
    assert (body[0] if isinstance(body, list) else body)["error"]
    assert failure.headers == [(b"content-type", b"application/json"), (b"x-request-id", b"r1")]


def test_an_error_that_is_followed_by_a_blank_line_decides_at_once() -> None:
    reading = GEMINI.scanner(EVENTS, SSE)
    assert reading.feed(QUIET[0] + OVERLOADED) is None
    assert failed(reading.feed(b"\r\n")).kind is FailureClass.OVERLOADED


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        OVERLOADED,
        OVERLOADED + b"\n",
        OVERLOADED + STOP,
        b"[" + OVERLOADED + b"]",
        event(json.loads(OVERLOADED)),
        event(json.loads(OVERLOADED)) + STOP,
        event(json.loads(OVERLOADED))[:-4],
    ],
)
def test_an_error_after_the_first_token(error: bytes, clean: bool) -> None:
    failure = of(run(RED, error, clean=clean)[2]).failure
    assert failure is not None
    assert (failure.kind, failure.status) == (FailureClass.OVERLOADED, 503)
    assert failure.body is not None
    assert json.loads(failure.body.strip(b"[]")) == json.loads(OVERLOADED)


def test_words_in_the_answer_are_no_error_no_finish_and_no_usage() -> None:
    words = {"error": {"code": 503}, "finishReason": "STOP", "usageMetadata": {"promptTokenCount": 1}, "blockReason": 1}
    call = event(answer([{"functionCall": {"name": "f", "args": words}}, {"text": json.dumps(words)}]))
    ending = of(run(RED, call)[2])
    assert ending.failure == Failure(FailureClass.PROTOCOL, "the stream was closed before a finish reason")
    assert of(run(RED, call, STOP)[2]).failure is None


@pytest.mark.parametrize(
    "last",
    [
        STOP,
        STOP.rstrip(),
        chunk("blue", "MAX_TOKENS"),
        chunk("blue", "SOMETHING_NEW"),
        event({"promptFeedback": {"blockReason": "OTHER"}}),
        STOP + event({"usageMetadata": usage(9, 4)}),
    ],
)
def test_whole_is_what_is_closed_cleanly_after_a_finish_reason(last: bytes) -> None:
    assert of(run(RED, last)[2]).failure is None
    assert of(run(RED, last, clean=False)[2]).failure == Failure(FailureClass.PROTOCOL, "the stream broke off")


def test_a_close_without_a_finish_reason_is_a_cut() -> None:
    ending = of(run(RED, BLUE)[2])
    assert ending.failure == Failure(FailureClass.PROTOCOL, "the stream was closed before a finish reason")
    assert ending.usage == Usage(9, 3, source=UsageSource.PARTIAL)


def test_one_chunk_that_says_it_all_needs_no_blank_line() -> None:
    whole = chunk("Red and blue", "STOP")
    assert run(whole.rstrip())[0] is ACCEPTED
    assert failed(run(RED.rstrip())[0]).kind is FailureClass.PROTOCOL


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the answer has no body"),
        (b"<!doctype html><html>", "an HTML page instead of a stream"),
        (b"data: {oops\n\n", "an event whose data is not JSON"),
        (QUIET[0], "the stream ended before its first token"),
    ],
)
def test_what_is_no_stream_is_a_broken_one(body: bytes, why: str) -> None:
    assert failed(run(body)[0]) == Failure(FailureClass.PROTOCOL, why)


@pytest.mark.parametrize(
    ("reports", "total"),
    [
        ([usage(2304, 0), usage(2304, 3), usage(2301, 4)], Usage(2301, 4)),
        ([usage(9, 2, thoughtsTokenCount=30, cachedContentTokenCount=5)], Usage(9, 32, 5, 30)),
        ([usage(9, 2, toolUsePromptTokenCount=100)], Usage(109, 2)),
        ([{"promptTokenCount": 9, "totalTokenCount": 9}], Usage(9, 0)),
        ([usage(9, 2), {"trafficType": "ON_DEMAND"}], Usage(9, 2)),
        ([{**usage(9, 2), "odd": float("nan")}], Usage(9, 2)),
    ],
)
def test_usage_is_the_last_report_never_the_sum(reports: list[dict[str, int]], total: Usage | None) -> None:
    chunks = [chunk("word", usageMetadata=report) for report in reports]
    assert of(run(RED, *chunks, chunk("", "STOP"))[2]).usage == total


def test_the_usage_of_a_loser_is_at_least_what_came() -> None:
    reading = GEMINI.scanner(EVENTS, SSE)
    assert reading.feed(QUIET[0]) is None
    assert reading.ending(False).usage == Usage(9, 0, source=UsageSource.PARTIAL)
    reading = GEMINI.scanner(EVENTS, SSE)
    assert reading.feed(chunk("Red")) is ACCEPTED
    reading.watch(chunk("and") + chunk("blue"))
    reading.watch(chunk("and")[:-1])
    assert reading.ending(False).usage == Usage(output_tokens=4, source=UsageSource.ESTIMATED)
    reading = GEMINI.scanner(EVENTS, SSE)
    assert reading.feed(chunk("Red", usageMetadata=usage(9, 5))) is ACCEPTED
    reading.watch(chunk("and", usageMetadata=usage(9, 6))[:-9])
    assert reading.ending(False).usage == Usage(9, 5, source=UsageSource.PARTIAL), "a report that broke off is none"


PIECES = st.sampled_from(
    [*QUIET, RED, BLUE, STOP, THOUGHT, OVERLOADED, event(json.loads(OVERLOADED)), chunk("", "OTHER"), b"data: {\n\n"]
)
STREAMS = st.lists(PIECES, max_size=8).map(b"".join)


@given(STREAMS, st.lists(st.integers(0, 20_000), max_size=60), st.booleans(), st.booleans())
def test_every_chunking_says_the_same(stream: bytes, cuts: list[int], clean: bool, reasoning: bool) -> None:
    def told(*reads: bytes) -> object:
        verdict, _, ending = run(*reads, clean=clean, reasoning_counts=reasoning)
        # A fault is known before the body is whole, so what is held then depends on the reads.
        empty = isinstance(verdict, Failure) and verdict.kind is FailureClass.EMPTY
        return "empty" if empty else verdict, ending

    assert told(*cut(stream, cuts)) == told(*(stream[at : at + 1] for at in range(len(stream))))


@given(st.lists(st.binary(max_size=60) | PIECES, max_size=8), st.booleans(), st.booleans())
def test_random_bytes_never_raise(pieces: list[bytes], clean: bool, array: bool) -> None:
    verdict, _, ending = run(*pieces, clean=clean, facts=GeminiFacts("g", True, array=array))
    assert verdict is ACCEPTED or ending is not None or isinstance(verdict, Failure)


def test_nothing_is_held_or_piles_up_once_a_stream_is_committed() -> None:
    tracemalloc.start()
    reading = GEMINI.scanner(EVENTS, SSE)
    assert reading.feed(b": " + b"x" * 1_000_000 + b"\n\n") is None
    assert reading.feed(RED) is ACCEPTED
    for number in range(3_000):
        reading.watch(chunk(f"word {number} ", usageMetadata=usage(9, number)))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert kept < 64 * 1024
