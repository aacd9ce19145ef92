"""POST /v1/completions: the legacy protocol, a prompt and a text."""

from __future__ import annotations

from functools import partial

import msgspec

from hedgerow.lab.chunks import Chunks, Said
from hedgerow.lab.endpoint import Asked, Endpoint, at_least_one, decode
from hedgerow.lab.protocols.openai_base import DONE, OPENAI_ERRORS, StreamOptions, encode, usage
from hedgerow.lab.text import CREATED, text, word


class _Completion(msgspec.Struct):
    """What the lab reads of a request."""

    model: str
    prompt: msgspec.Raw
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    max_tokens: int | None = None
    user: str | None = None


_decoder = msgspec.json.Decoder(_Completion)


class OpenAICompletions(Endpoint):
    """Legacy completions."""

    prefix = "cmpl"
    errors = OPENAI_ERRORS

    def read(self, target: bytes, body: bytes) -> Asked:
        asked = decode(_decoder, body)
        return Asked(
            model=asked.model,
            prompt=bytes(asked.prompt),
            speak=partial(
                CompletionChunks, with_usage=bool(asked.stream_options and asked.stream_options.include_usage)
            ),
            stream=bool(asked.stream),
            limit=at_least_one(asked.max_tokens, "max_tokens"),
            user=asked.user,
        )


class CompletionChunks(Chunks):
    """A text as an answer; a stream opens with an empty one."""

    __slots__ = ("_after", "_head", "_said", "_usage")

    def __init__(self, said: Said, *, with_usage: bool) -> None:
        self._said = said
        self._usage = with_usage
        self._head = b'data: {"id":%b,"object":"text_completion","created":%d,"model":%b,"choices":[' % (
            encode(said.answer_id),
            CREATED,
            encode(said.model),
        )
        self._after = b'}],"usage":null}\n\n' if with_usage else b"}]}\n\n"

    def _choice(self, text: str, reason: str | None = None) -> bytes:
        return b'%b{"text":%b,"index":0,"logprobs":null,"finish_reason":%b%b' % (
            self._head,
            encode(text),
            encode(reason),
            self._after,
        )

    @property
    def _reason(self) -> str:
        return "length" if self._said.cut_short else "stop"

    def opening(self) -> bytes:
        return self._choice("")

    def token(self, token: int) -> bytes:
        return self._choice(word(self._said.speaker, token))

    def tail(self) -> bytes:
        """The finish chunk, the usage chunk if asked for, [DONE]."""
        finish = self._choice("", self._reason)
        if not self._usage:
            return finish + DONE
        used = usage(self._said)
        return finish + b'%b],"usage":%b}\n\n' % (self._head, encode(used)) + DONE

    def error_frame(self, status: int, *, code: str | None, after: int) -> bytes:
        return OPENAI_ERRORS.frame(status, code=code)

    def whole(self) -> bytes:
        said = self._said
        spoken = text(said.speaker, said.tokens)
        choice = {"text": spoken, "index": 0, "logprobs": None, "finish_reason": self._reason}
        answer = {"id": said.answer_id, "object": "text_completion", "created": CREATED, "model": said.model}
        return encode({**answer, "choices": [choice], "usage": usage(said)})
