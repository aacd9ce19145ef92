"""The bytes of an OpenAI chat completion: chunks of a stream, a whole body, errors."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

CREATED = 1_764_500_000
"""A fixed Unix time: equal requests get equal bytes."""

_encode = msgspec.json.encode
_TEXT = (
    " A hedge is a row of shrubs planted close together; it marks a border, keeps the wind from the field and gives"
    " small birds a home. It costs little, grows slowly and is only missed when the storm comes."
)
_WORDS = [" " + word for word in _TEXT.split()]
DONE = b"data: [DONE]\n\n"

_ERRORS: dict[int, tuple[str, str | None, str]] = {
    400: ("invalid_request_error", None, "The request was refused by the lab's script."),
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", "permission_denied", "This key may not use the model."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests."),
    503: ("server_error", None, "The engine is overloaded, try again later."),
    529: ("overloaded_error", None, "Overloaded."),
}


def error_body(status: int, *, code: str | None = None, message: str | None = None) -> bytes:
    """An error as OpenAI words it for this status; `code` and `message` replace the usual ones."""
    fallback = ("server_error", None, "The server had an error while processing your request.")
    kind, usual_code, usual_message = _ERRORS.get(status, _ERRORS[400] if status < 500 else fallback)
    error = {"message": message or usual_message, "type": kind, "param": None, "code": code or usual_code}
    return _encode({"error": error})


def error_frame(status: int, *, code: str | None = None) -> bytes:
    """The same inside a 200 stream; the error's `code` is the status unless one is given."""
    error: dict[str, Any] = msgspec.json.decode(error_body(status))["error"]
    error["code"] = code or status
    return b"data: " + _encode({"error": error}) + b"\n\n"


class Chunks:
    """The bytes of one answer. The first word is the provider's name, so that a reader sees who is speaking."""

    __slots__ = ("_after", "_before", "_first", "_head", "_id", "_model", "_usage")

    def __init__(self, *, answer_id: str, model: str, speaker: str, usage: bool) -> None:
        self._id = answer_id
        self._model = model
        self._first = speaker
        self._usage = usage
        self._head = b'data: {"id":%b,"object":"chat.completion.chunk","created":%d,"model":%b,"choices":[' % (
            _encode(answer_id),
            CREATED,
            _encode(model),
        )
        self._before = self._head + b'{"index":0,"delta":'
        self._after = b'}],"usage":null}\n\n' if usage else b"}]}\n\n"

    def _choice(self, delta: bytes, finish: bytes) -> bytes:
        return b'%b%b,"logprobs":null,"finish_reason":%b%b' % (self._before, delta, finish, self._after)

    def role(self) -> bytes:
        """The first chunk: a role and no content."""
        return self._choice(b'{"role":"assistant","content":""}', b"null")

    def word(self, token: int) -> str:
        """The text of token `token` (from 0)."""
        return _WORDS[(token - 1) % len(_WORDS)] if token else self._first

    def token(self, token: int) -> bytes:
        """The chunk with the text of token `token` (from 0)."""
        return self._choice(b'{"content":%b}' % _encode(self.word(token)), b"null")

    def tail(self, *, reason: str, input_tokens: int, tokens: int) -> bytes:
        """What follows the last token: the finish chunk, the usage chunk if asked for, [DONE]."""
        finish = self._choice(b"{}", b'"%b"' % reason.encode())
        if not self._usage:
            return finish + DONE
        return finish + b'%b],"usage":%b}\n\n' % (self._head, _encode(_usage(input_tokens, tokens))) + DONE

    def whole(self, *, reason: str, input_tokens: int, tokens: int) -> bytes:
        """The body of an answer that is not streamed."""
        content = self._first + _rest(tokens) if tokens else ""
        message = {"role": "assistant", "content": content, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        answer = {"id": self._id, "object": "chat.completion", "created": CREATED, "model": self._model}
        return _encode({**answer, "choices": [choice], "usage": _usage(input_tokens, tokens)})


@lru_cache(maxsize=64)
def _rest(tokens: int) -> str:
    """The words after the first of an answer of so many tokens."""
    return "".join(_WORDS[i % len(_WORDS)] for i in range(tokens - 1))


def _usage(input_tokens: int, tokens: int) -> dict[str, int]:
    return {"prompt_tokens": input_tokens, "completion_tokens": tokens, "total_tokens": input_tokens + tokens}
