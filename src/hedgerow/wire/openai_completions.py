"""OpenAI's legacy text completions: `POST /v1/completions`."""

from __future__ import annotations

from typing import Any

import msgspec

from hedgerow.answer import Answer
from hedgerow.events import Headers
from hedgerow.wire.base import Facts, Scanner
from hedgerow.wire.chat_reading import TextReading, text_answer
from hedgerow.wire.completions_scan import TextBody, TextStream, as_document, as_stream
from hedgerow.wire.openai_base import CompletionProtocol, reports_usage
from hedgerow.wire.reading import Reading
from hedgerow.wire.request import Reader, Routed, model_of, stream_of


class _Request(Routed):
    prompt: Any = None
    n: int | float | None = None
    best_of: int | float | None = None
    plugins: Any = None
    max_tokens: int | float | None = None
    stream_options: Any = msgspec.UNSET


_read = Reader(_Request).read


class OpenAICompletions(CompletionProtocol):
    """Text completions, streamed or whole."""

    name = "openai.completions"

    def facts(self, target: bytes, body: bytes) -> Facts:
        """Raises `RequestError` (400) for broken JSON, wrong types, no model, or a repeated `model` or `stream`."""
        request = _read(body)
        stream = request.stream is not None and stream_of(request)
        many = max(request.n or 1, request.best_of or 1) > 1
        return Facts(
            model_of(request),
            stream,
            "plugins" if request.plugins else None,
            request.max_tokens if isinstance(request.max_tokens, int) else None,
            ("n",) if many else (),
            wants_usage=reports_usage(stream, request.stream_options),
            has_options=request.stream_options is not msgspec.UNSET,
            answers=_prompts(request.prompt),
        )

    def scanner(self, facts: Facts, headers: Headers, *, reasoning_counts: bool = True) -> Scanner:
        """A scanner for what was asked for, a stream or a whole body."""
        if facts.stream:
            return TextStream(headers, reasoning_counts=reasoning_counts, wants_usage=facts.wants_usage)
        return TextBody(headers)

    def answer(self, document: bytes) -> Answer:
        """What a gate sees of a whole answer."""
        return text_answer(document)

    def reading(self) -> Reading:
        """What a gate sees of a stream while it comes."""
        return TextReading()

    def as_document(self, stream: bytes) -> bytes:
        """The completion that a whole stream amounts to."""
        return as_document(stream)

    def as_stream(self, document: bytes) -> bytes:
        """The chunks that a whole completion amounts to, with its usage."""
        return as_stream(document)


def _prompts(prompt: Any) -> int:
    """How many there are: texts, or lists of tokens. A list of tokens is one."""
    several = isinstance(prompt, list) and all(isinstance(each, str | list) for each in prompt)
    return max(len(prompt), 1) if several else 1
