"""A stream of chat chunks before commit: what is a first token, what is an error, what is no answer at all."""

from __future__ import annotations

import json

import pytest

from hedgerow.events import FailureClass, Usage, UsageSource
from hedgerow.wire import lookup
from hedgerow.wire.base import ACCEPTED, Accepted, Ending, Facts
from tests.unit.chat_stream_support import (
    END,
    NO_TOKENS,
    RED,
    ROLE,
    SSE,
    STOP,
    USAGE,
    call,
    chunk,
    failed,
    frame,
    of,
    run,
    scanner,
    usage,
)


@pytest.mark.parametrize(
    "token",
    [
        RED,
        chunk({"role": "assistant", "content": "Red"}),
        chunk({"refusal": "I can't "}),
        chunk(call(name="look", arguments="")),
        chunk(call(arguments="{")),
        chunk({"tool_calls": [{"index": 0, "type": "custom", "custom": {"name": "sh", "input": ""}}]}),
        chunk({"function_call": {"name": "look", "arguments": ""}}),
        chunk({"reasoning_content": "thinking "}),
        chunk({"reasoning": "thinking "}),
        chunk({"content": [{"type": "text", "text": "Red"}]}),
        chunk({"audio": {"id": "a", "data": "AAAA"}}),
        chunk({"audio": {"id": "a", "transcript": "Red"}}),
        chunk({"content": "", "images": [{"type": "image_url", "image_url": {"url": "data:"}}]}),
        chunk({"content": ""}, "content_filter"),
        chunk({"content": "all of it"}, "stop"),
        frame(choices=[{"index": 0, "delta": {}}, {"index": 1, "delta": {"content": "b1"}}]),
        b'data: {"choices":[{"delta":{"content":"\\ud83d"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"a"},"logprobs":{"content":[{"logprob":-Infinity}]}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"\xff"}}]}\n\n',
        b'data:{"choices":\ndata: [{"delta":{"content":"Red"}}]}\n\n',
        chunk({"content": "Red"}).replace(b"\n", b"\r\n"),
        chunk({"content": "Red"}).replace(b"\n", b"\r"),
        chunk({"content": "R" * 1_048_576}),
        'data: {"choices":[{"delta":{"content":"P\u2028one\u0085"}}]}\n\n'.encode(),
    ],
)
def test_output_is_a_first_token(token: bytes) -> None:
    """ai-fallback's PR 22 had to list it: text alone is not what counts, reasoning and calls of tools do too."""
    assert run(ROLE, token)[:2] == (ACCEPTED, token)


@pytest.mark.parametrize(
    "thought",
    [
        chunk({"reasoning_content": "thinking "}),
        chunk({"reasoning": "thinking ", "content": ""}),
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
    ],
)
def test_reasoning_decides_only_if_it_counts(thought: bytes) -> None:
    protocol = lookup(b"POST", b"/v1/chat/completions")
    assert scanner().feed(thought) is ACCEPTED
    for end, decides in ((RED, True), (chunk({"reasoning": "hm", "content": "x"}), True), (STOP, True), (END, True)):
        reading = protocol.scanner(Facts("m", True), SSE, reasoning_counts=False)
        assert reading.feed(ROLE) is None
        assert reading.feed(thought + thought) is None
        assert (reading.feed(end) is ACCEPTED) == decides
    reading = protocol.scanner(Facts("m", True), SSE, reasoning_counts=False)
    assert reading.feed(ROLE + thought + thought) is None
    spoken = 4 if b'"thinking "' in thought else 2  # of 18 characters; of two deltas of no text
    assert reading.ending(False).usage == Usage(output_tokens=spoken, source=UsageSource.ESTIMATED)
    assert failed(reading.eof(ROLE + thought + thought)).kind is FailureClass.PROTOCOL


@pytest.mark.parametrize("quiet", NO_TOKENS)
def test_what_is_no_output_leaves_the_race_open(quiet: bytes) -> None:
    """aisix's PR 869, sglang's PR 29251: a role or a sign of life stopped the clock, 1.2 s told for 183 s (B1)."""
    assert scanner().feed(quiet) is None
    assert run(quiet, quiet, RED)[:2] == (ACCEPTED, RED)


def test_a_document_instead_of_a_stream_is_made_one() -> None:
    message = {"role": "assistant", "content": "P-answer", "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    document = json.dumps({"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage(12, 2)}).encode()
    protocol = lookup(b"POST", b"/v1/chat/completions")
    for wanted in (True, False):
        reading = protocol.scanner(Facts("m", True, wants_usage=wanted), SSE)
        assert reading.feed(document[:50]) is None
        assert reading.feed(document[50:]) is None
        verdict = reading.eof(document)
        assert isinstance(verdict, Accepted)
        assert verdict.instead is not None
        assert reading.ending(True) == Ending(None, Usage(12, 2))
        assert (b"prompt_tokens" in verdict.instead) == wanted
        told = Usage(12, 2) if wanted else Usage(output_tokens=2, source=UsageSource.ESTIMATED)
        assert run(verdict.instead)[2:] == (True, Ending(None, told))


def test_an_empty_document_instead_of_a_stream_can_still_be_delivered_as_one() -> None:
    document = b'{"id":"x","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":0}}'
    reading = scanner()
    assert reading.feed(document) is None
    failure = failed(reading.eof(document))
    assert (failure.kind, failure.status) == (FailureClass.EMPTY, 200)
    assert failure.headers == SSE
    assert failure.body is not None
    assert failure.body.endswith(END)
    assert reading.ending(True).usage == Usage(1, 0)


def test_a_token_in_an_event_that_is_not_yet_complete_does_not_count() -> None:
    assert scanner().feed(RED[:-1]) is None
    assert failed(run(RED[:-1])[0]).kind is FailureClass.PROTOCOL


@pytest.mark.parametrize(
    ("error", "kind", "status"),
    [
        (frame(error={"message": "dead", "type": "server_error", "code": 503}), FailureClass.SERVER_ERROR, 503),
        (frame(error={"message": "bad", "type": "BadRequestError", "code": 400}), FailureClass.FATAL_REQUEST, 400),
        (chunk({"content": ""}, "error", error={"code": 502, "message": "x"}), FailureClass.SERVER_ERROR, 502),
        (chunk({"content": "P"}, error={"code": 429, "message": "x"}), FailureClass.RATE_LIMITED, 429),
        (chunk({}, "error"), FailureClass.SERVER_ERROR, 500),
        (frame(error="out of memory"), FailureClass.SERVER_ERROR, 500),
        (frame(error={"code": "content_filter"}), FailureClass.CONTENT_POLICY, 400),
        (b'{"error":{"code":"insufficient_quota"}}', FailureClass.QUOTA_EXHAUSTED, 429),
        (b'data: {"error":{"code":500}}', FailureClass.SERVER_ERROR, 500),
    ],
)
def test_an_error_before_the_first_token_is_the_http_error_it_stands_for(
    error: bytes, kind: FailureClass, status: int
) -> None:
    failure = failed(run(error)[0])
    assert (failure.kind, failure.status) == (kind, status)
    assert failure.body == error.removeprefix(b"data: ").strip()
    assert failure.headers == [(b"content-type", b"application/json"), (b"x-request-id", b"r1")]


def test_an_error_frame_decides_without_waiting_for_the_end() -> None:
    """model-hotel's PR 803 and LiteLLM's issue 6957: an error within a 200 was taken for an answer."""
    reading = scanner()
    assert reading.feed(ROLE) is None
    assert failed(reading.feed(frame(error={"code": 503}) + END)).kind is FailureClass.SERVER_ERROR


@pytest.mark.parametrize(
    "stream",
    [(ROLE, STOP, END), (ROLE, END), (ROLE, STOP), (ROLE, chunk({}, "length"), USAGE), (b"data: [DONE]",)],
)
def test_a_whole_answer_with_nothing_in_it_is_empty_and_keeps_its_bytes(stream: tuple[bytes, ...]) -> None:
    """eRPC's issue 780: an empty answer cancelled the rival that had one."""
    failure = failed(run(*stream)[0])
    assert (failure.kind, failure.status, failure.headers) == (FailureClass.EMPTY, 200, SSE)
    assert failure.body == b"".join(stream)


def test_the_usage_of_an_empty_answer_is_on_record() -> None:
    reading = scanner()
    for read in (ROLE, STOP, USAGE):
        assert reading.feed(read) is None
    assert failed(reading.feed(END)).kind is FailureClass.EMPTY
    assert reading.ending(True).usage == Usage(12, 4)


@pytest.mark.parametrize(
    "stream",
    [
        b"",
        b"\n\n",
        ROLE,
        b"<!DOCTYPE html><html></html>",
        b"\n  <html>",
        b'{"id":"x","choices":[{"text":"P-answer","finish_reason":"content_filter"}]}',
        b'{"id":"x"}',
        b'{"truncated',
        b"data: {not json}\n\n",
        b"data: " + b"[" * 100_000 + b"\n\n",
        b"\x1f\x8b\x08\x00",
    ],
)
def test_what_is_no_stream_of_chunks_is_a_protocol_failure(stream: bytes) -> None:
    failure = failed(run(stream)[0])
    assert (failure.kind, failure.status, failure.body) == (FailureClass.PROTOCOL, None, None)


def test_an_html_page_is_told_at_its_first_byte() -> None:
    assert failed(scanner().feed(b"<")).message == "an HTML page instead of a stream"


def test_a_flat_error_fails_before_and_after_commit() -> None:
    flat = frame(object="error", message="lost", type="InternalServerError", code=500)
    assert failed(scanner().feed(flat)).kind is FailureClass.SERVER_ERROR
    assert failed(of(run(ROLE, RED, flat)[3]).failure).kind is FailureClass.SERVER_ERROR
