"""POST /v1/messages and /v1/messages/count_tokens."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from hedgerow.lab.chunks import Body, Chunks, Said
from hedgerow.lab.endpoint import Asked, Endpoint, at_least_one, decode
from hedgerow.lab.protocols.openai_base import encode, sse
from hedgerow.lab.text import text, word
from hedgerow.lab.tools import Schema, Tool, insisted

_Json = dict[str, Any]
_USUAL = {
    400: ("invalid_request_error", "The request was refused by the lab's script."),
    401: ("authentication_error", "invalid x-api-key"),
    402: ("billing_error", "There is an issue with your billing or payment information."),
    403: ("permission_error", "Your API key may not use the model."),
    404: ("not_found_error", "The model does not exist or you do not have access to it."),
    413: ("request_too_large", "The request exceeds the maximum size."),
    429: ("rate_limit_error", "This request would exceed your rate limit."),
    504: ("timeout_error", "The request timed out."),
    529: ("overloaded_error", "Overloaded"),
}
_FALLBACK = ("api_error", "Internal server error")
_PING = sse({"type": "ping"})


class AnthropicErrors:
    """`{"type": "error", "error": {"type", "message"}}`; a script's `code` becomes `error.details.error_code`."""

    def body(
        self,
        status: int,
        *,
        code: str | None = None,
        message: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> bytes:
        """As `chunks.Errors` says."""
        return encode(self.event(status, code=code, message=message))

    def event(self, status: int, *, code: str | None = None, message: str | None = None) -> _Json:
        """The same before it is JSON, with the type that makes it an event of a stream."""
        kind, usual_message = _USUAL.get(status, _USUAL[400] if status < 500 else _FALLBACK)
        error: _Json = {"type": kind, "message": message or usual_message}
        if code is not None:
            error["details"] = {"error_code": code}
        return {"type": "error", "error": error}


ANTHROPIC_ERRORS = AnthropicErrors()


class _Metadata(msgspec.Struct):
    user_id: str | None = None


class _Offered(msgspec.Struct):
    """A tool. One that the server runs has a type of its own and no schema."""

    name: str | None = None
    input_schema: Schema | None = None


class _Choice(msgspec.Struct):
    type: str
    name: str | None = None


class _Counted(msgspec.Struct):
    """What the lab reads of a request to count tokens."""

    model: str
    messages: msgspec.Raw
    system: msgspec.Raw = msgspec.Raw(b"")

    @property
    def prompt(self) -> bytes:
        return bytes(self.messages) + bytes(self.system)


class _Messages(_Counted, kw_only=True):
    """What the lab reads of a request."""

    max_tokens: int
    stream: bool | None = None
    metadata: _Metadata | None = None
    tools: list[_Offered] | None = None
    tool_choice: _Choice | None = None

    @property
    def tool(self) -> Tool | None:
        choice = self.tool_choice
        if choice is None or choice.type not in ("any", "tool"):
            return None
        offered = [Tool(one.name, one.input_schema) for one in self.tools or () if one.name is not None]
        return insisted(offered, name=choice.name)


_decoder = msgspec.json.Decoder(_Messages)
_count_decoder = msgspec.json.Decoder(_Counted)


class AnthropicMessages(Endpoint):
    """Messages."""

    prefix = "msg"
    errors = ANTHROPIC_ERRORS
    id_field = b"request-id"

    def read(self, target: bytes, body: bytes) -> Asked:
        asked = decode(_decoder, body)
        tool = asked.tool
        return Asked(
            model=asked.model,
            prompt=asked.prompt,
            speak=TextMessage if tool is None else partial(ToolMessage, tool),
            stream=bool(asked.stream),
            limit=at_least_one(asked.max_tokens, "max_tokens"),
            fills_limit=False,  # every request must bring one, mostly far above what it needs
            user=asked.metadata.user_id if asked.metadata is not None else None,
        )


class AnthropicCountTokens(Endpoint):
    """Counting tokens, which costs nothing."""

    prefix = "count"
    errors = ANTHROPIC_ERRORS
    id_field = b"request-id"

    def read(self, target: bytes, body: bytes) -> Asked:
        asked = decode(_count_decoder, body)
        return Asked(model=asked.model, prompt=asked.prompt, speak=TokenCount, generates=False, free=True)


class TokenCount(Body):
    """The answer of `count_tokens`."""

    __slots__ = ("_said",)

    def __init__(self, said: Said) -> None:
        self._said = said

    def whole(self) -> bytes:
        return encode({"input_tokens": self._said.input_tokens})


class TextMessage(Chunks):
    """A message with one text block."""

    __slots__ = ("_said",)

    reason = "end_turn"

    def __init__(self, said: Said) -> None:
        self._said = said

    def _start(self, block: _Json) -> bytes:
        return sse({"type": "content_block_start", "index": 0, "content_block": block})

    def _delta(self, delta: _Json) -> bytes:
        return sse({"type": "content_block_delta", "index": 0, "delta": delta})

    def _message(self, content: list[_Json], reason: str | None, tokens: int) -> _Json:
        said = self._said
        cached = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": said.cached_tokens}
        return {
            "id": said.answer_id,
            "type": "message",
            "role": "assistant",
            "model": said.model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": None,
            "usage": {"input_tokens": said.input_tokens - said.cached_tokens, **cached, "output_tokens": tokens},
        }

    @property
    def _reason(self) -> str:
        return "max_tokens" if self._said.cut_short else self.reason

    @property
    def _content(self) -> list[_Json]:
        return [{"type": "text", "text": text(self._said.speaker, self._said.tokens)}]

    def opening(self) -> bytes:
        """`message_start`, an empty block, a ping: all that a provider sends before it has an answer."""
        return self._message_start() + self._start({"type": "text", "text": ""}) + _PING

    def _message_start(self) -> bytes:
        return sse({"type": "message_start", "message": self._message([], None, 1)})

    def token(self, token: int) -> bytes:
        return self._delta({"type": "text_delta", "text": word(self._said.speaker, token)})

    def tail(self) -> bytes:
        return sse({"type": "content_block_stop", "index": 0}) + self._ending()

    def _ending(self) -> bytes:
        delta = {"stop_reason": self._reason, "stop_sequence": None}
        used = {"output_tokens": self._said.tokens}
        return sse({"type": "message_delta", "delta": delta, "usage": used}) + sse({"type": "message_stop"})

    def error_frame(self, status: int, *, code: str | None, after: int) -> bytes:
        return sse(ANTHROPIC_ERRORS.event(status, code=code))

    def whole(self) -> bytes:
        return encode(self._message(self._content, self._reason, self._said.tokens))


class ToolMessage(TextMessage):
    """A message with one tool use; its block starts with the first token, for it names the tool."""

    __slots__ = ("_tool",)

    reason = "tool_use"

    def __init__(self, tool: Tool, said: Said) -> None:
        super().__init__(said)
        self._tool = tool

    def _block(self, arguments: dict[str, str]) -> _Json:
        called = {"type": "tool_use", "id": f"toolu-{self._said.answer_id}", "name": self._tool.name}
        return {**called, "input": arguments}

    @property
    def _content(self) -> list[_Json]:
        said = self._said
        return [self._block(self._tool.arguments(said.speaker, said.tokens))] if said.tokens else []

    def opening(self) -> bytes:
        return self._message_start() + _PING

    def token(self, token: int) -> bytes:
        piece = self._tool.piece(self._said.speaker, token, self._said.tokens)
        delta = self._delta({"type": "input_json_delta", "partial_json": piece})
        if token:
            return delta
        return self._start(self._block({})) + self._delta({"type": "input_json_delta", "partial_json": ""}) + delta

    def tail(self) -> bytes:
        return super().tail() if self._said.tokens else self._ending()
