"""What gates see of a message."""

from __future__ import annotations

from typing import Any

from hedgerow.answer import Answer, Finish
from hedgerow.wire.chunks import Json
from hedgerow.wire.reading import EventReading, inner, json_object, objects, tokens

_FINISH = {
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "max_tokens": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "tool_use": Finish.TOOL_CALLS,
    "refusal": Finish.REFUSAL,
}


class MessageReading(EventReading):
    """A message's events, ended by `message_stop`."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: list[Any] = []
        self._usage: Json = {}

    def take(self, event: Json) -> None:
        """One event."""
        kind = event.get("type")
        if kind == "content_block_delta":
            delta, index = inner(event, "delta"), event.get("index")
            if (
                delta.get("type") == "text_delta"
                and isinstance(index, int)
                and self._kinds[index : index + 1] == ["text"]
            ):
                self.chars += self.said(0).add(delta.get("text"))
        elif kind == "message_start":
            self.note(inner(event, "message"))
        elif kind == "content_block_start":
            self._add(inner(event, "content_block"))
        elif kind == "message_delta":
            self._end(inner(event, "delta"))
            self._count(inner(event, "usage"))
        elif kind == "message_stop":
            self.complete = True

    def note(self, message: Json) -> None:
        """A message, whole or at its start."""
        for block in objects(message.get("content")):
            self._add(block)
        self._end(message)
        self._count(inner(message, "usage"))

    def _add(self, block: Json) -> None:
        kind, said = block.get("type"), self.said(0)
        self._kinds.append(kind)
        if kind == "text":
            self.chars += said.add(block.get("text"))
        said.tool_calls = said.tool_calls or kind == "tool_use"

    def _end(self, outcome: Json) -> None:
        reason, said = outcome.get("stop_reason"), self.said(0)
        if reason:
            said.finish = _FINISH.get(reason, Finish.OTHER) if isinstance(reason, str) else Finish.OTHER
        if reason == "refusal":
            said.refuse(inner(outcome, "stop_details").get("explanation"))

    def _count(self, usage: Json) -> None:
        self._usage.update({name: value for name, value in usage.items() if value is not None})
        self.output_tokens = tokens(self._usage, "output_tokens", "output_tokens_details", "thinking_tokens")


def message_answer(document: bytes) -> Answer:
    """A whole message."""
    reading = MessageReading()
    reading.note(json_object(document) or {})
    reading.complete = True
    return reading.answer()
