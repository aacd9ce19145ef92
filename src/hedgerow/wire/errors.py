"""Errors of our own in the shapes that client SDKs read; used only when no upstream told one."""

from __future__ import annotations

import msgspec

from hedgerow.events import Failure

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


def openai_body(message: str, *, kind: str, code: str | None = None, param: str | None = None) -> bytes:
    """`{"error": {...}}` with the four keys that OpenAI's schema requires."""
    return msgspec.json.encode({"error": {"message": message, "type": kind, "param": param, "code": code}})


def openai_frame(failure: Failure) -> bytes:
    """An in-stream error event. No `[DONE]` follows it: a broken stream must look broken."""
    kind = str(failure.kind)
    return b"data: " + openai_body(failure.message, kind="upstream_error", code=kind) + b"\n\n"


def anthropic_body(status: int, message: str) -> bytes:
    """`{"type": "error", ...}`; Anthropic's types follow the status."""
    fallback = "api_error" if status >= 500 else "invalid_request_error"
    kind = _ANTHROPIC_TYPES.get(status, fallback)
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message}})


def anthropic_frame(failure: Failure) -> bytes:
    """An in-stream `error` event; no `message_stop` follows it."""
    return b"event: error\ndata: " + anthropic_body(failure.status or 502, failure.message) + b"\n\n"
