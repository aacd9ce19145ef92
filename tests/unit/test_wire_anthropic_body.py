"""A whole Anthropic message is judged when it is complete, and only an adequate one is accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Usage
from hedgerow.wire.base import ACCEPTED, Accepted, Ending, Facts, Scanner
from tests.unit.anthropic_support import END, JSON, MESSAGES, PING, RED, SSE, START, STOP, TEXT, error, failed


def scanner(headers: list[tuple[bytes, bytes]] = JSON, limit: int | None = None) -> Scanner:
    return MESSAGES.scanner(Facts("m", False, max_output_tokens=limit), headers)


def message(*content: dict[str, Any], stop_reason: str = "end_turn") -> bytes:
    fields = {"id": "msg_P", "type": "message", "role": "assistant", "model": "c-p", "content": content}
    usage = {"input_tokens": 25, "cache_read_input_tokens": 5, "output_tokens": 17}
    return json.dumps({**fields, "stop_reason": stop_reason, "stop_sequence": None, "usage": usage}).encode()


@pytest.mark.parametrize(
    "body",
    [
        message({"type": "text", "text": "Red"}),
        message({"type": "text", "text": "\ud83d"}),
        message({"type": "text", "text": ""}, {"type": "text", "text": "Red"}),
        message({"type": "tool_use", "id": "t", "name": "look", "input": {}}, stop_reason="tool_use"),
        message({"type": "thinking", "thinking": "hm", "signature": ""}, stop_reason="max_tokens"),
        message({"type": "thinking", "thinking": "", "signature": "c2ln"}, stop_reason="max_tokens"),
        message({"type": "redacted_thinking", "data": "AAAA"}),
        message({"type": "of_tomorrow"}),
        message(stop_reason="refusal"),
        message({"type": "text", "text": ""}, stop_reason="refusal"),
        b"\n " + message({"type": "text", "text": "Red"}),
    ],
)
def test_an_adequate_message_is_accepted_with_its_usage(body: bytes) -> None:
    reading = scanner()
    assert reading.feed(body[:10]) is None
    assert reading.feed(body[10:]) is None
    assert reading.eof(body) is ACCEPTED
    assert reading.ending(True) == Ending(None, Usage(30, 17, 5))


@pytest.mark.parametrize("odd", [b'"\\ud83d"', b"NaN", b'"\xff"'])
def test_what_only_strict_parsers_refuse_is_read_all_the_same(odd: bytes) -> None:
    assert scanner().eof(b'{"content":[{"type":"text","text":"Red","x":' + odd + b"}]}") is ACCEPTED


@pytest.mark.parametrize(
    "body", [message(), message({"type": "text", "text": ""}), message(stop_reason="max_tokens"), b'{"content":null}']
)
def test_a_message_with_nothing_in_it_is_empty_and_can_still_be_delivered(body: bytes) -> None:
    failure = failed(scanner().eof(body))
    assert (failure.kind, failure.status, failure.headers, failure.body) == (FailureClass.EMPTY, 200, JSON, body)
    assert scanner(limit=0).eof(body) is ACCEPTED


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "the answer has no body"),
        (b"<!DOCTYPE html><html></html>", "an HTML page instead of JSON"),
        (message({"type": "text", "text": "x"})[:-5], "the body is not whole JSON"),
        (b'{"status":"ok"}', "JSON that is no message"),
        (b'{"id":"x","object":"chat.completion","choices":[]}', "JSON that is no message"),
        (b'{"content":"x"}', "JSON that is no message"),
        (b"[]", "the body is not JSON"),
        (b'{"content":[],"x":' + b"[" * 100_000, "the body is not whole JSON"),
    ],
)
def test_what_is_no_message_is_a_protocol_failure(body: bytes, why: str) -> None:
    assert scanner().eof(body) == Failure(FailureClass.PROTOCOL, why)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"type":"error","error":{"type":"overloaded_error"},"request_id":"r"}', FailureClass.OVERLOADED, 529),
        (b'{"type":"error","error":{"type":"invalid_request_error"}}', FailureClass.FATAL_REQUEST, 400),
        (b'{"error":{"code":429,"message":"x"},"content":[]}', FailureClass.RATE_LIMITED, 429),
    ],
)
def test_an_error_inside_a_200_body_is_the_error_it_stands_for(body: bytes, kind: FailureClass, status: int) -> None:
    failure = failed(scanner().eof(body))
    assert (failure.kind, failure.status, failure.body) == (kind, status, body)


def test_a_stream_that_was_not_asked_for_becomes_the_message_it_amounts_to() -> None:
    stream = START + TEXT + PING + RED + STOP + END
    reading = scanner(SSE)
    assert reading.eof(stream) == Accepted(MESSAGES.as_document(stream))
    assert reading.ending(True) == Ending(None, Usage(25, 17))


def test_an_empty_stream_that_was_not_asked_for_can_still_be_delivered_as_a_message() -> None:
    stream = START + STOP + END
    failure = failed(scanner(SSE).eof(stream))
    assert (failure.kind, failure.body) == (FailureClass.EMPTY, MESSAGES.as_document(stream))
    assert failure.headers == JSON


@pytest.mark.parametrize("before", [b"", START + TEXT + RED])
def test_an_error_in_a_stream_that_was_not_asked_for_is_the_error_it_stands_for(before: bytes) -> None:
    failure = failed(scanner(SSE).eof(before + error("overloaded_error", "Overloaded")))
    assert (failure.kind, failure.status) == (FailureClass.OVERLOADED, 529)


@pytest.mark.parametrize("stream", [START, START + TEXT + RED, START + TEXT + RED + STOP, RED + STOP + END])
def test_a_cut_stream_that_was_not_asked_for_is_a_protocol_failure(stream: bytes) -> None:
    assert scanner(SSE).eof(stream) == Failure(FailureClass.PROTOCOL, "the body is not JSON")


@given(
    st.binary(max_size=100)
    | st.binary(max_size=50).map(lambda raw: b'{"content":' + raw + b"}")
    | st.binary(max_size=50).map(lambda raw: START + raw + END)
)
def test_random_bodies_never_raise(body: bytes) -> None:
    assert isinstance(scanner().eof(body), Accepted | Failure)
