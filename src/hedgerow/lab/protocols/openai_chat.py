"""POST /v1/chat/completions."""

from __future__ import annotations

from functools import partial

import msgspec

from hedgerow.lab.chunks import Chunks, Said
from hedgerow.lab.endpoint import Asked, Endpoint, at_least_one, decode
from hedgerow.lab.protocols.openai_base import (
    DONE,
    OPENAI_ERRORS,
    OfferedTool,
    StreamOptions,
    encode,
    tool_called,
    usage,
)
from hedgerow.lab.text import CREATED, text, word
from hedgerow.lab.tools import Tool


class _Chat(msgspec.Struct):
    """What the lab reads of a request."""

    model: str
    messages: msgspec.Raw
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    tools: list[OfferedTool] | None = None
    tool_choice: str | OfferedTool | None = None
    user: str | None = None


_decoder = msgspec.json.Decoder(_Chat)


class OpenAIChat(Endpoint):
    """Chat completions."""

    prefix = "chatcmpl"
    errors = OPENAI_ERRORS

    def read(self, target: bytes, body: bytes) -> Asked:
        chat = decode(_decoder, body)
        limit = chat.max_tokens if chat.max_completion_tokens is None else chat.max_completion_tokens
        with_usage = bool(chat.stream_options and chat.stream_options.include_usage)
        tool = tool_called(chat.tools, chat.tool_choice)
        return Asked(
            model=chat.model,
            prompt=bytes(chat.messages),
            speak=partial(ChatChunks if tool is None else partial(ToolChunks, tool), with_usage=with_usage),
            stream=bool(chat.stream),
            limit=at_least_one(limit, "max_tokens"),
            user=chat.user,
        )


class ChatChunks(Chunks):
    """A text as an answer."""

    __slots__ = ("_after", "_before", "_head", "_said", "_usage")

    first_content: str | None = ""

    def __init__(self, said: Said, *, with_usage: bool) -> None:
        self._said = said
        self._usage = with_usage
        self._head = b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"choices":[' % (
            encode(said.answer_id),
            CREATED,
            encode(said.model),
        )
        self._before = self._head + b'{"index":0,"delta":'
        self._after = b'}],"usage":null}\n\n' if with_usage else b"}]}\n\n"

    def _choice(self, delta: bytes, finish: bytes = b"null") -> bytes:
        return b'%b%b,"logprobs":null,"finish_reason":%b%b' % (self._before, delta, finish, self._after)

    def opening(self) -> bytes:
        """A role and no content."""
        return self._choice(encode({"role": "assistant", "content": self.first_content}))

    def token(self, token: int) -> bytes:
        return self._choice(b'{"content":%b}' % encode(word(self._said.speaker, token)))

    def tail(self) -> bytes:
        """The finish chunk, the usage chunk if asked for, [DONE]."""
        finish = self._choice(b"{}", encode(self._reason()))
        if not self._usage:
            return finish + DONE
        used = usage(self._said)
        return finish + b'%b],"usage":%b}\n\n' % (self._head, encode(used)) + DONE

    def error_frame(self, status: int, *, code: str | None, after: int) -> bytes:
        return OPENAI_ERRORS.frame(status, code=code)

    def whole(self) -> bytes:
        said = self._said
        choice = {"index": 0, "message": self._message(), "logprobs": None, "finish_reason": self._reason()}
        answer = {"id": said.answer_id, "object": "chat.completion", "created": CREATED, "model": said.model}
        return encode({**answer, "choices": [choice], "usage": usage(said)})

    def _reason(self) -> str:
        return "length" if self._said.cut_short else "stop"

    def _message(self) -> dict[str, object]:
        content = text(self._said.speaker, self._said.tokens)
        return {"role": "assistant", "content": content, "refusal": None}


class ToolChunks(ChatChunks):
    """A tool call as an answer: its name comes with the first token, then its arguments piece by piece."""

    __slots__ = ("_tool",)

    first_content = None

    def __init__(self, tool: Tool, said: Said, *, with_usage: bool) -> None:
        super().__init__(said, with_usage=with_usage)
        self._tool = tool

    def _function(self, arguments: str) -> dict[str, object]:
        function = {"name": self._tool.name, "arguments": arguments}
        return {"id": f"call-{self._said.answer_id}", "type": "function", "function": function}

    def token(self, token: int) -> bytes:
        piece = self._tool.piece(self._said.speaker, token, self._said.tokens)
        delta = {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}
        chunk = self._choice(encode(delta))
        if token:
            return chunk
        return self._choice(encode({"tool_calls": [{"index": 0, **self._function("")}]})) + chunk

    def _reason(self) -> str:
        return "length" if self._said.cut_short else "tool_calls"

    def _message(self) -> dict[str, object]:
        call = self._function(self._tool.json(self._said.speaker, self._said.tokens))
        return {"role": "assistant", "content": None, "refusal": None, "tool_calls": [call]}
