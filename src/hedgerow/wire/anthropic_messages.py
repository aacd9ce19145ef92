"""Anthropic messages: `POST /v1/messages`."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import msgspec

from hedgerow.answer import Answer
from hedgerow.events import Failure, Headers
from hedgerow.wire import errors
from hedgerow.wire.anthropic_continue import MessageContinuation
from hedgerow.wire.anthropic_convert import as_document, as_stream
from hedgerow.wire.anthropic_reading import MessageReading, message_answer
from hedgerow.wire.anthropic_scan import MessageBody, MessageStream
from hedgerow.wire.base import Facts, Family, Protocol, Scanner
from hedgerow.wire.body import edit, quoted, replace_model
from hedgerow.wire.reading import Reading
from hedgerow.wire.request import Reader, Routed, model_of, stream_of, uploaded_file

_CLIENT_TOOL = re.compile(r"custom|(?:bash|text_editor|memory)_\d+")
"""Tools that the client executes, after one answer was chosen: asking twice does nothing twice."""
_INLINE_TOOL = b'"tool_definition"'
"""A tool that is defined in the midst of the messages, which are not decoded."""


class _Tool(msgspec.Struct, gc=False):
    type: str | None = None


class _Request(Routed):
    max_tokens: int | float | None = None
    tools: list[_Tool] | None = None
    mcp_servers: Any = None
    container: Any = None
    thread: Any = None
    fallback_credit_token: Any = None


_read = Reader(_Request).read


class AnthropicMessages(Protocol):
    """Messages, streamed or whole."""

    name = "anthropic.messages"
    family = Family.ANTHROPIC
    converts: ClassVar[bool] = True

    def facts(self, target: bytes, body: bytes) -> Facts:
        """Raises `RequestError` (400) for broken JSON, wrong types, no model, or a repeated `model` or `stream`."""
        request = _read(body)
        limit = request.max_tokens
        return Facts(
            model_of(request),
            request.stream is not None and stream_of(request),
            _side_effects(request, body) or uploaded_file(body),
            limit if isinstance(limit, int) else None,
        )

    def rewrite(
        self, body: bytes, facts: Facts, model: str | None, *, usage: bool = False, stream: bool = False
    ) -> bytes:
        """The body with `model` and `stream` set in place; `facts` must be those of this body."""
        renamed = model is not None and model != facts.model
        if stream and not facts.stream:
            members = (
                {"stream": b"true"} if model is None or not renamed else {"model": quoted(model), "stream": b"true"}
            )
            return edit(body, members, unique=True)
        return replace_model(body, model, unique=True) if model is not None and renamed else body

    def scanner(self, facts: Facts, headers: Headers, *, reasoning_counts: bool = True) -> Scanner:
        """A scanner for what was asked for, a stream or a whole body."""
        may_be_empty = facts.max_output_tokens == 0
        if facts.stream:
            return MessageStream(headers, reasoning_counts=reasoning_counts, may_be_empty=may_be_empty)
        return MessageBody(headers, may_be_empty=may_be_empty)

    def error_body(
        self, status: int, message: str, *, kind: str, code: str | None = None, param: str | None = None
    ) -> bytes:
        """Anthropic's error JSON; its type follows the status."""
        return errors.anthropic_body(status, message)

    def error_frame(self, failure: Failure) -> bytes:
        """Anthropic's `error` event."""
        return errors.anthropic_frame(failure)

    def answer(self, document: bytes) -> Answer:
        """What a gate sees of a whole answer."""
        return message_answer(document)

    def reading(self) -> Reading:
        """What a gate sees of a stream while it comes."""
        return MessageReading()

    def continuation(self) -> MessageContinuation:
        """What continues a stream that breaks off."""
        return MessageContinuation()

    def as_document(self, stream: bytes) -> bytes:
        """The message that a stream amounts to."""
        return as_document(stream)

    def as_stream(self, document: bytes) -> bytes:
        """The stream that a message amounts to."""
        return as_stream(document)


def _side_effects(request: _Request, body: bytes) -> str | None:
    """Why this request must not be sent twice on a mere delay; None when nothing speaks against it."""
    for tool in request.tools or ():
        if tool.type is not None and not _CLIENT_TOOL.fullmatch(tool.type):
            return f"hosted tool {tool.type[:40]!a}"
    for name in ("mcp_servers", "container", "thread", "fallback_credit_token"):
        if getattr(request, name):
            return name
    if request.max_tokens == 0:
        return "max_tokens 0 (writes the prompt cache)"
    if body.find(_INLINE_TOOL) >= 0:
        return "a tool defined in the messages"
    return None
