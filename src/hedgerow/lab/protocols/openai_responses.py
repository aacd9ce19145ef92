"""POST /v1/responses."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any

import msgspec

from hedgerow.lab.chunks import Chunks, Said
from hedgerow.lab.endpoint import Asked, Endpoint, at_least_one, decode
from hedgerow.lab.protocols.openai_base import OPENAI_ERRORS, OfferedTool, encode, sse, tool_called
from hedgerow.lab.text import CREATED, text, word
from hedgerow.lab.tools import Tool

_Json = dict[str, Any]


class _Responses(msgspec.Struct):
    """What the lab reads of a request."""

    model: str
    input: msgspec.Raw = msgspec.Raw(b"null")
    instructions: msgspec.Raw = msgspec.Raw(b"")
    stream: bool | None = None
    max_output_tokens: int | None = None
    tools: list[OfferedTool] | None = None
    tool_choice: str | OfferedTool | None = None
    user: str | None = None


class _Echoed(msgspec.Struct):
    """What a response repeats of its request."""

    tools: msgspec.Raw = msgspec.Raw(b"[]")
    tool_choice: msgspec.Raw = msgspec.Raw(b'"auto"')
    parallel_tool_calls: msgspec.Raw = msgspec.Raw(b"true")


_decoder = msgspec.json.Decoder(_Responses)
_echoed = msgspec.json.Decoder(_Echoed)


class OpenAIResponses(Endpoint):
    """Responses, without their state: nothing is stored."""

    prefix = "resp"
    errors = OPENAI_ERRORS

    def read(self, target: bytes, body: bytes) -> Asked:
        asked = decode(_decoder, body)
        tool = tool_called(asked.tools, asked.tool_choice)
        chunks = TextResponse if tool is None else partial(CallResponse, tool)
        return Asked(
            model=asked.model,
            prompt=bytes(asked.input) + bytes(asked.instructions),
            speak=partial(chunks, echoed=_echoed.decode(body)),
            stream=bool(asked.stream),
            limit=at_least_one(asked.max_output_tokens, "max_output_tokens"),
            user=asked.user,
        )


class _Response(Chunks):
    """The events around the one output item; sub-classes say what that is.

    `sequence_number` is counted on from event to event, as they are always asked for in order.
    """

    __slots__ = ("_echoed", "_number", "_said")

    def __init__(self, said: Said, *, echoed: _Echoed) -> None:
        self._said = said
        self._echoed = echoed
        self._number = 0

    def _event(self, kind: str, **fields: Any) -> bytes:
        event = {"type": f"response.{kind}", "sequence_number": self._number, **fields}
        self._number += 1
        return sse(event)

    def _response(self, status: str, output: list[_Json]) -> _Json:
        said, over = self._said, status != "in_progress"
        cut = status == "incomplete"
        used = {
            "input_tokens": said.input_tokens,
            "input_tokens_details": {"cache_write_tokens": 0, "cached_tokens": said.cached_tokens},
            "output_tokens": said.tokens,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": said.input_tokens + said.tokens,
        }
        return {
            "id": said.answer_id,
            "object": "response",
            "created_at": CREATED,
            "status": status,
            "error": None,
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "model": said.model,
            "output": output,
            **msgspec.structs.asdict(self._echoed),
            "usage": used if over else None,
        }

    @property
    def _status(self) -> str:
        return "incomplete" if self._said.cut_short else "completed"

    @property
    @abstractmethod
    def _output(self) -> list[_Json]:
        """The whole output."""

    def opening(self) -> bytes:
        under_way = self._response("in_progress", [])
        return self._event("created", response=under_way) + self._event("in_progress", response=under_way)

    def _ending(self) -> bytes:
        return self._event(self._status, response=self._response(self._status, self._output))

    def error_frame(self, status: int, *, code: str | None, after: int) -> bytes:
        """The `error` event, whose fields stand at the top."""
        kind, usual_code, message = OPENAI_ERRORS.usual(status)
        event = {"type": "error", "sequence_number": self._number, "code": code or usual_code or kind}
        return sse({**event, "message": message, "param": None})

    def whole(self) -> bytes:
        return encode(self._response(self._status, self._output))


class TextResponse(_Response):
    """A message with one text as an answer."""

    __slots__ = ()

    def _part(self, spoken: str) -> _Json:
        return {"type": "output_text", "text": spoken, "annotations": [], "logprobs": []}

    @property
    def _id(self) -> str:
        return f"msg-{self._said.answer_id}"

    @property
    def _place(self) -> _Json:
        return {"item_id": self._id, "output_index": 0, "content_index": 0}

    def _message(self, status: str, content: list[_Json]) -> _Json:
        return {"id": self._id, "type": "message", "status": status, "role": "assistant", "content": content}

    @property
    def _spoken(self) -> str:
        return text(self._said.speaker, self._said.tokens)

    @property
    def _output(self) -> list[_Json]:
        return [self._message(self._status, [self._part(self._spoken)])]

    def opening(self) -> bytes:
        added = self._event
        return (
            super().opening()
            + added("output_item.added", output_index=0, item=self._message("in_progress", []))
            + added("content_part.added", **self._place, part=self._part(""))
        )

    def token(self, token: int) -> bytes:
        return self._event("output_text.delta", **self._place, delta=word(self._said.speaker, token), logprobs=[])

    def tail(self) -> bytes:
        return (
            self._event("output_text.done", **self._place, text=self._spoken, logprobs=[])
            + self._event("content_part.done", **self._place, part=self._part(self._spoken))
            + self._event("output_item.done", output_index=0, item=self._output[0])
            + self._ending()
        )


class CallResponse(_Response):
    """A function call as an answer."""

    __slots__ = ("_tool",)

    def __init__(self, tool: Tool, said: Said, *, echoed: _Echoed) -> None:
        super().__init__(said, echoed=echoed)
        self._tool = tool

    @property
    def _id(self) -> str:
        return f"fc-{self._said.answer_id}"

    def _call(self, status: str, arguments: str) -> _Json:
        call_id = f"call-{self._said.answer_id}"
        call = {"id": self._id, "type": "function_call", "status": status, "call_id": call_id}
        return {**call, "name": self._tool.name, "arguments": arguments}

    @property
    def _arguments(self) -> str:
        return self._tool.json(self._said.speaker, self._said.tokens)

    @property
    def _output(self) -> list[_Json]:
        return [self._call(self._status, self._arguments)] if self._said.tokens else []

    def token(self, token: int) -> bytes:
        begun = b""
        if token == 0:
            begun = self._event("output_item.added", output_index=0, item=self._call("in_progress", ""))
        piece = self._tool.piece(self._said.speaker, token, self._said.tokens)
        delta = self._event("function_call_arguments.delta", item_id=self._id, output_index=0, delta=piece)
        return begun + delta

    def tail(self) -> bytes:
        if not self._said.tokens:
            return self._ending()
        place = {"item_id": self._id, "output_index": 0}
        name, arguments = self._tool.name, self._arguments
        return (
            self._event("function_call_arguments.done", **place, name=name, arguments=arguments)
            + self._event("output_item.done", output_index=0, item=self._output[0])
            + self._ending()
        )
