"""Errors inside the stream of a response, before and after its first token."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hedgerow.events import Failure, FailureClass, Usage
from tests.unit.responses_support import (
    COMPLETED,
    CREATED,
    FAILED,
    FLAT,
    IN_PROGRESS,
    NESTED,
    OPENING,
    RED,
    SSE,
    delta,
    event,
    failed,
    message,
    of,
    reasoning,
    response,
    run,
    scanner,
    usage,
)


def flat(code: str | None, **fields: Any) -> bytes:
    return event("error", 2, code=code, message="x", param=None, **fields)


def nested(kind: str, code: str | None) -> bytes:
    return event("error", 2, error={"type": kind, "code": code, "message": "x", "param": None})


def broke(code: str) -> bytes:
    return event("response.failed", 2, response=response("failed", error={"code": code, "message": "x"}))


ERRORS = [
    (FLAT, FailureClass.QUOTA_EXHAUSTED, 429),
    (flat("rate_limit_exceeded"), FailureClass.RATE_LIMITED, 429),
    (flat("server_error"), FailureClass.SERVER_ERROR, 500),
    (flat("invalid_prompt"), FailureClass.CONTENT_POLICY, 400),
    (flat("context_length_exceeded"), FailureClass.FATAL_REQUEST, 400),
    (flat(None), FailureClass.SERVER_ERROR, 500),
    (NESTED, FailureClass.RATE_LIMITED, 429),
    (nested("service_unavailable_error", None), FailureClass.SERVER_ERROR, 503),
    (nested("invalid_request_error", "model_not_found"), FailureClass.UPSTREAM_MISSING_MODEL, 404),
    (nested("tokens", "rate_limit_exceeded"), FailureClass.RATE_LIMITED, 429),
    (FAILED, FailureClass.SERVER_ERROR, 500),
    (broke("rate_limit_exceeded"), FailureClass.RATE_LIMITED, 429),
    (broke("bio_policy"), FailureClass.CONTENT_POLICY, 400),
    (broke("image_content_policy_violation"), FailureClass.CONTENT_POLICY, 400),
    (broke("invalid_base64_image"), FailureClass.FATAL_REQUEST, 400),
    (broke("vector_store_timeout"), FailureClass.SERVER_ERROR, 504),
    (b'data: {"error":{"message":"dead","code":503}}\n\n', FailureClass.SERVER_ERROR, 503),
    (delta("x").replace(b'"logprobs":[]', b'"error":{"code":503}'), FailureClass.SERVER_ERROR, 503),
    (b'data: {"error":"out of memory"}\n\n', FailureClass.SERVER_ERROR, 500),
    (b'data: {"type":"error","code":"insufficient_quota"}', FailureClass.QUOTA_EXHAUSTED, 429),
]


@pytest.mark.parametrize(("error", "kind", "status"), ERRORS)
def test_an_error_before_the_first_token_is_the_http_error_it_stands_for(
    error: bytes, kind: FailureClass, status: int
) -> None:
    failure = failed(run(OPENING, error)[0])
    assert (failure.kind, failure.status) == (kind, status)
    assert failure.headers == [(b"content-type", b"application/json"), (b"x-request-id", b"r1")]
    assert failure.body is not None
    assert json.loads(failure.body)["error"], "as in an HTTP error's body"


def test_the_body_of_an_error_is_what_the_upstream_said() -> None:
    assert failed(run(FLAT)[0]).body == (
        b'{"error":{"type":"error","sequence_number":2,"code":"insufficient_quota",'
        b'"message":"You exceeded your current quota.","param":null}}'
    )
    assert failed(run(NESTED)[0]).body == NESTED.partition(b"data: ")[2].strip()
    assert failed(run(FAILED)[0]).body == b'{"error":{"code":"server_error","message":"The model failed."}}'


@pytest.mark.parametrize(
    ("end", "failure"),
    [
        (
            event("response.failed", response=response("failed")),
            Failure(FailureClass.SERVER_ERROR, "the response failed without saying why"),
        ),
        (
            event("response.cancelled", response=response("cancelled")),
            Failure(FailureClass.PROTOCOL, "the response was cancelled upstream"),
        ),
        (b"data: [DONE]\n\n", Failure(FailureClass.PROTOCOL, "[DONE] before the end of the response")),
        (b"data: {not json}\n\n", Failure(FailureClass.PROTOCOL, "an event whose data is not JSON")),
        (b'data: {"a":' + b"[" * 100_000 + b"\n\n", Failure(FailureClass.PROTOCOL, "an event whose data is not JSON")),
        (b"", Failure(FailureClass.PROTOCOL, "the stream ended before its first token")),
    ],
)
def test_a_stream_that_ends_or_breaks_before_its_first_token_has_failed(end: bytes, failure: Failure) -> None:
    assert run(CREATED, IN_PROGRESS, end)[0] == failure


@pytest.mark.parametrize("body", [b"", b"\n\n", b"<!DOCTYPE html>", b"\n <html>", b'{"truncated', b"\x1f\x8b\x08"])
def test_what_is_no_stream_of_events_is_a_protocol_failure(body: bytes) -> None:
    failure = failed(run(body)[0])
    assert (failure.kind, failure.status, failure.body) == (FailureClass.PROTOCOL, None, None)


def test_an_end_without_a_response_that_can_be_read_is_an_empty_answer() -> None:
    assert failed(run(OPENING, event("response.completed", response=1))[0]).kind is FailureClass.EMPTY


@pytest.mark.parametrize("output", [[], None, [reasoning()], [message("")], [message()], "odd"])
def test_a_completed_response_with_nothing_in_it_is_empty_and_keeps_its_bytes(output: Any) -> None:
    final = response("completed", usage=usage(12, 0)) | {"output": output}
    reads = (OPENING, event("response.completed", 4, response=final))
    reading = scanner()
    assert reading.feed(reads[0]) is None
    failure = failed(reading.feed(reads[1]))
    assert (failure.kind, failure.status, failure.headers) == (FailureClass.EMPTY, 200, SSE)
    assert failure.body == b"".join(reads)
    assert reading.ending(True).usage == Usage(12, 0, 0, 0, 0)


@pytest.mark.parametrize(("error", "kind", "status"), ERRORS)
@pytest.mark.parametrize("tail", [b"", COMPLETED])
def test_an_error_after_commit_is_the_failure(error: bytes, kind: FailureClass, status: int, tail: bytes) -> None:
    error = error if error.endswith(b"\n\n") else error + b"\n\n"
    failure = failed(of(run(OPENING, RED, error, tail)[3]).failure)
    assert (failure.kind, failure.status) == (kind, status)


def test_the_first_of_two_errors_is_the_failure() -> None:
    assert failed(of(run(RED, FLAT + FAILED)[3]).failure).kind is FailureClass.QUOTA_EXHAUSTED
