"""Reading responses: the first token of a stream, the adequacy of a whole body."""

from __future__ import annotations

import msgspec

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.base import ACCEPTED, Accepted, Verdict
from hedgerow.wire.failures import as_event_stream
from hedgerow.wire.responses_answer import (
    Event,
    answers,
    failure_of,
    failure_of_response,
    read_event,
    read_event_usage,
    read_response,
    read_usage,
    read_words,
    speaks,
    type_of,
)
from hedgerow.wire.responses_convert import as_document, as_stream, error_document
from hedgerow.wire.scan import StreamScanner
from hedgerow.wire.whole import WholeBody, not_json
from hedgerow.wire.words import Words

_DONE = b"[DONE]"

_OUTPUT = frozenset(
    f"response.{what}.delta"
    for what in (
        "output_text",
        "refusal",
        "function_call_arguments",
        "custom_tool_call_input",
        "mcp_call_arguments",
        "code_interpreter_call_code",
        "shell_call_command",
        "audio",
        "audio.transcript",
    )
)
_REASONING = frozenset({"response.reasoning_text.delta", "response.reasoning_summary_text.delta"})
_NAMED_CALLS = ("function_call", "custom_tool_call")
_ENDS = ("response.completed", "response.incomplete")


class ResponsesStream(StreamScanner):
    """Events with a `type`, ended by `response.completed` or `response.incomplete`; no `[DONE]`."""

    __slots__ = ()

    END = b'"response"'  # the key in both ends; a text that is just this word is told apart by its type
    sign = ord("j")  # of `"object":"response"`: in few deltas' keys and words
    ERROR = b'"error"'
    USAGE = b'"input_tokens"'
    DELTA = b'"delta"'
    words_in = staticmethod(read_words)

    def decide(self, payload: bytes) -> Verdict | None:
        """An event decides when it holds output or an error, or ends the response."""
        if payload.startswith(_DONE):
            return self.broken("[DONE] before the end of the response")
        try:
            event = read_event(payload)
        except ValueError:
            return self.broken("an event whose data is not JSON") if payload.strip() else None
        kind = event.type
        if not event.delta:
            self._deltas -= payload.count(self.DELTA)
        elif kind in _OUTPUT or (kind in _REASONING and self.reasoning_counts):
            return ACCEPTED if not event.error else failure_of(payload, event, self._headers)
        elif kind in _REASONING and isinstance(event.delta, str):
            self._passed += len(event.delta)
        failure = failure_of(payload, event, self._headers)
        return failure if failure is not None else self._of_whole(event)

    def _of_whole(self, event: Event) -> Verdict | None:
        """What an event means that is no delta: an item, or the end."""
        kind = event.type
        if kind == "response.output_item.added":
            item = event.item
            return ACCEPTED if isinstance(item, dict) and item.get("type") in _NAMED_CALLS else None
        if kind == "response.output_item.done":  # without deltas before it, the first that is seen of it
            return ACCEPTED if speaks(event.item) else None
        if kind == "response.image_generation_call.partial_image":
            return ACCEPTED if event.partial_image_b64 else None
        if kind == "response.incomplete":
            return ACCEPTED
        if kind == "response.completed":
            if event.response is not None and answers(event.response.output):
                return ACCEPTED
            self._finished = True
            return self.empty(self.held())
        return None

    def is_end(self, payload: bytes) -> bool:
        """Incomplete is an end too: the limit on output tokens was reached, or a filter cut the answer off."""
        return type_of(payload) in _ENDS

    def error_in(self, payload: bytes) -> Failure | None:
        """An `error` event, flat or nested, or `response.failed`."""
        try:
            event = read_event(payload)
        except ValueError:
            return None
        return failure_of(payload, event, self._headers)

    def usage_in(self, payload: bytes) -> Usage | None:
        """Only the last event reports it."""
        return read_event_usage(payload)

    def judge_document(self, body: bytes) -> Verdict:
        """A whole response says what its stream would have said; an error is an error in any form."""
        verdict = judge(body, self._headers)
        if isinstance(verdict, Failure) and verdict.kind is not FailureClass.EMPTY:
            return verdict
        try:
            stream = as_stream(body)
        except ValueError:
            return self.broken("a JSON document instead of a stream")
        self._usage = read_usage(body)
        self._finished = True
        if isinstance(verdict, Failure):
            return Failure(verdict.kind, verdict.message, 200, as_event_stream(self._headers), stream)
        self._done = True
        return Accepted(stream)


class ResponsesBody(WholeBody):
    """A whole response: judged when it is complete."""

    __slots__ = ()

    def words(self) -> Words:
        """What the response says of itself."""
        return read_words(self.document)

    def judge(self, body: bytes) -> Verdict:
        """Whether this is an adequate response."""
        self.usage = read_usage(body)
        return judge(body, self.headers)

    def collected(self, stream: bytes) -> bytes | None:
        """The last event's response, or the error that the stream reports."""
        try:
            return as_document(stream)
        except ValueError:
            return error_document(stream)


def judge(body: bytes, headers: Headers) -> Verdict:
    """What a complete 2xx body means that should be one response."""
    if body[:64].lstrip()[:1] != b"{":
        return not_json(body)
    try:
        response = read_response(body)
    except ValueError:
        return Failure(FailureClass.PROTOCOL, "the body is not whole JSON")
    if response is None or (
        response.output is msgspec.UNSET and not isinstance(response.status, str) and not response.error
    ):
        return Failure(FailureClass.PROTOCOL, "JSON that is no response")
    failure = failure_of_response(body, response, headers)
    if failure is not None:
        return failure
    # What runs in the background is answered for at once, without an output.
    if response.status in ("queued", "in_progress", "incomplete") or answers(response.output):
        return ACCEPTED
    return Failure(FailureClass.EMPTY, "a whole answer with nothing in it", 200, headers, body)
