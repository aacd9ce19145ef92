"""The few fields of a response, or of one event of its stream, that hedgerow looks at."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.failures import as_json, classify_frame
from hedgerow.wire.lenient import read, read_or_none
from hedgerow.wire.thoughts import output_with_reasoning
from hedgerow.wire.words import NO_WORDS, Words, words


class Response(msgspec.Struct, gc=False):
    """A response, whole or under way; values may have any type, since servers differ."""

    status: Any = None
    output: Any = msgspec.UNSET
    error: Any = None


class Event(msgspec.Struct, gc=False):
    """One event of a stream."""

    type: str | None = None
    delta: Any = None
    item: Any = None
    partial_image_b64: Any = None
    response: Response | None = None
    error: Any = None


class _Named(msgspec.Struct, gc=False):
    type: str | None = None


class _InputDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _OutputDetails(msgspec.Struct, gc=False):
    reasoning_tokens: int | None = None


class _Tokens(msgspec.Struct, gc=False):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: Any = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None

    def given(self) -> Usage | None:
        if self.input_tokens is None and self.output_tokens is None:
            return None
        read, made = self.input_tokens_details, self.output_tokens_details
        thought = made.reasoning_tokens if made is not None else None
        return Usage(
            self.input_tokens,
            output_with_reasoning(self.input_tokens, self.output_tokens, thought, self.total_tokens),
            read.cached_tokens if read is not None else None,
            thought,
            read.cache_write_tokens if read is not None else None,
        )


class _Report(msgspec.Struct, gc=False):
    usage: _Tokens | None = None


class _ReportEvent(msgspec.Struct, gc=False):
    response: _Report | None = None


class _Why(msgspec.Struct, gc=False):
    reason: Any = None


class _Ended(msgspec.Struct, gc=False):
    status: Any = None
    incomplete_details: _Why | None = None
    service_tier: Any = None


class _EndEvent(_Ended, gc=False):
    response: _Ended | None = None


_event = msgspec.json.Decoder(Event)
_end_event = msgspec.json.Decoder(_EndEvent)
_named = msgspec.json.Decoder(_Named)
_response = msgspec.json.Decoder(Response)
_report = msgspec.json.Decoder(_Report)
_report_event = msgspec.json.Decoder(_ReportEvent)


def read_event(payload: bytes) -> Event:
    """Decode one event; of one that is not as it should be, only the type. Raises `ValueError` when it is no JSON."""
    event = read(payload, _event, Event)
    return event if event is not None else Event(type_of(payload))


def read_response(document: bytes) -> Response | None:
    """Decode one response; None when it is JSON of some other shape. Raises `ValueError` when it is no JSON."""
    return read(document, _response, Response)


def type_of(payload: bytes) -> str | None:
    """The type of an event; None where it says none."""
    named = read_or_none(payload, _named, _Named)
    return named.type if named is not None else None


def read_usage(document: bytes) -> Usage | None:
    """The tokens that a whole response reports; None when it reports none."""
    return _given(read_or_none(document, _report, _Report))


def read_event_usage(payload: bytes) -> Usage | None:
    """The tokens that an event's response reports; None when it reports none."""
    event = read_or_none(payload, _report_event, _ReportEvent)
    return _given(event.response) if event is not None else None


def read_words(document: bytes) -> Words:
    """What a response, or the event with one, says of it once it has ended."""
    said = read_or_none(document, _end_event, _EndEvent)
    ended = said if said is None or said.response is None else said.response
    if ended is None or ended.status in (None, "queued", "in_progress"):
        return NO_WORDS
    why = ended.incomplete_details
    return words((why.reason if why is not None else None) or ended.status, ended.service_tier)


def answers(output: Any) -> bool:
    """Whether a response's output holds anything; reasoning that can be read is something."""
    return isinstance(output, list) and any(_holds(item, _SILENT) for item in output)


def speaks(item: Any) -> bool:
    """Whether a finished item is for the client: words, or a call that the client executes."""
    return isinstance(item, dict) and item.get("type") in _FOR_THE_CLIENT and _holds(item, ())


def failure_of(payload: bytes, event: Event, headers: Headers) -> Failure | None:
    """The failure that an event reports, in any of the forms in use; None when it reports none.

    Its body is the error as an HTTP error's body holds it, so that it can be answered with.
    """
    if event.error:
        return classify_frame(payload, headers)
    if event.type == "error":
        return classify_frame(b'{"error":' + payload.strip() + b"}", headers)
    if event.type == "response.failed":
        error = event.response.error if event.response is not None else None
        if not error:
            return Failure(FailureClass.SERVER_ERROR, "the response failed without saying why")
        return classify_frame(json.dumps({"error": error}, separators=(",", ":")).encode(), headers)
    if event.type == "response.cancelled":
        return Failure(FailureClass.PROTOCOL, "the response was cancelled upstream")
    return None


def failure_of_response(document: bytes, response: Response, headers: Headers) -> Failure | None:
    """The failure that a whole response reports; None when it reports none."""
    if response.error:
        return classify_frame(document, headers)
    if response.status == "failed":
        why = "the response failed without saying why"
        return Failure(FailureClass.SERVER_ERROR, why, 500, as_json(headers), document)
    if response.status == "cancelled":
        return Failure(FailureClass.PROTOCOL, "the response was cancelled upstream")
    return None


_FOR_THE_CLIENT = (
    "message",
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "mcp_approval_request",
)
_SILENT = ("summary", "content")
"""Where reasoning that can be read stands in its item."""


def _holds(item: Any, reasoning: tuple[str, ...]) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    if kind == "message":
        return _said(item.get("content"))
    if kind == "reasoning":
        return any(_said(item.get(where)) for where in reasoning)
    return True


def _said(parts: Any) -> bool:
    """Whether any part of a message holds something; parts of kinds that are not known do."""
    if not isinstance(parts, list):
        return bool(parts)
    for part in parts:
        if not isinstance(part, dict) or part.get("text") or part.get("refusal"):
            return True
        if "text" not in part and "refusal" not in part:
            return True
    return False


def _given(report: _Report | None) -> Usage | None:
    return report.usage.given() if report is not None and report.usage is not None else None
