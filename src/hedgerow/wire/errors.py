"""Errors of our own in the shapes that client SDKs read; used only when no upstream told one."""

from __future__ import annotations

import msgspec

from hedgerow.events import Failure, FailureClass

_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_ANTHROPIC_TYPES_BY_CLASS = {
    FailureClass.RATE_LIMITED: "rate_limit_error",
    FailureClass.OVERLOADED: "overloaded_error",
    FailureClass.TIMEOUT_FIRST_TOKEN: "timeout_error",
    FailureClass.TIMEOUT_STALL: "timeout_error",
    FailureClass.TIMEOUT_TOTAL: "timeout_error",
}
"""Where the class says it; else the status does."""


def openai_body(message: str, *, kind: str, code: str | None = None, param: str | None = None) -> bytes:
    """`{"error": {...}}` with the four keys that OpenAI's schema requires."""
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def openai_frame(failure: Failure) -> bytes:
    """An in-stream error event. No `[DONE]` follows it: a broken stream must look broken."""
    kind = str(failure.kind)
    return b"data: " + openai_body(failure.message, kind="upstream_error", code=kind) + b"\n\n"


def anthropic_body(status: int, message: str) -> bytes:
    """`{"type": "error", ...}`; Anthropic's types follow the status."""
    return _anthropic(_anthropic_type(status), message)


def anthropic_frame(failure: Failure) -> bytes:
    """An in-stream `error` event; no `message_stop` follows it."""
    kind = _ANTHROPIC_TYPES_BY_CLASS.get(failure.kind) or _anthropic_type(failure.status or 502)
    return b"event: error\ndata: " + _anthropic(kind, failure.message) + b"\n\n"


def _anthropic_type(status: int) -> str:
    return _ANTHROPIC_TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")


def _anthropic(kind: str, message: str) -> bytes:
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})
