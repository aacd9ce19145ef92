"""Reading chat completions: the first token of a stream, the adequacy of a whole body."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.base import ACCEPTED, Accepted, Verdict
from hedgerow.wire.chat_answer import Answer, Whole, read_chat, read_usage, read_whole, read_words
from hedgerow.wire.chat_convert import as_document, as_stream
from hedgerow.wire.failures import as_event_stream, classify_frame
from hedgerow.wire.scan import StreamScanner
from hedgerow.wire.whole import WholeBody, not_json
from hedgerow.wire.words import Words

_DONE = b"[DONE]"


class ChatStream(StreamScanner):
    """`data: {chunk}` events, ended by `data: [DONE]`."""

    __slots__ = ("_ended", "_thought", "_wants_usage")

    END = _DONE
    sign = ord("D")
    ERROR = b'"error"'
    USAGE = b'"prompt_tokens"'
    DELTA = b'"delta"'
    read: Callable[[bytes], Answer[Any] | None] = staticmethod(read_chat)
    converted = staticmethod(as_stream)
    words_in = staticmethod(read_words)

    def __init__(self, headers: Headers, *, reasoning_counts: bool = True, wants_usage: bool = True) -> None:
        """`wants_usage`: the client asked for the chunk with the usage."""
        super().__init__(headers, reasoning_counts=reasoning_counts)
        self._ended = b""
        """The events around the last report of usage: the choices have ended before it."""
        self._thought = False
        self._wants_usage = wants_usage

    def decide(self, payload: bytes) -> Verdict | None:
        """A chunk decides when it holds output, a content filter's verdict or an error."""
        if payload.startswith(_DONE):
            return ACCEPTED if self._thought else self.empty(self.held())
        try:
            chunk = self.read(payload)
        except ValueError:
            return self.broken("an event whose data is not JSON") if payload.strip() else None
        if chunk is None:
            return None
        verdict: Verdict | None
        if chunk.failed():
            verdict, silent = classify_frame(payload, self._headers), not chunk.thinks()
        else:
            passed = self._passed
            verdict = self._heard(chunk)
            silent = verdict is not ACCEPTED and self._passed == passed
        if silent:
            self._deltas -= payload.count(self.DELTA)
        return verdict

    def _heard(self, chunk: Answer[Any]) -> Verdict | None:
        for choice in chunk.choices or ():
            if choice.speaks(self.reasoning_counts):
                return ACCEPTED
            if thought := choice.thought():
                self._thought = True
                self._passed += thought
            if choice.finish_reason:
                if self._thought:  # that was all
                    return ACCEPTED
                self._finished = True
        return None

    def is_end(self, payload: bytes) -> bool:
        """As the official SDKs do: whatever follows the marker in its event is ignored."""
        return payload.startswith(_DONE)

    def error_in(self, payload: bytes) -> Failure | None:
        """A chunk with a truthy `error`, or with finish reason "error"."""
        try:
            chunk = self.read(payload)
        except ValueError:
            return None
        return classify_frame(payload, self._headers) if chunk is not None and chunk.failed() else None

    def usage_in(self, payload: bytes) -> Usage | None:
        """The last such report counts: servers that report in every chunk count up."""
        return read_usage(payload)

    def words(self) -> Words:
        """The finish reasons come before the usage and the end, and these may come alone."""
        said = super().words()
        if said.finish_reason is not None or not self._ended:
            return said
        before = self._words_of(self._ended)
        return Words(before.finish_reason, said.service_tier or before.service_tier)

    def judge_document(self, body: bytes) -> Verdict:
        """A completion that came whole is passed on as the stream that was asked for; an error is one in any form."""
        verdict = judge(body, self._headers, self.read)
        if isinstance(verdict, Failure) and verdict.kind is not FailureClass.EMPTY:
            return verdict
        try:
            stream = self.converted(body, usage=self._wants_usage)
        except ValueError:
            return self.broken("a JSON document instead of a stream")
        self._usage = read_usage(body)
        self._done = self._finished = True
        if isinstance(verdict, Accepted):
            return Accepted(stream)
        return msgspec.structs.replace(verdict, headers=as_event_stream(self._headers), body=stream)

    def _note_usage(self, block: bytes) -> None:
        super()._note_usage(block)
        self._ended = self._before + block


class ChatBody(WholeBody):
    """A whole completion: judged when it is complete."""

    __slots__ = ()

    def words(self) -> Words:
        """What the completion says of itself."""
        return read_words(self.document)

    def collected(self, stream: bytes) -> bytes | None:
        """The completion that a whole stream of chunks amounts to."""
        try:
            return as_document(stream)
        except ValueError:
            return None

    def judge(self, body: bytes) -> Verdict:
        """Whether this is an adequate completion."""
        answer = read_whole(body)
        if answer is not None:
            if answer.usage is not None:
                self.usage = answer.usage.given()
            if _is_text(answer) or (not answer.failed() and answer.speaks()):
                return ACCEPTED
        else:
            self.usage = read_usage(body)
        return judge(body, self.headers, read_chat)


def judge(body: bytes, headers: Headers, read: Callable[[bytes], Answer[Any] | None]) -> Verdict:
    """What a complete 2xx body means that should be one completion."""
    if body[:64].lstrip()[:1] != b"{":
        return not_json(body)
    try:
        answer = read(body)
    except ValueError:
        return Failure(FailureClass.PROTOCOL, "the body is not whole JSON")
    if answer is None or (answer.choices is msgspec.UNSET and not answer.error):
        return Failure(FailureClass.PROTOCOL, "JSON that is no completion")
    if answer.failed():
        return classify_frame(body, headers)
    if answer.speaks():
        return ACCEPTED
    return Failure(FailureClass.EMPTY, "a whole answer with nothing in it", 200, headers, body)


def _is_text(answer: Whole) -> bool:
    """Whether this is the usual answer, one choice with text: as `failed` and `speaks` judge it, in one step."""
    choices = answer.choices
    if answer.error or not choices or len(choices) > 1:
        return False
    choice = choices[0]
    message = choice.message if choice.delta is None else None
    return message is not None and bool(message.content) and choice.finish_reason == "stop"
