"""What Google's errors mean, and how ours look to Google's clients."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import Failure, FailureClass
from hedgerow.wire.sse import payloads
from tests.unit.gemini_support import EVENTS, GEMINI, SSE

JSON = [(b"content-type", b"application/json; charset=UTF-8")]
QUOTA = "You exceeded your current quota, please check your plan and billing details."


def error(code: int, status: str, message: str = "x", details: Any = None) -> bytes:
    return json.dumps(
        {"error": {"code": code, "message": message, "status": status, "details": details}}, indent=2
    ).encode()


def detail(kind: str, **fields: Any) -> dict[str, Any]:
    return {"@type": f"type.googleapis.com/google.rpc.{kind}", **fields}


KEY = [detail("ErrorInfo", reason="API_KEY_INVALID", domain="googleapis.com")]


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, error(400, "INVALID_ARGUMENT"), FailureClass.FATAL_REQUEST),
        (400, error(400, "INVALID_ARGUMENT", "API key not valid.", KEY), FailureClass.UPSTREAM_AUTH),
        (400, error(400, "FAILED_PRECONDITION", "User location is not supported for the API use."), "upstream_auth"),
        (400, error(400, "FAILED_PRECONDITION", "Please enable billing on the project."), "upstream_auth"),
        (400, error(400, "FAILED_PRECONDITION", "The File f is not in an ACTIVE state."), FailureClass.FATAL_REQUEST),
        (401, error(401, "UNAUTHENTICATED"), FailureClass.UPSTREAM_AUTH),
        (402, error(402, "X"), FailureClass.QUOTA_EXHAUSTED),
        (403, error(403, "PERMISSION_DENIED"), FailureClass.UPSTREAM_AUTH),
        (404, error(404, "NOT_FOUND"), FailureClass.UPSTREAM_MISSING_MODEL),
        (429, error(429, "RESOURCE_EXHAUSTED", QUOTA), FailureClass.RATE_LIMITED),
        (499, error(499, "CANCELLED"), FailureClass.SERVER_ERROR),
        (500, error(500, "INTERNAL"), FailureClass.SERVER_ERROR),
        (503, error(503, "UNAVAILABLE"), FailureClass.OVERLOADED),
        (504, error(504, "DEADLINE_EXCEEDED"), FailureClass.SERVER_ERROR),
        (503, b"[" + error(503, "UNAVAILABLE") + b"]", FailureClass.OVERLOADED),
        (502, b"<html>", FailureClass.SERVER_ERROR),
    ],
)
def test_an_error_is_classified_by_status_name_and_details(status: int, body: bytes, kind: FailureClass) -> None:
    failure = GEMINI.classify(status, JSON, body)
    assert (failure.kind, failure.status, failure.headers, failure.body) == (kind, status, JSON, body)


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [
        ("34.074824224s", 34.074824224),
        ("0s", 0.0),
        ("9999999s", 86_400.0),
        ("-1s", None),
        ("nans", None),
        ("soon", None),
        (5, None),
        (None, None),
    ],
)
def test_retry_info_says_how_long_to_wait(delay: Any, seconds: float | None) -> None:
    body = error(429, "RESOURCE_EXHAUSTED", QUOTA, ["odd", detail("Help"), detail("RetryInfo", retryDelay=delay)])
    failure = GEMINI.classify(429, JSON, body)
    assert (failure.kind, failure.retry_after) == (FailureClass.RATE_LIMITED, seconds)
    told = GEMINI.scanner(EVENTS, SSE).eof(body)
    assert isinstance(told, Failure)
    assert told.kind is FailureClass.PROTOCOL  # a scanner is fed before its end
    reading = GEMINI.scanner(EVENTS, SSE)
    assert reading.feed(body) is None
    inside = reading.eof(body)
    assert isinstance(inside, Failure)
    assert (inside.kind, inside.status, inside.retry_after) == (FailureClass.RATE_LIMITED, 429, seconds)


def test_a_header_says_it_more_surely() -> None:
    body = error(429, "RESOURCE_EXHAUSTED", QUOTA, [detail("RetryInfo", retryDelay="34s")])
    assert GEMINI.classify(429, [*JSON, (b"retry-after", b"7")], body).retry_after == 7.0


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "INVALID_ARGUMENT"),
        (404, "NOT_FOUND"),
        (413, "INVALID_ARGUMENT"),
        (429, "RESOURCE_EXHAUSTED"),
        (500, "INTERNAL"),
        (502, "UNAVAILABLE"),
        (503, "UNAVAILABLE"),
        (504, "DEADLINE_EXCEEDED"),
        (529, "INTERNAL"),
    ],
)
def test_an_error_of_ours_looks_like_googles(status: int, name: str) -> None:
    body = GEMINI.error_body(status, "No answer.", kind="upstream_error")
    assert body == b'{"error":{"code":%d,"message":"No answer.","status":"%b"}}' % (status, name.encode())


def test_an_error_of_ours_says_its_class_in_the_details() -> None:
    told = json.loads(GEMINI.error_body(504, "Too late.", kind="timeout_error", code="timeout_total"))
    assert told["error"]["details"] == [detail("ErrorInfo", reason="TIMEOUT_TOTAL", domain="hedgerow")]


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (Failure(FailureClass.TIMEOUT_STALL, "silence"), 504),
        (Failure(FailureClass.PROTOCOL, "cut"), 502),
        (Failure(FailureClass.EMPTY, "nothing", 200), 502),
        (Failure(FailureClass.OVERLOADED, "busy", 503), 503),
    ],
)
def test_an_error_after_commit_is_an_event_that_clients_raise_for(failure: Failure, code: int) -> None:
    frame = GEMINI.error_frame(failure)
    (payload,) = payloads(frame)
    assert payload.startswith(b'{"error":{"code":%d,' % code)  # how the SDK recognises it
    reading = GEMINI.scanner(EVENTS, SSE)
    verdict = reading.feed(frame)
    assert isinstance(verdict, Failure)
    assert verdict.status == code


@given(st.integers(100, 999), st.binary(max_size=80) | st.from_regex(rb'\{"error":[\[\]{}0-9",a-z:]*', fullmatch=True))
def test_random_errors_never_raise(status: int, body: bytes) -> None:
    assert GEMINI.classify(status, JSON, body).body == body
