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

MISTAKES = (NameError, AttributeError, TypeError, ImportError, NotImplementedError, AssertionError)
"""What a function raises that is written wrongly or is given other arguments than it takes."""
_told: set[tuple[str, type[BaseException]]] = set()


class Misused(TypeError):
    """Something is to be written otherwise: nobody else need be asked."""


class SyncTarget(Misused):
    """A target blocks the loop: while it runs nothing can be hedged, and afterwards nothing need be."""

    def __init__(self, target: str, made: object) -> None:
        super().__init__(
            f"{target} is a sync function: it gave a plain {type(made).__name__}, and nothing could be hedged while it "
            "ran. Give an async function; asyncio.to_thread makes one of it, whose losers cannot be cancelled"
        )


class Unjudged(Misused):
    """A gate of a strict policy cannot be asked."""

    def __init__(self, target: str) -> None:
        super().__init__(
            f"{target} gives a stream, which no gate can judge before it wins, and strict says that nothing else may: "
            "look at its items with first_token=, or let the target gather them and return the whole"
        )


def tell_of_mistake(target: str, error: BaseException) -> None:
    """Log, once of each kind, what seems to be a mistake in a target: another's answer would hide it."""
    which = target, type(error)
    if not isinstance(error, MISTAKES) or isinstance(error, Misused) or which in _told or len(_told) >= 1_000:
        return
    _told.add(which)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = "" if place is None else f" at {place.tb_frame.f_code.co_filename}:{place.tb_lineno}"
    log.warning(
        "target %s raised %s%s: that seems to be a mistake in it, and counts as a failure of it",
        target,
        which[1].__name__,
        where,
    )


def failure_of(error: BaseException, classify: Classify | None = None) -> Failure:
    """The failure that an exception means. It quotes the exception's type only: its words may hold a prompt.

    An error with an HTTP status (openai, anthropic, httpx, aiohttp, botocore...) is what that answer means to the
    gateway too; a timeout or a failed connection is transient, and so is all else. Never raises: of a rule that does,
    the log says so.
    """
    name = type(error).__name__
    if isinstance(error, Misused):
        return Failure(FailureClass.FATAL_REQUEST, str(error))
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
