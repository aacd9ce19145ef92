"""Google's errors: what one means, and how one of ours looks."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from hedgerow.events import Failure, FailureClass, Headers
from hedgerow.wire import failures

_NAMES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    501: "UNIMPLEMENTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_TIMEOUTS = (FailureClass.TIMEOUT_FIRST_TOKEN, FailureClass.TIMEOUT_STALL, FailureClass.TIMEOUT_TOTAL)
_OF_THE_ACCOUNT = ("User location is not supported", "billing")
"""What a failed precondition says when another account or region would meet it."""


def classify(status: int, headers: Headers, body: bytes) -> Failure:
    """What a non-2xx answer means. Never raises, whatever the body holds."""
    return _refined(failures.classify(status, headers, body), body)


def classify_frame(frame: bytes, headers: Headers) -> Failure:
    """What an error inside a 200 means: the same as the HTTP error that it stands for."""
    return _refined(failures.classify_frame(frame, headers), frame)


def error_body(status: int, message: str, *, code: str | None = None) -> bytes:
    """`{"error": {...}}` as Google's SDKs read it: `error` first, a number as its code."""
    fallback = "INTERNAL" if status >= 500 else "INVALID_ARGUMENT"
    error: dict[str, Any] = {"code": status, "message": message, "status": _NAMES.get(status, fallback)}
    if code is not None:
        kind = "type.googleapis.com/google.rpc.ErrorInfo"
        error["details"] = [{"@type": kind, "reason": code.upper(), "domain": "hedgerow"}]
    return msgspec.json.encode({"error": error})


def error_frame(failure: Failure) -> bytes:
    """An in-stream error event."""
    status = failure.status if failure.status is not None and failure.status >= 400 else None
    if status is None:
        status = 504 if failure.kind in _TIMEOUTS else 502
    return b"data: " + error_body(status, failure.message, code=str(failure.kind)) + b"\n\n"


def _refined(failure: Failure, body: bytes) -> Failure:
    """The failure with what only Google's `error.details` say."""
    error = _error_in(body)
    if error is None:
        return failure
    kind, wait = failure.kind, failure.retry_after
    details = error.get("details")
    for detail in details if isinstance(details, list) else ():
        if not isinstance(detail, dict):
            continue
        if wait is None and str(detail.get("@type")).endswith("google.rpc.RetryInfo"):
            wait = _seconds(detail.get("retryDelay"))
        if detail.get("reason") in ("API_KEY_INVALID", "API_KEY_EXPIRED"):  # sent with 400 INVALID_ARGUMENT
            kind = FailureClass.UPSTREAM_AUTH
    if error.get("status") == "FAILED_PRECONDITION" and kind is FailureClass.FATAL_REQUEST:
        message = str(error.get("message"))
        if any(phrase in message for phrase in _OF_THE_ACCOUNT):
            kind = FailureClass.UPSTREAM_AUTH
    if kind is failure.kind and wait == failure.retry_after:
        return failure
    return msgspec.structs.replace(failure, kind=kind, retry_after=wait)


def _error_in(body: bytes) -> dict[str, Any] | None:
    try:
        answer = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(answer, list) and answer:
        answer = answer[0]
    error = answer.get("error") if isinstance(answer, dict) else None
    return error if isinstance(error, dict) else None


def _seconds(delay: Any) -> float | None:
    """A protobuf duration in JSON: "34.07s"."""
    try:
        seconds = float(delay.removesuffix("s"))
    except (AttributeError, ValueError):
        return None
    return min(seconds, failures.MAX_RETRY_AFTER) if math.isfinite(seconds) and seconds >= 0 else None
