"""A whole chat completion is judged when it is complete, and only an adequate one is accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Usage
from hedgerow.wire import lookup
from hedgerow.wire.base import ACCEPTED, Accepted, Ending, Facts, Scanner

JSON = [(b"content-type", b"application/json")]
TOKENS = {"prompt_tokens": 42, "completion_tokens": 0, "total_tokens": 42}


def scanner(headers: list[tuple[bytes, bytes]] = JSON) -> Scanner:
    return lookup(b"POST", b"/v1/chat/completions").scanner(Facts("m", False), headers)


def completion(message: dict[str, Any], finish: str | None = "stop") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "logprobs": None, "finish_reason": finish}
    return json.dumps({"id": "c", "object": "chat.completion", "choices": [choice], "usage": TOKENS}).encode()


@pytest.mark.parametrize(
    "body",
    [
        completion({"content": "P-answer", "refusal": None}),
        completion({"content": None, "refusal": "I can't help."}),
        completion({"content": None, "tool_calls": [{"function": {"name": "f", "arguments": ""}}]}, "tool_calls"),
        completion({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call"),
        completion({"content": None, "audio": {"id": "a", "data": "AAAA"}}),
        completion({"content": "", "images": [{"type": "image_url", "image_url": {"url": "data:"}}]}),
        completion({"content": "", "reasoning_content": "hm"}, "length"),
        completion({"content": ""}, "content_filter"),
        b"\n " + completion({"content": "x"}),
        b'{"choices":[{"message":{"content":"\\ud83d"}}],"usage":{"prompt_tokens":42,"completion_tokens":0}}',
    ],
)
def test_an_adequate_completion_is_accepted_with_its_usage(body: bytes) -> None:
    reading = scanner()
    assert reading.feed(body[:10]) is None
    assert reading.feed(body[10:]) is None
    assert reading.eof(body) is ACCEPTED
    ending = reading.ending(True)
    assert ending.failure is None
    assert ending.usage == Usage(42, 0)


@pytest.mark.parametrize(
    "body",
    [
        completion({"content": ""}),
        completion({"content": None}, "length"),
        completion({"content": None, "tool_calls": []}),
        b'{"choices":[],"usage":{"prompt_tokens":42,"completion_tokens":0}}',
        b'{"choices":null,"usage":{"prompt_tokens":42,"completion_tokens":0}}',
    ],
)
def test_a_completion_with_nothing_in_it_is_empty_and_can_still_be_delivered(body: bytes) -> None:
    reading = scanner()
    failure = reading.eof(body)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.status, failure.headers, failure.body) == (FailureClass.EMPTY, 200, JSON, body)
    assert reading.ending(True) == Ending(None, Usage(42, 0))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the answer has no body"),
        (b"<!DOCTYPE html><html></html>", "an HTML page instead of JSON"),
        (completion({"content": "x"})[:-5], "the body is not whole JSON"),
        (b'data: {"choices":[]}\n\n', "the body is not JSON"),
        (b'{"status":"ok"}', "JSON that is no completion"),
        (b'{"choices":"x"}', "JSON that is no completion"),
        (b"[]", "the body is not JSON"),
        (b'{"choices":[],"x":' + b"[" * 100_000, "the body is not whole JSON"),
    ],
)
def test_what_is_no_completion_is_a_protocol_failure(body: bytes, message: str) -> None:
    assert scanner().eof(body) == Failure(FailureClass.PROTOCOL, message)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"error":{"code":429,"message":"x"}}', FailureClass.RATE_LIMITED, 429),
        (b'{"error":{"type":"invalid_request_error"},"choices":[]}', FailureClass.FATAL_REQUEST, 400),
        (completion({"content": ""}, "error"), FailureClass.SERVER_ERROR, 500),
    ],
)
def test_an_error_inside_a_200_body_is_the_error_it_stands_for(body: bytes, kind: FailureClass, status: int) -> None:
    failure = scanner().eof(body)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.status, failure.body) == (kind, status, body)


def test_a_stream_instead_of_a_document_is_made_one() -> None:
    chunks = [
        {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
        {"id": "c", "choices": [{"index": 0, "delta": {"content": "P-one "}, "finish_reason": None}]},
        {"id": "c", "choices": [{"index": 0, "delta": {"content": "P-two"}, "finish_reason": "stop"}]},
        {"id": "c", "choices": [], "usage": TOKENS | {"completion_tokens": 2}},
    ]
    stream = b"".join(b"data: %b\n\n" % json.dumps(chunk).encode() for chunk in chunks)
    reading = scanner()
    verdict = reading.eof(stream + b"data: [DONE]\n\n")
    assert isinstance(verdict, Accepted)
    assert verdict.instead is not None
    message = json.loads(verdict.instead)["choices"][0]["message"]
    assert message == {"role": "assistant", "content": "P-one P-two", "refusal": None}
    assert reading.ending(True) == Ending(None, Usage(42, 2))
    assert scanner().eof(stream) == Failure(FailureClass.PROTOCOL, "the body is not JSON"), "a stream that was cut"


@given(st.binary(max_size=100) | st.binary(max_size=50).map(lambda raw: b'{"choices":' + raw + b"}"))
def test_random_bodies_never_raise(body: bytes) -> None:
    verdict = scanner().eof(body)
    assert verdict is ACCEPTED or isinstance(verdict, Failure)
