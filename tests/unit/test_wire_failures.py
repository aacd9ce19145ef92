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
        # OpenAI: what money is left is told from how fast one may go.
        (429, error(code="credit_balance_exhausted", kind="insufficient_quota"), Kind.QUOTA_EXHAUSTED),
        (429, error(code="organization_spend_limit_exceeded"), Kind.QUOTA_EXHAUSTED),
        (429, error(code="project_spend_limit_exceeded"), Kind.QUOTA_EXHAUSTED),
        (429, error(code="organization_usage_limit_exceeded"), Kind.QUOTA_EXHAUSTED),
        (429, error(code="billing_not_active"), Kind.QUOTA_EXHAUSTED),
        (429, error(code="slow_down", kind="rate_limit_error"), Kind.RATE_LIMITED),
        (429, error(kind="tokens", message="You exceeded your current quota, check your plan"), Kind.RATE_LIMITED),
        (403, error(code="unsupported_country_region_territory"), Kind.UPSTREAM_AUTH),
        (404, error(code="previous_response_not_found"), Kind.FATAL_REQUEST),
        (400, error(code="moderation_blocked", kind="image_generation_user_error"), Kind.CONTENT_POLICY),
        # Anthropic
        (
            429,
            error(kind="rate_limit_error", details={"error_code": "enforced_spend_limit_reached"}),
            Kind.QUOTA_EXHAUSTED,
        ),
        (429, error(kind="rate_limit_error"), Kind.RATE_LIMITED),
        (400, error(kind="invalid_request_error", message="prompt is too long: 9 > 8"), Kind.FATAL_REQUEST),
        (400, error(kind="invalid_request_error", message="Your credit balance is too low to"), Kind.QUOTA_EXHAUSTED),
        (400, error(message="You have reached your specified API usage limits. You"), Kind.QUOTA_EXHAUSTED),
        (400, error(message="You have reached your specified workspace API usage limits"), Kind.QUOTA_EXHAUSTED),
        (413, error(kind="request_too_large"), Kind.FATAL_REQUEST),
        (504, error(kind="timeout_error"), Kind.SERVER_ERROR),
        # Google
        (429, error(code=429, status="RESOURCE_EXHAUSTED", message="check your plan and billing"), Kind.RATE_LIMITED),
        (400, error(code=400, status="INVALID_ARGUMENT"), Kind.FATAL_REQUEST),
        (400, error(code=400, status="INVALID_ARGUMENT", details=[{"reason": "API_KEY_INVALID"}]), Kind.UPSTREAM_AUTH),
        (400, error(code=400, status="FAILED_PRECONDITION"), Kind.UPSTREAM_AUTH),
        (403, error(code=403, details=[{"reason": "BILLING_DISABLED"}]), Kind.QUOTA_EXHAUSTED),
        (404, error(code=404, status="NOT_FOUND"), Kind.UPSTREAM_MISSING_MODEL),
        # OpenRouter
        (403, error(code=403, metadata={"reasons": ["x"], "flagged_input": "y"}), Kind.CONTENT_POLICY),
        (403, error(code=403, metadata={"error_type": "content_policy_violation"}), Kind.CONTENT_POLICY),
        (403, error(code=403, metadata={"error_type": "permission_denied"}), Kind.UPSTREAM_AUTH),
        (429, error(code=429, metadata={"error_type": "rate_limit_exceeded"}), Kind.RATE_LIMITED),
        (503, error(code=503, metadata={"error_type": "provider_overloaded"}), Kind.OVERLOADED),
        (402, error(code=402), Kind.QUOTA_EXHAUSTED),
        # Bedrock
        (400, b'{"__type":"com.amazon#ThrottlingException","message":"slow"}', Kind.RATE_LIMITED),
        (400, b'{"__type":"ServiceQuotaExceededException"}', Kind.QUOTA_EXHAUSTED),
        (400, b'{"__type":"ValidationException"}', Kind.FATAL_REQUEST),
        (429, b'{"__type":"ModelNotReadyException"}', Kind.OVERLOADED),
        # others
        (403, b'{"code":"permission-denied","error":"Content violates usage guidelines. "}', Kind.CONTENT_POLICY),
        (403, b'{"code":"permission-denied","error":"Access to the chat endpoint is denied"}', Kind.UPSTREAM_AUTH),
        (429, error(kind="engine_overloaded_error"), Kind.OVERLOADED),
        (429, error(kind="exceeded_current_quota_error"), Kind.QUOTA_EXHAUSTED),
        (400, error(code="Arrearage"), Kind.QUOTA_EXHAUSTED),
        (400, error(code="data_inspection_failed"), Kind.CONTENT_POLICY),
        (400, error(code="400", kind="budget_exceeded"), Kind.QUOTA_EXHAUSTED),
        (400, error(code=400, kind="exceed_context_size_error", n_ctx=8), Kind.FATAL_REQUEST),
        (500, error(code=500, kind="exceed_context_size_error", n_ctx=8), Kind.FATAL_REQUEST),
        (503, error(code=503, kind="unavailable_error", message="Loading model"), Kind.OVERLOADED),
        (400, b'{"object":"error","message":"too long","type":"BadRequestError","code":400}', Kind.FATAL_REQUEST),
        (422, b'{"error":"Input validation error","error_type":"validation"}', Kind.FATAL_REQUEST),
        (429, b'{"error":"Model is overloaded","error_type":"overloaded"}', Kind.OVERLOADED),
        (404, b'{"error":"model \'x\' not found, try pulling it first"}', Kind.UPSTREAM_MISSING_MODEL),
        (407, b"", Kind.UPSTREAM_AUTH),
        (421, b"", Kind.SERVER_ERROR),
        (431, b"", Kind.FATAL_REQUEST),
        (520, b"<html>", Kind.SERVER_ERROR),
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


@pytest.mark.parametrize("status", [503, 402])
def test_a_503_or_402_with_a_waiting_time_is_a_rate_limit(status: int) -> None:
    failure = classify(status, [(b"retry-after", b"7")], error(kind="overloaded"))
    assert (failure.kind, failure.retry_after) == (Kind.RATE_LIMITED, 7.0)


@pytest.mark.parametrize("says", [b"true", b"false"])
@pytest.mark.parametrize(
    ("status", "kind"), [(400, Kind.FATAL_REQUEST), (429, Kind.RATE_LIMITED), (500, Kind.SERVER_ERROR)]
)
def test_whether_a_client_should_retry_there_says_nothing_of_the_class(says: bytes, status: int, kind: Kind) -> None:
    assert classify(status, [(b"x-should-retry", says)], b"").kind is kind


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (b"ThrottlingException:http://internal.amazon.com/coral/", Kind.RATE_LIMITED),
        (b"ServiceQuotaExceededException", Kind.QUOTA_EXHAUSTED),
        (b"\xff", Kind.FATAL_REQUEST),
    ],
)
def test_bedrock_names_its_error_in_a_header(value: bytes, kind: Kind) -> None:
    assert classify(400, [(b"x-amzn-errortype", value)], b"{}").kind is kind


@pytest.mark.parametrize(
    ("delay", "seconds"),
    [("12s", 12.0), ("0.5s", 0.5), ("999999s", 86_400.0), ("s", None), ("-1s", None), ("nans", None), (12, None)],
)
def test_googles_waiting_time_stands_in_the_body(delay: object, seconds: float | None) -> None:
    kind = "type.googleapis.com/google.rpc.RetryInfo"
    details = [{"@type": "type.googleapis.com/google.rpc.Help"}, {"@type": kind, "retryDelay": delay}]
    body = error(code=429, status="RESOURCE_EXHAUSTED", details=details)
    for failure in (classify(429, [], body), classify(429, [], b"[" + body + b"]"), classify_frame(body, [])):
        assert (failure.kind, failure.retry_after) == (Kind.RATE_LIMITED, seconds)
    assert classify(429, [(b"retry-after", b"3")], body).retry_after == 3.0


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
        # The codes of a failed response
        (b'{"type":"error","sequence_number":2,"code":"insufficient_quota"}', Kind.QUOTA_EXHAUSTED, 429),
        (b'{"type":"error","error":{"type":"x","code":"rate_limit_exceeded"}}', Kind.RATE_LIMITED, 429),
        (b'{"type":"response.failed","response":{"error":{"code":"server_error"}}}', Kind.SERVER_ERROR, 500),
        (error(code="invalid_prompt"), Kind.CONTENT_POLICY, 400),
        (error(code="bio_policy"), Kind.CONTENT_POLICY, 400),
        (error(code="misalignment_policy_violation"), Kind.CONTENT_POLICY, 400),
        (error(code="image_content_policy_violation"), Kind.CONTENT_POLICY, 400),
        (error(code="data_residency_mismatch"), Kind.UPSTREAM_AUTH, 403),
        (error(code="vector_store_timeout"), Kind.SERVER_ERROR, 504),
        *[
            (error(code=code), Kind.FATAL_REQUEST, 400)
            for code in (
                "invalid_image",
                "invalid_image_format",
                "invalid_base64_image",
                "invalid_image_url",
                "image_too_large",
                "image_too_small",
                "image_parse_error",
                "invalid_image_mode",
                "image_file_too_large",
                "unsupported_image_media_type",
                "empty_image_file",
                "failed_to_download_image",
                "image_file_not_found",
            )
        ],
        # others inside a stream
        (b'{"type":"error","error":{"type":"api_error","message":"Overloaded"}}', Kind.OVERLOADED, 529),
        (error(code=502, metadata={"error_type": "provider_unavailable"}), Kind.SERVER_ERROR, 502),
        (error(code=503, status="UNAVAILABLE"), Kind.OVERLOADED, 503),
        (b'{"choices":[{"error":{"code":429,"message":"x"},"finish_reason":"error"}]}', Kind.RATE_LIMITED, 429),
        (b'{"object":"error","message":"x","type":"BadRequestError","param":null,"code":400}', Kind.FATAL_REQUEST, 400),
        (error(kind="throttlingException"), Kind.RATE_LIMITED, 429),
        (error(kind="modelStreamErrorException"), Kind.SERVER_ERROR, 424),
        (error(kind="validationException"), Kind.FATAL_REQUEST, 400),
        (error(kind="exceed_context_size_error"), Kind.FATAL_REQUEST, 400),
        (b'{"error":"out of memory"}', Kind.SERVER_ERROR, 500),
    ],
)
def test_an_error_inside_a_200_means_its_http_error(frame: bytes, kind: Kind, status: int) -> None:
    headers = [(b"content-type", b"text/event-stream"), (b"transfer-encoding", b"chunked"), (b"x-request-id", b"r")]
    failure = classify_frame(frame, headers)
    assert (failure.kind, failure.status, failure.body, failure.in_stream) == (kind, status, frame, True)
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
        *[
            ([(b"retry-after", value)], None)
            for value in (b"", b"nan", b"inf", b"-inf", b"-1", b"soon", b"1_0", b"\xff")
        ],
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


KEYS = ["error", "code", "type", "status", "message", "innererror", "details", "metadata", "choices", "response"]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["Overloaded", "content_filter"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*KEYS, "__type", "retryDelay"]), inner, max_size=4)
    ),
)


@given(st.integers(0, 999), JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
def test_no_body_makes_the_classifier_raise(status: int, body: bytes) -> None:
    assert classify(status, [], body).body == body
    assert 400 <= (classify_frame(body, []).status or 0) <= 599
