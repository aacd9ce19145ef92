"""OpenAI responses: `POST /v1/responses`."""

from __future__ import annotations

from typing import Any

import msgspec

from hedgerow.answer import Answer
from hedgerow.events import Failure, Headers
from hedgerow.wire.base import Facts, Scanner
from hedgerow.wire.body import edit, replace_model
from hedgerow.wire.openai_base import OpenAIProtocol
from hedgerow.wire.reading import Reading
from hedgerow.wire.request import Reader, Routed, model_of, stream_of, uploaded_file
from hedgerow.wire.responses_convert import as_document, as_stream
from hedgerow.wire.responses_reading import ResponsesReading, responses_answer
from hedgerow.wire.responses_scan import ResponsesBody, ResponsesStream

_CLIENT_TOOLS = ("function", "custom", "local_shell", "apply_patch")
"""Tools that the client executes, after one answer was chosen: asking twice does nothing twice."""


class _Tool(msgspec.Struct, gc=False):
    type: str | None = None
    tools: Any = None
    environment: Any = None
    execution: Any = None


class _Item(msgspec.Struct, gc=False):
    type: Any = None
    role: Any = None
    id: Any = None
    tools: Any = None


class _Request(Routed):
    service_tier: Any = None
    # Of the input only what tells its objects apart and their tools are decoded; whatever else it is passes.
    input: list[_Item | list[Any] | str | float | bool | None] | dict[str, Any] | str | float | bool | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: Any = None
    conversation: Any = None
    prompt: Any = None
    plugins: Any = None
    tools: list[_Tool] | None = None
    max_output_tokens: int | float | None = None


_read = Reader(_Request).read


class OpenAIResponses(OpenAIProtocol):
    """Responses, streamed or whole."""

    name = "openai.responses"
    converts = True

    def facts(self, target: bytes, body: bytes) -> Facts:
        """Raises `RequestError` (400) for broken JSON, wrong types, no model, or a repeated `model` or `stream`.

        A response is stored where `store` is left out: the route has to allow it to be stored twice.
        """
        request = _read(body)
        limit = request.max_output_tokens
        return Facts(
            model_of(request),
            stream_of(request),
            _side_effects(request) or uploaded_file(body),
            limit if isinstance(limit, int) else None,
            ("store",) if request.store is None else (),
            service_tier=request.service_tier if isinstance(request.service_tier, str) else None,
        )

    def rewrite(
        self, body: bytes, facts: Facts, model: str | None, *, usage: bool = False, stream: bool = False
    ) -> bytes:
        """The body with `model` and `stream` set in place; `facts` must be those of this body."""
        if model is not None and model != facts.model:
            body = replace_model(body, model, unique=True)
        return edit(body, {"stream": b"true"}) if stream and not facts.stream else body

    def scanner(self, facts: Facts, headers: Headers, *, reasoning_counts: bool = True) -> Scanner:
        """A scanner for what was asked for, a stream or a whole body."""
        return ResponsesStream(headers, reasoning_counts=reasoning_counts) if facts.stream else ResponsesBody(headers)

    def error_frame(self, failure: Failure) -> bytes:
        """An `error` event in both forms: flat as documented, and nested as the SDKs raise it."""
        said = {"code": str(failure.kind), "message": failure.message, "param": None}
        data = {"type": "error", "sequence_number": 0, **said, "error": {"type": "upstream_error", **said}}
        return b"event: error\ndata: " + msgspec.json.encode(data) + b"\n\n"

    def answer(self, document: bytes) -> Answer:
        """What a gate sees of a whole answer."""
        return responses_answer(document)

    def reading(self) -> Reading:
        """What a gate sees of a stream while it comes."""
        return ResponsesReading()

    def as_document(self, stream: bytes) -> bytes:
        """The last event's response. Raises `ValueError` where there is none."""
        return as_document(stream)

    def as_stream(self, document: bytes) -> bytes:
        """The events of a finished response. Raises `ValueError` where it is none."""
        return as_stream(document)


def _side_effects(request: _Request) -> str | None:
    """Why this request must not be sent twice on a mere delay; None when nothing speaks against it."""
    hosted = _hosted(request.tools)
    if hosted is not None:
        return hosted
    if request.previous_response_id is not None:
        return "previous_response_id"
    if request.conversation is not None:
        return "conversation"
    if request.plugins:
        return "plugins"
    if request.background:
        return "background"
    if request.store:
        return "store"
    if request.prompt is not None:  # may bring tools of its own
        return "stored prompt"
    return _side_effects_of_input(request.input) if isinstance(request.input, list) else None


def _side_effects_of_input(items: list[Any]) -> str | None:
    for item in items:
        if not isinstance(item, _Item):
            continue
        # A reference need not say that it is one; nor need a message, but that has a role.
        if item.type == "item_reference" or (item.type is None and item.role is None and item.id is not None):
            return "item_reference"
        # What an MCP server once listed is a record; it is asked again only where `tools` names it.
        if item.tools is not None and item.type != "mcp_list_tools":
            hosted = _hosted(_tools(item.tools))
            if hosted is not None:
                return hosted
    return None


def _hosted(tools: list[_Tool] | None) -> str | None:
    """The first tool that acts or costs before the client has chosen an answer; None if there is none."""
    for tool in tools or ():
        kind = tool.type
        if kind in _CLIENT_TOOLS or (kind == "tool_search" and tool.execution == "client"):
            continue
        if kind == "shell" and isinstance(tool.environment, dict) and tool.environment.get("type") == "local":
            continue
        if kind == "namespace" and all(member.type in _CLIENT_TOOLS for member in _tools(tool.tools)):
            continue
        return f"hosted tool {kind[:40]!a}" if kind is not None else "a tool of unknown type"
    return None


def _tools(given: Any) -> list[_Tool]:
    try:
        return msgspec.convert(given, list[_Tool])
    except (msgspec.ValidationError, UnicodeEncodeError):
        return [_Tool()]
