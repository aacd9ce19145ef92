"""OpenAI chat completions: `POST /v1/chat/completions`."""

from __future__ import annotations

from typing import Any

import msgspec

from hedgerow.answer import Answer
from hedgerow.events import Headers
from hedgerow.wire.base import Facts, Scanner
from hedgerow.wire.chat_continue import ChatContinuation
from hedgerow.wire.chat_convert import as_document, as_stream
from hedgerow.wire.chat_reading import ChatReading, chat_answer
from hedgerow.wire.chat_scan import ChatBody, ChatStream
from hedgerow.wire.openai_base import CompletionProtocol, reports_usage
from hedgerow.wire.reading import Reading
from hedgerow.wire.request import Reader, Routed, model_of, stream_of, uploaded_file
from hedgerow.wire.skipped import Skipped

_CLIENT_TOOLS = ("function", "custom")
"""Tools that the client executes, after one answer was chosen: asking twice does nothing twice."""


class _Tool(msgspec.Struct, gc=False):
    type: str | None = None
    function: Skipped | msgspec.UnsetType = msgspec.UNSET


class _Request(Routed):
    service_tier: Any = None
    n: int | float | None = None
    store: bool | None = None
    background: bool | None = None
    tools: list[_Tool] | None = None
    modalities: list[str] | None = None
    audio: Any = None
    web_search_options: Any = None
    search_parameters: Any = None
    plugins: Any = None
    max_tokens: int | float | None = None
    max_completion_tokens: int | float | None = None
    stream_options: Any = msgspec.UNSET


_read = Reader(_Request).read


class OpenAIChat(CompletionProtocol):
    """Chat completions, streamed or whole."""

    name = "openai.chat"

    def facts(self, target: bytes, body: bytes) -> Facts:
        """Raises `RequestError` (400) for broken JSON, wrong types, no model, or a repeated `model` or `stream`."""
        request = _read(body)
        limit = request.max_completion_tokens
        if limit is None:
            limit = request.max_tokens
        stream = request.stream is not None and stream_of(request)
        return Facts(
            model_of(request),
            stream,
            _side_effects(request) or uploaded_file(body),
            limit if isinstance(limit, int) else None,
            () if request.n is None and request.audio is None and request.modalities is None else _needs(request),
            wants_usage=not stream or reports_usage(stream, request.stream_options),
            has_options=request.stream_options is not msgspec.UNSET,
            service_tier=request.service_tier if isinstance(request.service_tier, str) else None,
        )

    def scanner(self, facts: Facts, headers: Headers, *, reasoning_counts: bool = True) -> Scanner:
        """A scanner for what was asked for, a stream or a whole body."""
        if facts.stream:
            return ChatStream(headers, reasoning_counts=reasoning_counts, wants_usage=facts.wants_usage)
        return ChatBody(headers)

    def answer(self, document: bytes) -> Answer:
        """What a gate sees of a whole answer."""
        return chat_answer(document)

    def reading(self) -> Reading:
        """What a gate sees of a stream while it comes."""
        return ChatReading()

    def continuation(self) -> ChatContinuation:
        """What continues a stream that breaks off."""
        return ChatContinuation()

    def as_document(self, stream: bytes) -> bytes:
        """The completion that a whole stream amounts to."""
        return as_document(stream)

    def as_stream(self, document: bytes) -> bytes:
        """The chunks that a whole completion amounts to, with its usage."""
        return as_stream(document)


def _side_effects(request: _Request) -> str | None:
    """Why this request must not be sent twice on a mere delay; None when nothing speaks against it."""
    for tool in request.tools or ():
        # Old clients leave the type of a function out.
        kind = tool.type if tool.type is not None or tool.function is msgspec.UNSET else "function"
        if kind not in _CLIENT_TOOLS:
            return f"hosted tool {kind[:40]!a}" if kind is not None else "a tool of unknown type"
    if request.web_search_options is not None:
        return "web_search_options"
    searching = request.search_parameters  # xAI's
    if searching is not None and not (isinstance(searching, dict) and searching.get("mode") == "off"):
        return "search_parameters"
    if request.plugins:
        return "plugins"
    if request.store:
        return "store"
    if request.background:
        return "background"
    return None


def _needs(request: _Request) -> tuple[str, ...]:
    """What the route must allow before this request may be sent twice on a mere delay."""
    needs: tuple[str, ...] = ()
    if request.n is not None and request.n > 1:
        needs = ("n",)
    if request.audio is not None or (request.modalities is not None and "audio" in request.modalities):
        needs += ("audio",)
    return needs
