"""What gates see of a response."""

from __future__ import annotations

from hedgerow.answer import Answer, Finish
from hedgerow.wire.chunks import Json
from hedgerow.wire.reading import EventReading, Said, inner, json_object, objects, tokens

_LAST = ("response.completed", "response.incomplete", "response.failed")
_INCOMPLETE = {"max_output_tokens": Finish.LENGTH, "content_filter": Finish.CONTENT_FILTER}
_HOSTED = ("image_generation_call", "code_interpreter_call")
"""Items whose result is for the caller, besides text and calls."""
_CALLS = (
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
    "mcp_approval_request",
)
"""What the client is to run or to allow."""


class ResponsesReading(EventReading):
    """A response's events; the last one holds the whole response."""

    def __init__(self) -> None:
        super().__init__()
        self._items: dict[int, Json] = {}

    def take(self, event: Json) -> None:
        """One event."""
        kind, said = event.get("type"), self.said(0)
        if kind == "response.output_text.delta":
            self.chars += said.add(event.get("delta"))
        elif kind == "response.refusal.delta":
            said.refuse(event.get("delta"))
        elif kind == "response.output_item.added":
            _note_kind(said, inner(event, "item"))
        elif kind == "response.output_item.done":
            index = event.get("output_index")
            if isinstance(index, int):
                self._items[index] = inner(event, "item")
        elif kind in _LAST:
            response = inner(event, "response")
            if not response.get("output"):
                response = response | {"output": [self._items[index] for index in sorted(self._items)]}
            self.document(response)

    def document(self, response: Json) -> Answer:
        """A whole response."""
        said = self._said[0] = Said()
        self.complete, self.chars = True, 0
        for item in objects(response.get("output")):
            _note_kind(said, item)
            for part in objects(item.get("content")) if item.get("type") == "message" else ():
                if part.get("type") == "output_text":
                    self.chars += said.add(part.get("text"))
                said.refuse(part.get("refusal"))
        said.finish = _finish(response)
        usage = response.get("usage")
        names = "output_tokens", "output_tokens_details", "reasoning_tokens", "input_tokens"
        self.output_tokens = tokens(usage, *names)
        return self.answer()


def responses_answer(document: bytes) -> Answer:
    """A whole response."""
    return ResponsesReading().document(json_object(document) or {})


def _note_kind(said: Said, item: Json) -> None:
    kind = item.get("type")
    said.tool_calls = said.tool_calls or kind in _CALLS
    said.media = said.media or kind in _HOSTED


def _finish(response: Json) -> Finish:
    status = response.get("status")
    if status == "completed":
        return Finish.STOP
    reason = inner(response, "incomplete_details").get("reason") if status == "incomplete" else None
    return _INCOMPLETE.get(reason, Finish.OTHER) if isinstance(reason, str) else Finish.OTHER
