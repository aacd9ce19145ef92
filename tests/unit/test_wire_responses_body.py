"""A whole response is judged when it is complete, and only an adequate one is accepted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass, Usage
from hedgerow.wire.base import ACCEPTED, Accepted, Ending, Facts, Scanner
from tests.unit.responses_support import (
    COMPLETED,
    CREATED,
    CUT_SHORT,
    FAILED,
    FINAL,
    FLAT,
    JSON,
    NESTED,
    OPENING,
    RED,
    RESPONSES,
    call,
    event,
    message,
    reasoning,
    response,
    usage,
)


def scanner() -> Scanner:
    return RESPONSES.scanner(Facts("m", False), JSON)


def body(status: str, output: list[dict[str, Any]] | None = None, **fields: Any) -> bytes:
    return json.dumps(response(status, output, usage=usage(42, 7, 1, 2), **fields)).encode()


@pytest.mark.parametrize(
    "whole",
    [
        body("completed", [message("P-answer")]),
        body("completed", [reasoning(), message("P-answer")]),
        body("completed", [message(content=[{"type": "refusal", "refusal": "I can't help."}])]),
        body("completed", [message("", "P-answer")]),
        body("completed", [call("")]),
        body("completed", [{"type": "to_come"}]),
        body("completed", [reasoning("Colours.")]),
        body("completed", [reasoning() | {"content": [{"type": "reasoning_text", "text": "Colours."}]}]),
        body("completed", [message(content=[{"type": "output_audio", "data": "AAAA"}])]),
        body("incomplete", [message("P-")], incomplete_details={"reason": "max_output_tokens"}),
        body("incomplete", [reasoning()], incomplete_details={"reason": "max_output_tokens"}),
        body("incomplete", incomplete_details={"reason": "content_filter"}),
        body("queued", background=True),
        body("in_progress", background=True),
        body("queued").replace(b'"output": [], ', b""),
        b"\n " + body("completed", [message("x")]),
        body("completed", [message("x")]).replace(b'"x"', b'"\\ud83d"'),
        body("completed", [message("x")]).replace(b'"status": "completed", "error"', b'"error"'),
    ],
)
def test_an_adequate_response_is_accepted_with_its_usage(whole: bytes) -> None:
    reading = scanner()
    assert reading.feed(whole[:10]) is None
    assert reading.feed(whole[10:]) is None
    assert reading.eof(whole) is ACCEPTED
    assert reading.ending(True) == Ending(None, Usage(42, 7, 1, 2, 0))


@pytest.mark.parametrize("output", [[], [reasoning()], [message("")], [message()]])
def test_a_response_with_nothing_in_it_is_empty_and_can_still_be_delivered(output: list[dict[str, Any]]) -> None:
    reading, whole = scanner(), body("completed", output)
    failure = reading.eof(whole)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.status, failure.headers, failure.body) == (FailureClass.EMPTY, 200, JSON, whole)
    assert reading.ending(True).usage == Usage(42, 7, 1, 2, 0)


@pytest.mark.parametrize(
    ("whole", "kind", "status"),
    [
        (body("failed", error={"code": "server_error", "message": "x"}), FailureClass.SERVER_ERROR, 500),
        (body("failed", error={"code": "rate_limit_exceeded", "message": "x"}), FailureClass.RATE_LIMITED, 429),
        (body("failed", error={"code": "invalid_prompt", "message": "x"}), FailureClass.CONTENT_POLICY, 400),
        (body("failed"), FailureClass.SERVER_ERROR, 500),
        (b'{"error":{"code":"insufficient_quota"}}', FailureClass.QUOTA_EXHAUSTED, 429),
    ],
)
def test_a_failed_response_is_the_http_error_it_stands_for(whole: bytes, kind: FailureClass, status: int) -> None:
    failure = scanner().eof(whole)
    assert isinstance(failure, Failure)
    assert (failure.kind, failure.status, failure.body) == (kind, status, whole)
    assert failure.headers == JSON


@pytest.mark.parametrize(
    ("whole", "message"),
    [
        (b"", "the answer has no body"),
        (b"<!DOCTYPE html><html></html>", "an HTML page instead of JSON"),
        (body("completed", [call()])[:-5], "the body is not whole JSON"),
        (b'{"status":1}', "JSON that is no response"),
        (b'{"choices":[]}', "JSON that is no response"),
        (b"[]", "the body is not JSON"),
        (b'{"output":[],"x":' + b"[" * 100_000, "the body is not whole JSON"),
        (body("cancelled"), "the response was cancelled upstream"),
        (CREATED, "the body is not JSON"),
        (OPENING + RED, "the body is not JSON"),
    ],
)
def test_what_is_no_response_is_a_protocol_failure(whole: bytes, message: str) -> None:
    assert scanner().eof(whole) == Failure(FailureClass.PROTOCOL, message)


@pytest.mark.parametrize(
    ("stream", "document"),
    [
        (OPENING + RED + COMPLETED, FINAL),
        (CREATED + event("response.incomplete", response=CUT_SHORT), CUT_SHORT),
    ],
)
def test_a_stream_that_was_not_asked_for_is_read_as_its_response(stream: bytes, document: dict[str, Any]) -> None:
    reading = scanner()
    verdict = reading.eof(stream)
    assert isinstance(verdict, Accepted)
    assert verdict.instead is not None
    assert json.loads(verdict.instead) == document
    assert reading.ending(True) == Ending(None, Usage(12, 2 if document is FINAL else 1, 0, 0, 0))


@pytest.mark.parametrize(
    ("stream", "kind"),
    [
        (CREATED + FLAT, FailureClass.QUOTA_EXHAUSTED),
        (CREATED + RED + NESTED, FailureClass.RATE_LIMITED),
        (CREATED + FAILED, FailureClass.SERVER_ERROR),
        (b'data: {"error":{"code":503}}\n\n', FailureClass.SERVER_ERROR),
        (CREATED + event("response.completed", response=response("completed")), FailureClass.EMPTY),
    ],
)
def test_a_stream_that_was_not_asked_for_fails_as_it_says(stream: bytes, kind: FailureClass) -> None:
    failure = scanner().eof(stream)
    assert isinstance(failure, Failure)
    assert failure.kind is kind


ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "content"]), inner),
)


@given(st.binary(max_size=100) | st.binary(max_size=50).map(lambda raw: b'{"output":' + raw + b"}"))
def test_random_bodies_never_raise(whole: bytes) -> None:
    assert isinstance(scanner().eof(whole), Accepted | Failure)


@given(st.dictionaries(st.sampled_from(["status", "output", "error", "usage", "object", "id"]), ODD), ODD)
def test_fields_of_any_type_never_raise(fields: dict[str, Any], odd: Any) -> None:
    for whole in (fields, fields | {"output": [odd, {"type": "message", "content": odd}]}):
        raw = json.dumps(whole).encode()
        assert isinstance(scanner().eof(raw), Accepted | Failure)
        assert isinstance(scanner().eof(event("response.completed", response=whole)), Accepted | Failure)
