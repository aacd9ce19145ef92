"""POST /v1beta/models/MODEL:generateContent and :streamGenerateContent."""

from __future__ import annotations

import re
from functools import partial
from typing import Any
from urllib.parse import parse_qs, unquote

import msgspec

from hedgerow.errors import RequestError
from hedgerow.lab.chunks import EVENT_STREAM, JSON, Chunks, Fields, Said
from hedgerow.lab.endpoint import Asked, Endpoint, at_least_one, decode
from hedgerow.lab.protocols.openai_base import encode
from hedgerow.lab.text import text, word
from hedgerow.lab.tools import Schema, Tool, insisted

_Json = dict[str, Any]
PATH = re.compile(r"/v1(?:beta|alpha)?/models/(?P<model>[^/:]+):(?P<method>generateContent|streamGenerateContent)")
_USUAL = {
    400: ("INVALID_ARGUMENT", "The request was refused by the lab's script."),
    401: ("UNAUTHENTICATED", "Request had invalid authentication credentials."),
    403: ("PERMISSION_DENIED", "The caller does not have permission."),
    404: ("NOT_FOUND", "The model is not found, or is not supported for generateContent."),
    429: ("RESOURCE_EXHAUSTED", "Resource has been exhausted (e.g. check quota)."),
    503: ("UNAVAILABLE", "The model is overloaded. Please try again later."),
    504: ("DEADLINE_EXCEEDED", "The request did not finish in time."),
}
_FALLBACK = ("INTERNAL", "An internal error has occurred.")
_TYPES = "type.googleapis.com/google.rpc."


class GeminiErrors:
    """`{"error": {"code", "message", "status", "details"}}`; a script's `code` becomes the reason in the details."""

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
        name, usual_message = _USUAL.get(status, _USUAL[400] if status < 500 else _FALLBACK)
        error: _Json = {"code": status, "message": message or usual_message, "status": name}
        details: list[_Json] = []
        if code is not None:
            details.append({"@type": _TYPES + "ErrorInfo", "reason": code, "domain": "googleapis.com"})
        if retry_after is not None:
            details.append({"@type": _TYPES + "RetryInfo", "retryDelay": f"{retry_after:g}s"})
        return encode({"error": {**error, "details": details} if details else error})


GEMINI_ERRORS = GeminiErrors()


class _Config(msgspec.Struct, rename="camel"):
    max_output_tokens: int | None = None


class _Declaration(msgspec.Struct, rename="camel"):
    name: str
    parameters: Schema | None = None
    parameters_json_schema: Schema | None = None


class _Offered(msgspec.Struct, rename="camel"):
    """A tool. One that the server runs declares no functions."""

    function_declarations: list[_Declaration] | None = None


class _Calling(msgspec.Struct, rename="camel"):
    mode: str | None = None
    allowed_function_names: list[str] | None = None


class _ToolConfig(msgspec.Struct, rename="camel"):
    function_calling_config: _Calling | None = None


class _Generate(msgspec.Struct, rename="camel"):
    """What the lab reads of a request."""

    contents: msgspec.Raw
    system_instruction: msgspec.Raw = msgspec.Raw(b"")
    generation_config: _Config | None = None
    tools: list[_Offered] | None = None
    tool_config: _ToolConfig | None = None

    @property
    def tool(self) -> Tool | None:
        calling = self.tool_config.function_calling_config if self.tool_config is not None else None
        if calling is None or calling.mode != "ANY":
            return None
        declared = [one for tool in self.tools or () for one in tool.function_declarations or ()]
        offered = [Tool(one.name, one.parameters_json_schema or one.parameters) for one in declared]
        return insisted(offered, name=next(iter(calling.allowed_function_names or ()), None))


_decoder = msgspec.json.Decoder(_Generate)


class Gemini(Endpoint):
    """Both methods; a stream is a sequence of events with `alt=sse`, else one JSON array."""

    prefix = "gen"
    errors = GEMINI_ERRORS

    def read(self, target: bytes, body: bytes) -> Asked:
        path, _, query = target.decode("latin-1").partition("?")
        where = PATH.fullmatch(path)
        if where is None:
            raise RequestError(404, f"No such path in the lab: {path}", code="not_found")
        asked = decode(_decoder, body)
        events = parse_qs(query).get("alt") == ["sse"]
        settings = asked.generation_config or _Config()
        return Asked(
            model=unquote(where["model"]),
            prompt=bytes(asked.contents) + bytes(asked.system_instruction),
            speak=partial(GeminiEvents if events else GeminiArray, tool=asked.tool),
            stream=where["method"] == "streamGenerateContent",
            limit=at_least_one(settings.max_output_tokens, "generationConfig.maxOutputTokens"),
        )


class GeminiEvents(Chunks):
    """An answer as Google streams it: events that end in CRLF, running totals, and no end marker.

    A function call is one part that comes whole with the first token; further tokens only show in the totals.
    """

    __slots__ = ("_said", "_tool")

    stream_fields: Fields = EVENT_STREAM

    def __init__(self, said: Said, *, tool: Tool | None) -> None:
        self._said = said
        self._tool = tool

    def _frame(self, answer: bytes, *, first: bool = False) -> bytes:
        return b"data: %b\r\n\r\n" % answer

    def _answer(self, candidates: list[_Json], tokens: int) -> bytes:
        said = self._said
        used = {"promptTokenCount": said.input_tokens, "candidatesTokenCount": tokens}
        if said.cached_tokens:
            used["cachedContentTokenCount"] = said.cached_tokens
        return encode(
            {
                **({"candidates": candidates} if candidates else {}),
                "usageMetadata": {**used, "totalTokenCount": said.input_tokens + tokens},
                "modelVersion": said.model,
                "responseId": said.answer_id,
            }
        )

    def _candidate(self, part: _Json) -> _Json:
        return {"content": {"parts": [part], "role": "model"}, "index": 0}

    @property
    def _reason(self) -> str:
        return "MAX_TOKENS" if self._said.cut_short else "STOP"

    def _call(self, tool: Tool) -> _Json:
        arguments = tool.arguments(self._said.speaker, self._said.tokens)
        return {"functionCall": {"name": tool.name, "args": arguments}}

    def opening(self) -> bytes:
        """Totals and no candidate."""
        return self._frame(self._answer([], 0), first=True)

    def token(self, token: int) -> bytes:
        tool = self._tool
        if tool is not None and token:
            return self._frame(self._answer([], token + 1))
        part = self._call(tool) if tool is not None else {"text": word(self._said.speaker, token)}
        return self._frame(self._answer([self._candidate(part)], token + 1))

    def tail(self) -> bytes:
        last = {**self._candidate({"text": ""}), "finishReason": self._reason}
        return self._frame(self._answer([last], self._said.tokens))

    def error_frame(self, status: int, *, code: str | None, after: int) -> bytes:
        return self._frame(GEMINI_ERRORS.body(status, code=code))

    def whole(self) -> bytes:
        said, tool = self._said, self._tool
        part = {"text": text(said.speaker, said.tokens)} if tool is None or not said.tokens else self._call(tool)
        return self._answer([{**self._candidate(part), "finishReason": self._reason}], said.tokens)


class GeminiArray(GeminiEvents):
    """The same answers as the elements of one array, which is how they come without `alt=sse`."""

    __slots__ = ()

    stream_fields = JSON

    def _frame(self, answer: bytes, *, first: bool = False) -> bytes:
        return (b"[" if first else b",\r\n") + answer

    def tail(self) -> bytes:
        return super().tail() + b"]"

    def error_frame(self, status: int, *, code: str | None, after: int) -> bytes:
        return super().error_frame(status, code=code, after=after) + b"]"
