"""Continuing a chat completion's stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hedgerow.wire.chunks import Json
from hedgerow.wire.continuing import Continuation, Form, data
from hedgerow.wire.reading import inner, objects

_OF_ALL_CHUNKS = ("id", "object", "created", "model")
_BOUND = (
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "structured_outputs",
    "grammar",
    "json_schema",
)
"""What servers call a grammar that the whole answer has to follow; a continuation would follow it from its start."""
_NOTHING: tuple[Any, ...] = (None, "", [], {})


class ChatContinuation(Continuation):
    """Chunks of one choice with nothing but content."""

    LIMITS = ("max_tokens", "max_completion_tokens")

    def __init__(self) -> None:
        super().__init__()
        self._head: Json | None = None

    def may_go_on(self, request: Json, text: str, form: Form) -> bool:
        """Whether it is one choice without log probabilities, and bound by no grammar."""
        wanted = request.get("response_format")
        bound = isinstance(wanted, dict) and wanted.get("type", "text") != "text"
        several = request.get("n") not in (None, 1) or bool(request.get("logprobs"))
        return not (bound or several or any(request.get(name) for name in _BOUND))

    def take(self, event: Json) -> None:
        """A chunk."""
        if self._head is None:
            self._head = {name: event[name] for name in _OF_ALL_CHUNKS if name in event}
        for choice in objects(event.get("choices")):
            if choice.get("index", 0) != 0 or choice.get("logprobs"):
                self.not_plain()
            self._take(inner(choice, "delta"))
            self.finished = self.finished or bool(choice.get("finish_reason"))

    def _take(self, delta: Json) -> None:
        for name, value in delta.items():
            if value in _NOTHING or name == "role":
                continue
            if name == "content" and isinstance(value, str):
                self.heard(value)
            else:
                self.not_plain()

    def is_error(self, event: Json) -> bool:
        """As the scanner sees it."""
        failed = any(choice.get("finish_reason") == "error" for choice in objects(event.get("choices")))
        return failed or bool(event.get("error"))

    def join(self, event: Json) -> Iterator[bytes]:
        """A chunk of the continuation, as one of the stream that was begun; none where nothing would be in it."""
        choices = [each for each in objects(event.get("choices")) if self._says(each)]
        chunk = event | (self._head or {}) | {"choices": choices}
        if not self._wants_usage:
            chunk.pop("usage", None)
        elif usage := inner(event, "usage"):
            chunk["usage"] = self.one_usage(usage, "prompt_tokens", "completion_tokens")
        if self.broken is None and (choices or chunk.get("usage")):
            yield data(chunk)

    def _says(self, choice: Json) -> bool:
        """Whether there is anything in a choice, which is told its role no second time."""
        delta = choice["delta"] = dict(inner(choice, "delta"))
        delta.pop("role", None)
        if isinstance(content := delta.get("content"), str):
            delta["content"] = self.fresh(content)
        if finished := choice.get("finish_reason"):
            self.ends()
        return bool(finished) or any(value not in _NOTHING for value in delta.values())
