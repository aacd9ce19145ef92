"""Reading Anthropic messages: the first token of a stream, the adequacy of a whole body."""

from __future__ import annotations

import msgspec

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.anthropic_answer import (
    Block,
    Delta,
    Event,
    Tokens,
    read_event,
    read_message,
    read_report,
    read_words,
)
from hedgerow.wire.anthropic_convert import as_document, as_stream
from hedgerow.wire.base import ACCEPTED, Accepted, Verdict
from hedgerow.wire.failures import as_event_stream, as_json, classify_frame
from hedgerow.wire.scan import StreamScanner
from hedgerow.wire.sse import payloads
from hedgerow.wire.whole import WholeBody, not_json
from hedgerow.wire.words import Words, words

_ERROR = b'"error"'


class MessageStream(StreamScanner):
    """Named events whose JSON repeats the name as `type`, ended by `message_stop`.

    With `may_be_empty` an answer without content is what was asked for (`max_tokens` 0, to warm the prompt cache).
    """

    __slots__ = ("_reason", "_said", "_tokens", "may_be_empty")

    END = b'"message_stop"'
    sign = ord("m")
    """The one letter of the marker that no delta has in its own words."""
    ERROR = _ERROR
    USAGE = b'"usage"'
    ADDS_UP = True
    DELTA = b'"content_block_delta"'
    words_in = staticmethod(read_words)

    def __init__(self, headers: Headers, *, reasoning_counts: bool = True, may_be_empty: bool = False) -> None:
        super().__init__(headers, reasoning_counts=reasoning_counts)
        self.may_be_empty = may_be_empty
        self._said = False
        """Something came that is no first token, and yet the answer is not empty."""
        self._tokens: Tokens | None = None
        self._reason: object = None

    def decide(self, payload: bytes) -> Verdict | None:
        """An event decides when it holds output, a refusal or an error, or ends the answer."""
        try:
            event = read_event(payload)
        except ValueError:
            return self.broken("an event whose data is not JSON") if payload.strip() else None
        if event is None:
            return None
        kind = event.type
        if kind == "content_block_delta":
            return self._heard(event.delta)
        if kind == "content_block_start":
            return self._heard(event.content_block)
        if kind == "message_delta":
            return self._stopped(event.delta)
        if kind == "message_stop":
            return ACCEPTED if self._said or self.may_be_empty else self.empty(self.held())
        return classify_frame(payload, self._headers) if _failed(event) else None

    def is_end(self, payload: bytes) -> bool:
        """Only the event itself: tools may have any name."""
        event = _event(payload)
        return event is not None and event.type == "message_stop"

    def error_in(self, payload: bytes) -> Failure | None:
        """An `error` event, however it is named."""
        event = _event(payload)
        return classify_frame(payload, self._headers) if event is not None and _failed(event) else None

    def usage_in(self, payload: bytes) -> Usage | None:
        """What is known with this report; the output counts as final when it comes with the reason for the end."""
        report = read_report(payload)
        tokens = report.tokens() if report is not None else None
        if report is None or tokens is None:
            return None
        if self._tokens is None:
            self._tokens = tokens
        else:
            self._tokens.update(tokens)
        if report.delta is not None and report.delta.stop_reason:
            self._reason = report.delta.stop_reason
            self._finished = self._finished or tokens.output_tokens is not None
        return self._tokens.given()

    def words(self) -> Words:
        """The tier is told at the start."""
        said, tokens = super().words(), self._tokens
        return words(self._reason or said.finish_reason, tokens.service_tier if tokens is not None else None)

    def tier(self) -> str | None:
        """As in `words`."""
        return None if self._tokens is None else words(None, self._tokens.service_tier).service_tier

    def judge_document(self, body: bytes) -> Verdict:
        """A message that came whole is passed on as the stream that was asked for; an error is one in any form."""
        verdict = judge(body, self._headers, may_be_empty=self.may_be_empty)
        if isinstance(verdict, Failure) and verdict.kind is not FailureClass.EMPTY:
            return verdict
        self._usage = self.usage_in(body)
        try:
            stream = as_stream(body)
        except ValueError:
            return self.broken("a JSON document instead of a stream")
        self._done = self._finished = True
        if isinstance(verdict, Accepted):
            return Accepted(stream)
        return msgspec.structs.replace(verdict, headers=as_event_stream(self._headers), body=stream)

    def _heard(self, piece: Delta | Block | None) -> Verdict | None:
        if piece is None:
            return None
        if piece.speaks() or (self.reasoning_counts and piece.thinking):
            return ACCEPTED
        if isinstance(piece.thinking, str):
            self._passed += len(piece.thinking)
        if piece.thinking or piece.left_trace():
            self._said = True
        return None

    def _stopped(self, delta: Delta | None) -> Verdict | None:
        """A refusal is a decision, even with no text; so is any end of an answer that holds something."""
        if delta is None or not delta.stop_reason:
            return None
        if delta.stop_reason == "refusal" or self._said or self.may_be_empty:
            return ACCEPTED
        self._finished = True
        return None


class MessageBody(WholeBody):
    """A whole message: judged when it is complete."""

    __slots__ = ("may_be_empty",)

    def __init__(self, headers: Headers, *, may_be_empty: bool = False) -> None:
        super().__init__(headers)
        self.may_be_empty = may_be_empty

    def words(self) -> Words:
        """What the message says of itself."""
        return read_words(self.document)

    def judge(self, body: bytes) -> Verdict:
        """Whether this is an adequate message."""
        report = read_report(body)
        tokens = report.tokens() if report is not None else None
        if tokens is not None:
            self.usage = tokens.given()
        return judge(body, self.headers, may_be_empty=self.may_be_empty)

    def collected(self, stream: bytes) -> bytes | None:
        """The message, or the error that came instead of it."""
        for payload in payloads(stream + b"\n\n"):
            if _ERROR in payload and (event := _event(payload)) is not None and _failed(event):
                return payload
        try:
            document = as_document(stream)
        except ValueError:
            return None
        self.headers = as_json(self.headers)
        return document


def judge(body: bytes, headers: Headers, *, may_be_empty: bool = False) -> Verdict:
    """What a complete 2xx body means that should be one message."""
    if body[:64].lstrip()[:1] != b"{":
        return not_json(body)
    try:
        message = read_message(body)
    except ValueError:
        return Failure(FailureClass.PROTOCOL, "the body is not whole JSON")
    if message is None:
        return Failure(FailureClass.PROTOCOL, "JSON that is no message")
    if message.type == "error" or message.error:
        return classify_frame(body, headers)
    if message.content is msgspec.UNSET:
        return Failure(FailureClass.PROTOCOL, "JSON that is no message")
    if message.stop_reason == "refusal" or may_be_empty:
        return ACCEPTED
    for block in message.content or ():
        if block.speaks() or block.thinking or block.left_trace():
            return ACCEPTED
    return Failure(FailureClass.EMPTY, "a whole answer with nothing in it", 200, headers, body)


def _event(payload: bytes) -> Event | None:
    try:
        return read_event(payload)
    except ValueError:
        return None


def _failed(event: Event) -> bool:
    return event.type == "error" or bool(event.error)
