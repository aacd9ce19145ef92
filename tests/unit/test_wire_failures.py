"""Status, names and headers of an error answer decide its class."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.events import FailureClass as Kind
from hedgerow.events import Headers
from hedgerow.wire.failures import classify, classify_frame, retry_after


def error(*, code: object = None, kind: str | None = None, message: str = "no", **more: object) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": code, **more}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, error(kind="invalid_request_error"), Kind.FATAL_REQUEST),
        (400, error(code="context_length_exceeded", kind="invalid_request_error"), Kind.FATAL_REQUEST),
        (400, error(code="content_filter"), Kind.CONTENT_POLICY),
        (400, error(code=None, innererror={"code": "ResponsibleAIPolicyViolation"}), Kind.CONTENT_POLICY),
        (400, error(code="content_policy_violation"), Kind.CONTENT_POLICY),
        (400, error(kind="overloaded"), Kind.FATAL_REQUEST),
        (401, error(code="invalid_api_key"), Kind.UPSTREAM_AUTH),
        (402, b"", Kind.QUOTA_EXHAUSTED),
        (403, b"<html>", Kind.UPSTREAM_AUTH),
        (404, error(code="model_not_found"), Kind.UPSTREAM_MISSING_MODEL),
        (405, b"", Kind.UPSTREAM_MISSING_MODEL),
        (408, b"", Kind.SERVER_ERROR),
        (409, b"", Kind.SERVER_ERROR),
        (410, b"", Kind.UPSTREAM_MISSING_MODEL),
        (413, b"<html><center>413 Request Entity Too Large</center></html>", Kind.FATAL_REQUEST),
        (418, b"", Kind.FATAL_REQUEST),
        (422, b'{"detail":[]}', Kind.FATAL_REQUEST),
        (424, b"", Kind.SERVER_ERROR),
        (425, b"", Kind.SERVER_ERROR),
        (429, error(code="rate_limit_exceeded", kind="requests"), Kind.RATE_LIMITED),
        (429, error(code="insufficient_quota", kind="insufficient_quota"), Kind.QUOTA_EXHAUSTED),
        (429, error(kind="usage_limit_reached"), Kind.QUOTA_EXHAUSTED),
        (429, error(kind="billing_error"), Kind.QUOTA_EXHAUSTED),
        (429, error(code="enforced_spend_limit_reached"), Kind.QUOTA_EXHAUSTED),
        (429, b'{"message":"quota","code":"insufficient_quota","object":"error"}', Kind.QUOTA_EXHAUSTED),
        (429, b"not json", Kind.RATE_LIMITED),
        (498, b"", Kind.OVERLOADED),
        (499, b"", Kind.SERVER_ERROR),
        (500, error(kind="server_error"), Kind.SERVER_ERROR),
        (500, b'{"type":"error","error":{"type":"api_error","message":"Overloaded"}}', Kind.OVERLOADED),
        (502, b"<html>", Kind.SERVER_ERROR),
        (503, error(kind="server_error"), Kind.SERVER_ERROR),
        (503, b'[{"error":{"code":503,"status":"UNAVAILABLE"}}]', Kind.OVERLOADED),
        (529, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', Kind.OVERLOADED),
        (529, b"", Kind.OVERLOADED),
        (304, b"", Kind.PROTOCOL),
        (307, b"", Kind.PROTOCOL),
        (101, b"", Kind.PROTOCOL),
        (799, b"", Kind.PROTOCOL),
    ],
)
def test_an_error_answer_has_its_class_and_keeps_its_bytes(status: int, body: bytes, kind: Kind) -> None:
    headers = [(b"content-type", b"application/json"), (b"x-request-id", b"r1")]
    failure = classify(status, headers, body)
    assert failure.kind is kind
    assert (failure.status, failure.headers, failure.body) == (status, headers, body)


def test_a_503_with_a_waiting_time_is_a_rate_limit() -> None:
    failure = classify(503, [(b"retry-after", b"7")], error(kind="overloaded"))
    assert (failure.kind, failure.retry_after) == (Kind.RATE_LIMITED, 7.0)


@pytest.mark.parametrize(
    ("frame", "kind", "status"),
    [
        (error(code=503, kind="server_error"), Kind.SERVER_ERROR, 503),
        (error(code=400, kind="BadRequestError"), Kind.FATAL_REQUEST, 400),
        (error(code="400"), Kind.FATAL_REQUEST, 400),
        (error(kind="BadRequestError"), Kind.FATAL_REQUEST, 400),
        (error(code="context_length_exceeded"), Kind.FATAL_REQUEST, 400),
        (error(code="content_filter"), Kind.CONTENT_POLICY, 400),
        (error(kind="AuthenticationError"), Kind.UPSTREAM_AUTH, 401),
        (error(code="model_not_found"), Kind.UPSTREAM_MISSING_MODEL, 404),
        (error(kind="rate_limit_error"), Kind.RATE_LIMITED, 429),
        (error(code="insufficient_quota"), Kind.QUOTA_EXHAUSTED, 429),
        (error(code="server_is_overloaded"), Kind.OVERLOADED, 503),
        (b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', Kind.OVERLOADED, 529),
        (error(code=9_999, kind="weird"), Kind.SERVER_ERROR, 500),
        (b'{"error":"out of memory"}', Kind.SERVER_ERROR, 500),
    ],
)
def test_an_error_inside_a_200_means_its_http_error(frame: bytes, kind: Kind, status: int) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"transfer-encoding", b"chunked"), (b"x-request-id", b"r")]
    failure = classify_frame(frame, headers)
    assert (failure.kind, failure.status, failure.body) == (kind, status, frame)
    assert failure.headers == [(b"content-type", b"application/json"), (b"x-request-id", b"r")]


def test_the_message_for_logs_quotes_names_and_never_the_upstreams_text() -> None:
    body = error(code="invalid_api_key", kind="bad type with spaces sk-123", message="Incorrect API key sk-123")
    assert classify(401, [], body).message == "HTTP 401 (invalid_api_key)"


DATE = (b"date", b"Mon, 30 Nov 2026 09:00:00 GMT")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ([], None),
        ([(b"retry-after", b"7")], 7.0),
        ([(b"retry-after", b"0.5")], 0.5),
        ([(b"retry-after", b"0")], 0.0),
        ([(b"retry-after-ms", b"1500"), (b"retry-after", b"9")], 1.5),
        ([(b"retry-after-ms", b"soon"), (b"retry-after", b"9")], 9.0),
        ([(b"retry-after-ms", b"nan"), (b"retry-after", b"9")], 9.0),
        ([(b"retry-after", b"999999999")], 86_400.0),
        ([(b"retry-after-ms", b"1e300")], 86_400.0),
        *[([(b"retry-after", value)], None) for value in (b"", b"nan", b"inf", b"-inf", b"-1", b"soon", b"\xff")],
        ([DATE, (b"retry-after", b"Mon, 30 Nov 2026 09:02:00 GMT")], 120.0),
        ([DATE, (b"retry-after", b"Monday, 30-Nov-26 09:02:00 GMT")], 120.0),
        ([DATE, (b"retry-after", b"Mon Nov 30 09:02:00 2026")], 120.0),
        ([DATE, (b"retry-after", b"Mon, 30 Nov 2026 08:00:00 GMT")], 0.0),
        ([DATE, (b"retry-after", b"Fri, 30 Nov 2029 08:00:00 GMT")], 86_400.0),
        ([(b"retry-after", b"Mon, 30 Nov 2026 09:02:00 GMT")], None),
        ([(b"date", b"today"), (b"retry-after", b"Mon, 30 Nov 2026 09:02:00 GMT")], None),
    ],
)
def test_the_waiting_time_is_read_in_every_form(headers: Headers, seconds: float | None) -> None:
    assert retry_after(headers) == seconds


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode), st.binary(max_size=40))
def test_no_header_makes_the_waiting_time_raise_or_leave_its_range(value: bytes, date: bytes) -> None:
    for name in (b"retry-after", b"retry-after-ms"):
        wait = retry_after([(name, value), (b"date", date)])
        assert wait is None or 0 <= wait <= 86_400


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["Overloaded", "content_filter"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["error", "code", "type", "status", "message", "innererror"]), inner, max_size=4
        )
    ),
)


@given(st.integers(0, 999), JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
def test_no_body_makes_the_classifier_raise(status: int, body: bytes) -> None:
    assert classify(status, [], body).body == body
    assert 400 <= (classify_frame(body, []).status or 0) <= 599
