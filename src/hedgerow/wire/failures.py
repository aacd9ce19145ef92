"""From an upstream's error answer to its failure class, and from its headers to a waiting time.

An error may come as an HTTP status with a body, or as an error object inside a 200 (a stream's frame or a JSON body);
both are read the same way. Only names (`code`, `type`, `status`) are quoted: messages may hold prompts.

`x-should-retry` has no say: it tells a client whether to send its request there again. No attempt goes to the same
target twice, whatever it says; and whether another target may be asked is for the class alone to decide.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from hedgerow.events import Failure, FailureClass, Headers
from hedgerow.wire.error_names import CLASS_BY_NAME, CLASS_BY_STATUS, NAME_BY_PROSE, STATUS_BY_NAME

MAX_RETRY_AFTER = 86_400.0
"""Seconds; a longer Retry-After is taken as this."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def classify(status: int, headers: Headers, body: bytes) -> Failure:
    """What a non-2xx answer means. Never raises, whatever the body holds."""
    error = _error_of(_loads(body))
    names = _names(error) + _names_in(headers)
    wait = retry_after(headers)
    if wait is None:
        wait = _delay_in(error)
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
    wait = _delay_in(error)
    kind = _kind(status, names, hinted=wait is not None)
    message = _say(f"error {status} inside a 200", names)
    return Failure(kind, message, status, as_json(headers), frame, wait, in_stream=True)


def as_json(headers: Headers) -> Headers:
    """`headers` for a JSON body of another length: those that describe the old body are replaced."""
    return _of_another_body(headers, b"application/json")


def as_event_stream(headers: Headers) -> Headers:
    """`headers` for a body of server-sent events: those that describe the old body are replaced."""
    return _of_another_body(headers, b"text/event-stream; charset=utf-8")


def _of_another_body(headers: Headers, content_type: bytes) -> Headers:
    return [(b"content-type", content_type), *(field for field in headers if field[0] not in _OF_THE_BODY)]


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
    if hinted and status in (402, 503):  # a waiting time says that it is a matter of time only
        return FailureClass.RATE_LIMITED
    for name in names:
        named = CLASS_BY_NAME.get(name)
        if named is FailureClass.OVERLOADED and status < 429:
            continue
        if named is not None:
            return named
    return CLASS_BY_STATUS.get(status, FailureClass.SERVER_ERROR if status >= 500 else FailureClass.FATAL_REQUEST)


def _status_in(error: Any, names: list[str]) -> int:
    if isinstance(error, dict):
        for key in ("code", "status", "status_code"):
            value = error.get(key)
            if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
                value = int(value)
            if isinstance(value, int) and 400 <= value <= 599:
                return value
    return next((STATUS_BY_NAME[name] for name in names if name in STATUS_BY_NAME), 500)


def _loads(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _error_of(answer: Any) -> Any:
    """The error object of an answer, a list holding one, an event or a choice; or a flat `{"message", "code"}`."""
    if isinstance(answer, list) and answer:
        answer = answer[0]
    if not isinstance(answer, dict):
        return None
    places = [answer, answer.get("response")]
    choices = answer.get("choices")
    if isinstance(choices, list):
        places += choices
    for place in places:
        if isinstance(place, dict) and isinstance(inner := place.get("error"), dict):
            return inner
    return answer


def _names(error: Any) -> list[str]:
    """Everything that names an error object's kind, in one spelling, most telling first."""
    if not isinstance(error, dict):
        return []
    found = [error.get(key) for key in ("code", "type", "status", "error_type", "error_code")]
    for key in ("innererror", "details", "metadata"):
        inner = error.get(key)
        for part in inner if isinstance(inner, list) else [inner]:
            if isinstance(part, dict):
                found += [part.get("code"), part.get("error_code"), part.get("reason"), part.get("error_type")]
                if "flagged_input" in part:
                    found.append("content_policy_violation")
    coded = error.get("__type")
    if isinstance(coded, str):
        found.append(coded.rpartition("#")[2])
    prose = error.get("message") or error.get("error")
    if isinstance(prose, str):
        found[:0] = [name for start, name in NAME_BY_PROSE if prose.startswith(start)]
    return [_snake(name) for name in found if isinstance(name, str) and _NAME.fullmatch(name)]


def _names_in(headers: Headers) -> list[str]:
    """The name that Bedrock gives an error in a header, `ThrottlingException` or `ThrottlingException:http://...`."""
    found = [value.partition(b":")[0].decode("latin-1") for name, value in headers if name == b"x-amzn-errortype"]
    return [_snake(name) for name in found if _NAME.fullmatch(name)]


def _delay_in(error: Any) -> float | None:
    """Seconds to wait by Google's `RetryInfo`, written "12s" or "0.5s"."""
    details = error.get("details") if isinstance(error, dict) else None
    for part in details if isinstance(details, list) else ():
        delay = part.get("retryDelay") if isinstance(part, dict) else None
        if isinstance(delay, str) and delay.endswith("s") and delay.isascii():
            seconds = _number(delay[:-1].encode())
            if seconds is not None:
                return min(seconds, MAX_RETRY_AFTER)
    return None


def _snake(name: str) -> str:
    return _CAMEL.sub("_", name).lower().replace("aipolicy", "ai_policy")


def _say(what: str, names: list[str]) -> str:
    return f"{what} ({', '.join(dict.fromkeys(names))})" if names else what


def _number(value: bytes) -> float | None:
    try:
        number = math.nan if b"_" in value else float(value)
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
