"""From what a callable raised to its failure class, for the errors of the usual SDKs and HTTP clients."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from hedgerow.events import Failure, FailureClass, Headers
from hedgerow.wire import failures

log = logging.getLogger("hedgerow")
Classify = Callable[[BaseException], FailureClass | None]
"""A rule of the caller's own; None leaves it to hedgerow."""


def failure_of(error: BaseException, classify: Classify | None = None) -> Failure:
    """The failure that an exception means. It quotes the exception's type only: its words may hold a prompt.

    An error with an HTTP status (openai, anthropic, httpx, aiohttp, botocore...) is what that answer means to the
    gateway too; a timeout or a failed connection is transient, and so is all else. Never raises: of a rule that does,
    the log says so.
    """
    name = type(error).__name__
    if classify is not None:
        try:
            if (kind := classify(error)) is not None:
                return Failure(kind, name)
        except Exception:
            log.exception("the rule that classifies errors failed at a %s", name)
    try:
        return _failure_of(error, name)
    except Exception:  # of an exception whose attributes raise
        return Failure(FailureClass.SERVER_ERROR, name)


def _failure_of(error: BaseException, name: str) -> Failure:
    status = _status(error)
    if status is not None:
        found = failures.classify(status, _headers(error), _body(error))
        return msgspec.structs.replace(found, message=f"{name}: {found.message}", headers=None)
    names = {kind.__name__ for kind in type(error).__mro__}
    if isinstance(error, TimeoutError) or any("Timeout" in each for each in names):
        return Failure(FailureClass.TIMEOUT_FIRST_TOKEN, name)
    if isinstance(error, OSError) or any("Connect" in each for each in names):
        return Failure(FailureClass.CONNECT, name)
    return Failure(FailureClass.SERVER_ERROR, name)


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    if isinstance(response, dict):  # botocore
        return _number(response.get("ResponseMetadata", {}).get("HTTPStatusCode"))
    for holder, attribute in ((error, "status_code"), (response, "status_code"), (error, "status"), (error, "code")):
        if (status := _number(getattr(holder, attribute, None))) is not None:
            return status
    return None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 300 <= value <= 599 else None


def _headers(error: BaseException) -> Headers:
    """Of the answer, as on the wire; empty where the error does not say."""
    fields: Any = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    try:
        return [(str(name).lower().encode(), str(value).encode()) for name, value in fields.items()]
    except (AttributeError, TypeError, ValueError):
        return []


def _body(error: BaseException) -> bytes:
    body = getattr(error, "body", None)
    if isinstance(body, bytes):
        return body
    try:
        return msgspec.json.encode({"error": body} if isinstance(body, dict) and "error" not in body else body)
    except (TypeError, ValueError, msgspec.MsgspecError):
        return b""
