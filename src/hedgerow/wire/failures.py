"""From an upstream's error answer to its failure class, and from its headers to a waiting time.

An error may come as an HTTP status with a body, or as an error object inside a 200 (a stream's frame or a JSON body);
both are read the same way. Only names (`code`, `type`, `status`) are looked at and quoted: messages may hold prompts.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from hedgerow.events import Failure, FailureClass, Headers

MAX_RETRY_AFTER = 86_400.0
"""Seconds; a longer Retry-After is taken as this."""

_CLASS_BY_NAME = {
    name: kind
    for kind, names in {
        FailureClass.CONTENT_POLICY: (
            "content_filter content_policy_violation responsible_ai_policy_violation content_policy invalid_prompt"
        ),
        FailureClass.QUOTA_EXHAUSTED: (
            "insufficient_quota usage_limit_reached billing_error enforced_spend_limit_reached "
            "billing_hard_limit_reached insufficient_balance"
        ),
        FailureClass.OVERLOADED: "overloaded overloaded_error server_is_overloaded unavailable",
        FailureClass.UPSTREAM_MISSING_MODEL: "model_not_found",
        FailureClass.UPSTREAM_AUTH: "invalid_api_key",
    }.items()
    for name in names.split()
}
"""Names that say more than the status does."""

_STATUS_BY_NAME = {
    name: status
    for status, names in {
        400: "invalid_request_error bad_request_error context_length_exceeded invalid_argument content_filter "
        "content_policy_violation invalid_prompt",
        401: "authentication_error invalid_api_key unauthenticated",
        402: "billing_error",
        403: "permission_error permission_denied permission_denied_error",
        404: "not_found_error not_found model_not_found",
        408: "timeout",
        413: "request_too_large",
        422: "unprocessable_entity_error",
        429: "rate_limit_error rate_limit_exceeded insufficient_quota usage_limit_reached resource_exhausted "
        "enforced_spend_limit_reached",
        500: "server_error internal_server_error internal_error api_error internal",
        503: "service_unavailable_error server_is_overloaded unavailable overloaded",
        504: "timeout_error deadline_exceeded",
        529: "overloaded_error",
    }.items()
    for name in names.split()
}
"""What an error inside a 200 means when it carries no number."""

_CLASS_BY_STATUS = {
    401: FailureClass.UPSTREAM_AUTH,
    402: FailureClass.QUOTA_EXHAUSTED,  # payment required: prepaid balance used up
    403: FailureClass.UPSTREAM_AUTH,
    404: FailureClass.UPSTREAM_MISSING_MODEL,
    405: FailureClass.UPSTREAM_MISSING_MODEL,
    408: FailureClass.SERVER_ERROR,
    409: FailureClass.SERVER_ERROR,
    410: FailureClass.UPSTREAM_MISSING_MODEL,
    424: FailureClass.SERVER_ERROR,  # failed dependency: the model behind the endpoint broke
    425: FailureClass.SERVER_ERROR,  # too early: says itself that a repeat is welcome
    429: FailureClass.RATE_LIMITED,
    498: FailureClass.OVERLOADED,  # a flex tier's "capacity exceeded"
    499: FailureClass.SERVER_ERROR,  # a proxy there says its client left; we had not
    529: FailureClass.OVERLOADED,
}

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def classify(status: int, headers: Headers, body: bytes) -> Failure:
    """What a non-2xx answer means. Never raises, whatever the body holds."""
    names = _names(_error_of(_loads(body)))
    wait = retry_after(headers)
    if not 300 <= status <= 599:
        kind = FailureClass.PROTOCOL
    else:
        kind = _kind(status, names, hinted=wait is not None)
    return Failure(kind, _say(f"HTTP {status}", names), status, headers, body, wait)


def classify_frame(frame: bytes, headers: Headers) -> Failure:
    """What a JSON error inside a 200 means: the same as the HTTP error that it stands for.

    `headers` are those of the 200; the failure carries them as if `frame` had been a JSON body.
    """
    error = _error_of(_loads(frame))
    names = _names(error)
    status = _status_in(error, names)
    kind = _kind(status, names, hinted=False)
    return Failure(kind, _say(f"error {status} inside a 200", names), status, as_json(headers), frame)


def as_json(headers: Headers) -> Headers:
    """`headers` for a JSON body of another length: those that describe the old body are replaced."""
    kept = [(name, value) for name, value in headers if name not in _OF_THE_BODY]
    return [(b"content-type", b"application/json"), *kept]


_OF_THE_BODY = frozenset({b"content-type", b"content-length", b"content-encoding", b"transfer-encoding"})


def retry_after(headers: Headers) -> float | None:
    """Seconds to wait, from `retry-after-ms`, `retry-after` in seconds, or `retry-after` as a date, in this order.

    A date is taken relative to the answer's own `date` header, so no clock is needed and the upstream's clock may be
    wrong; without that header it is ignored. So is what is no number, NaN, infinite or negative. A date in the past
    is 0. (RFC 9110 §10.2.3)
    """
    milliseconds = wait = date = None
    for name, value in headers:
        if name == b"retry-after":
            wait = value
        elif name == b"retry-after-ms":
            milliseconds = value
        elif name == b"date":
            date = value
    if milliseconds is not None and (seconds := _number(milliseconds)) is not None:
        return min(seconds / 1000, MAX_RETRY_AFTER)
    if wait is None:
        return None
    if (seconds := _number(wait)) is not None:
        return min(seconds, MAX_RETRY_AFTER)
    until, since = _timestamp(wait), _timestamp(date or b"")
    if until is None or since is None:
        return None
    return min(max(until - since, 0.0), MAX_RETRY_AFTER)


def _kind(status: int, names: list[str], *, hinted: bool) -> FailureClass:
    if status < 400:
        return FailureClass.PROTOCOL
    if status == 503 and hinted:
        return FailureClass.RATE_LIMITED
    for name in names:
        named = _CLASS_BY_NAME.get(name)
        if named is FailureClass.OVERLOADED and status < 429:
            continue
        if named is not None:
            return named
    return _CLASS_BY_STATUS.get(status, FailureClass.SERVER_ERROR if status >= 500 else FailureClass.FATAL_REQUEST)


def _status_in(error: Any, names: list[str]) -> int:
    if isinstance(error, dict):
        for key in ("code", "status", "status_code"):
            value = error.get(key)
            if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
                value = int(value)
            if isinstance(value, int) and 400 <= value <= 599:
                return value
    return next((_STATUS_BY_NAME[name] for name in names if name in _STATUS_BY_NAME), 500)


def _loads(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _error_of(answer: Any) -> Any:
    """The error object of `{"error": {...}}`, of a list holding one, or of a flat `{"message", "type", "code"}`."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if isinstance(answer, dict):
        inner = answer.get("error")
        return inner if isinstance(inner, dict) else answer
    return None


def _names(error: Any) -> list[str]:
    """Code, type and status of an error object in one spelling, most telling first."""
    if not isinstance(error, dict):
        return []
    inner = error.get("innererror")
    found = [error.get("code"), error.get("type"), error.get("status")]
    if isinstance(inner, dict):
        found.append(inner.get("code"))
    if error.get("message") == "Overloaded":  # sent with type api_error
        found.append("overloaded")
    return [_snake(name) for name in found if isinstance(name, str) and _NAME.fullmatch(name)]


def _snake(name: str) -> str:
    return _CAMEL.sub("_", name).lower().replace("aipolicy", "ai_policy")


def _say(what: str, names: list[str]) -> str:
    return f"{what} ({', '.join(dict.fromkeys(names))})" if names else what


def _number(value: bytes) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _timestamp(value: bytes) -> float | None:
    """Seconds since the epoch of an HTTP date in any of its three forms (RFC 9110 §5.6.7)."""
    from email.utils import mktime_tz, parsedate_tz  # rarely needed, and a quarter of a megabyte

    try:
        parsed = parsedate_tz(value.decode("ascii"))
        return None if parsed is None else float(mktime_tz((*parsed[:9], parsed[9] or 0)))
    except (ValueError, IndexError, TypeError, OverflowError):
        return None
