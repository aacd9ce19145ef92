"""OpenAI chat completions: `POST /v1/chat/completions`."""

from __future__ import annotations

from typing import Any

import msgspec

from hedgerow.events import Headers
from hedgerow.wire.base import Facts, Scanner
from hedgerow.wire.body import replace_model
from hedgerow.wire.chat_scan import ChatBody, ChatStream
from hedgerow.wire.openai_base import OpenAIProtocol
from hedgerow.wire.request import Reader, Routed, model_of, stream_of

_CLIENT_TOOLS = ("function", "custom")
"""Tools that the client executes, after one answer was chosen: asking twice does nothing twice."""


class _Tool(msgspec.Struct, gc=False):
    type: str | None = None
    function: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class _Request(Routed):
    n: int | None = None
    store: bool | None = None
    background: bool | None = None
    tools: list[_Tool] | None = None
    modalities: list[str] | None = None
    audio: Any = None
    web_search_options: Any = None
    plugins: Any = None
    max_tokens: int | float | None = None
    max_completion_tokens: int | float | None = None


_read = Reader(_Request).read


class OpenAIChat(OpenAIProtocol):
    """Chat completions, streamed or whole."""

    name = "openai.chat"

    def facts(self, target: bytes, body: bytes) -> Facts:
        """Raises `RequestError` (400) for broken JSON, wrong types, no model, or a repeated `model` or `stream`."""
        request = _read(body)
        limit = request.max_completion_tokens
        if limit is None:
            limit = request.max_tokens
        stream = request.stream is not None and stream_of(request)
        return Facts(model_of(request), stream, _side_effects(request), limit if isinstance(limit, int) else None)

    def rewrite(
        self, body: bytes, facts: Facts, model: str | None, *, usage: bool = False, stream: bool = False
    ) -> bytes:
        """The body with `model` replaced in place; `facts` must be those of this body."""
        if model is None or model == facts.model:
            return body
        return replace_model(body, model, unique=True)

    def scanner(self, facts: Facts, headers: Headers, *, reasoning_counts: bool = True) -> Scanner:
        """A scanner for what was asked for, a stream or a whole body."""
        return ChatStream(headers) if facts.stream else ChatBody(headers)


def _side_effects(request: _Request) -> str | None:
    """Why this request must not be sent twice on a mere delay; None when nothing speaks against it."""
    for tool in request.tools or ():
        # Old clients leave the type of a function out.
        kind = tool.type if tool.type is not None or tool.function is msgspec.UNSET else "function"
        if kind not in _CLIENT_TOOLS:
            return f"hosted tool {kind[:40]!a}" if kind is not None else "a tool of unknown type"
    if request.web_search_options is not None:
        return "web_search_options"
    if request.plugins:
        return "plugins"
    if request.store:
        return "store"
    if request.background:
        return "background"
    if request.n is not None and request.n > 1:
        return "n > 1"
    if request.audio is not None or "audio" in (request.modalities or ()):
        return "audio output"
    return None
