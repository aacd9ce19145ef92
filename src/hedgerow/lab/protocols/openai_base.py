"""What OpenAI's endpoints share: errors, frames, the names of tools."""

from __future__ import annotations

from typing import Any

import msgspec

from hedgerow.lab.chunks import Said
from hedgerow.lab.tools import Schema, Tool, insisted

encode = msgspec.json.encode
DONE = b"data: [DONE]\n\n"

_FALLBACK = ("server_error", None, "The server had an error while processing your request.")
_USUAL: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request was refused by the lab's script."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", "permission_denied", "This key may not use the model."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    503: ("server_error", None, "The engine is overloaded, try again later."),
    529: ("overloaded_error", None, "Overloaded."),
}


class OpenAIErrors:
    """`{"error": {"message", "type", "param", "code"}}`."""

    def usual(self, status: int) -> tuple[str, str | None, str]:
        """Type, code and message of a status."""
        return _USUAL.get(status, _USUAL[400] if status < 500 else _FALLBACK)

    def body(
        self,
        status: int,
        *,
        code: str | int | None = None,
        message: str | None = None,
        param: str | None = None,
        retry_after: float | None = None,
    ) -> bytes:
        """As `chunks.Errors` says."""
        kind, usual_code, usual_message = self.usual(status)
        error = {"message": message or usual_message, "type": kind, "param": param, "code": code or usual_code}
        return encode({"error": error})

    def frame(self, status: int, *, code: str | None) -> bytes:
        """Inside a 200 stream; the error's `code` is the status unless one is given."""
        return b"data: " + self.body(status, code=code or status) + b"\n\n"


OPENAI_ERRORS = OpenAIErrors()


def usage(said: Said) -> dict[str, Any]:
    """As completions of both kinds report it."""
    read, made = said.input_tokens, said.tokens
    cached = {"prompt_tokens_details": {"cached_tokens": said.cached_tokens}} if said.cached_tokens else {}
    return {"prompt_tokens": read, "completion_tokens": made, "total_tokens": read + made, **cached}


class StreamOptions(msgspec.Struct):
    """What the lab reads of `stream_options`."""

    include_usage: bool | None = None


class Function(msgspec.Struct):
    """A function that a request offers or names."""

    name: str | None = None
    parameters: Schema | None = None


class OfferedTool(msgspec.Struct):
    """A tool: chat completions nest the function, responses do not. Other kinds of tools have neither."""

    type: str | None = None
    function: Function | None = None
    name: str | None = None
    parameters: Schema | None = None

    @property
    def known(self) -> Function:
        """The function, wherever it stands."""
        return self.function or Function(self.name, self.parameters)


def tool_called(tools: list[OfferedTool] | None, choice: str | OfferedTool | None) -> Tool | None:
    """The function that a request insists on; None when it is left to the model, which then writes text."""
    named = isinstance(choice, OfferedTool) and choice.type == "function"
    if not named and choice != "required":
        return None
    functions = [one.known for one in tools or () if one.type in (None, "function")]
    offered = [Tool(one.name, one.parameters) for one in functions if one.name is not None]
    return insisted(offered, name=choice.known.name if isinstance(choice, OfferedTool) else None)


def sse(event: dict[str, Any]) -> bytes:
    """A frame with the event's `type` as its name."""
    return b"event: %b\ndata: %b\n\n" % (event["type"].encode(), encode(event))
