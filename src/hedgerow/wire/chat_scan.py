"""Reading chat completions: the first token of a stream, the adequacy of a whole body."""

from __future__ import annotations

import msgspec

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.base import ACCEPTED, Verdict
from hedgerow.wire.chat_answer import Answer, Choice, read_answer, read_usage, read_whole
from hedgerow.wire.failures import classify_frame
from hedgerow.wire.scan import StreamScanner
from hedgerow.wire.whole import WholeBody, not_json

_DONE = b"[DONE]"


class ChatStream(StreamScanner):
    """`data: {chunk}` events, ended by `data: [DONE]`."""

    __slots__ = ()

    END = _DONE
    sign = ord("D")
    ERROR = b'"error"'
    USAGE = b'"prompt_tokens"'
    DELTA = b'"delta"'

    def decide(self, payload: bytes) -> Verdict | None:
        """A chunk decides when it holds output, a content filter's verdict or an error."""
        if payload.startswith(_DONE):
            return self.empty(self.held())
        try:
            chunk = read_answer(payload)
        except ValueError:
            return self.broken("an event whose data is not JSON") if payload.strip() else None
        if chunk is None:
            return None
        if _failed(chunk):
            return classify_frame(payload, self._headers)
        for choice in chunk.choices or ():
            if _speaks(choice):
                return ACCEPTED
            if choice.finish_reason:
                self._finished = True
        return None

    def is_end(self, payload: bytes) -> bool:
        """As the official SDKs do: whatever follows the marker in its event is ignored."""
        return payload.startswith(_DONE)

    def error_in(self, payload: bytes) -> Failure | None:
        """A chunk with a truthy `error`, or with finish reason "error"."""
        try:
            chunk = read_answer(payload)
        except ValueError:
            return None
        return classify_frame(payload, self._headers) if chunk is not None and _failed(chunk) else None

    def usage_in(self, payload: bytes) -> Usage | None:
        """The last such report counts: servers that report in every chunk count up."""
        return read_usage(payload)

    def judge_document(self, body: bytes) -> Verdict:
        """An error is an error in any form; an answer that cannot be passed on as a stream is none."""
        verdict = judge(body, self._headers)
        if isinstance(verdict, Failure) and verdict.kind is not FailureClass.EMPTY:
            return verdict
        return self.broken("a JSON document instead of a stream")


class ChatBody(WholeBody):
    """A whole completion: judged when it is complete."""

    __slots__ = ()

    def judge(self, body: bytes) -> Verdict:
        """Whether this is an adequate completion."""
        answer = read_whole(body)
        if answer is not None:
            if answer.usage is not None:
                self.usage = answer.usage.given()
            if _is_text(answer) or (not _failed(answer) and _answers(answer)):
                return ACCEPTED
        else:
            self.usage = read_usage(body)
        return judge(body, self.headers)


def judge(body: bytes, headers: Headers) -> Verdict:
    """What a complete 2xx body means that should be one chat completion."""
    if body[:64].lstrip()[:1] != b"{":
        return not_json(body)
    try:
        answer = read_answer(body)
    except ValueError:
        return Failure(FailureClass.PROTOCOL, "the body is not whole JSON")
    if answer is None or (answer.choices is msgspec.UNSET and not answer.error):
        return Failure(FailureClass.PROTOCOL, "JSON that is no chat completion")
    if _failed(answer):
        return classify_frame(body, headers)
    if _answers(answer):
        return ACCEPTED
    return Failure(FailureClass.EMPTY, "a whole answer with nothing in it", 200, headers, body)


def _is_text(answer: Answer) -> bool:
    """Whether this is the usual answer, one choice with text: as `_failed` and `_answers` judge it, in one step."""
    choices = answer.choices
    if answer.error or not choices or len(choices) > 1:
        return False
    choice = choices[0]
    message = choice.message if choice.delta is None else None
    return message is not None and bool(message.content) and choice.finish_reason == "stop"


def _answers(answer: Answer) -> bool:
    for choice in answer.choices or ():  # noqa: SIM110  # a generator would double its cost
        if _speaks(choice):
            return True
    return False


def _speaks(choice: Choice) -> bool:
    """Whether the choice holds output, or the decision that there will be none."""
    output = choice.delta or choice.message
    return (output is not None and output.present()) or choice.finish_reason == "content_filter"


def _failed(answer: Answer) -> bool:
    if answer.error:
        return True
    for choice in answer.choices or ():  # noqa: SIM110  # a generator would double the cost of every chunk
        if choice.finish_reason == "error":
            return True
    return False
