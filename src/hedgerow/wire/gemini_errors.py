"""Google's errors: what one means, and how one of ours looks."""

from __future__ import annotations

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
_UNREADY = b"not in an ACTIVE state"


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
    """A failed precondition is the account's or the region's, but for a file that is not yet ready: the client's."""
    if failure.kind is FailureClass.UPSTREAM_AUTH and b"FAILED_PRECONDITION" in body and _UNREADY in body:
        return msgspec.structs.replace(failure, kind=FailureClass.FATAL_REQUEST)
    return failure
