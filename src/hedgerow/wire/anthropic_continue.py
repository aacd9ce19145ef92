"""Continuing an Anthropic message's stream."""

from __future__ import annotations

from collections.abc import Iterator

from hedgerow.wire.chunks import Json, encoded
from hedgerow.wire.continuing import Continuation, Form
from hedgerow.wire.reading import inner


class MessageContinuation(Continuation):
    """A message whose first and only block is text and still open."""

    FORMS = frozenset({Form.LAST_MESSAGE})
    LIMITS = ("max_tokens",)

    def __init__(self) -> None:
        super().__init__()
        self._open = False
        """The block that was begun before the splice is not closed."""
        self._shift = 0

    def may_go_on(self, request: Json, text: str, form: Form) -> bool:
        """Whether the model does not think, and the text does not end with a blank, which the API refuses."""
        thinks = inner(request, "thinking").get("type", "disabled") != "disabled"
        return form in self.FORMS and not thinks and text == text.rstrip()

    def take(self, event: Json) -> None:
        """One event."""
        match event.get("type"):
            case "ping" | "message_start":
                return
            case "content_block_start" if not self._open and event.get("index") == 0:
                self._open = True
                block = inner(event, "content_block")
                if block.get("type") != "text":
                    self.not_plain()
                elif text := block.get("text"):
                    self._text(text)
            case "content_block_delta" if inner(event, "delta").get("type") == "text_delta":
                self._text(inner(event, "delta").get("text"))
            case "message_delta" | "message_stop":
                self.finished = True
            case _:
                self.not_plain()

    def _text(self, text: object) -> None:
        if isinstance(text, str):
            self.heard(text)
        else:
            self.not_plain()

    def is_error(self, event: Json) -> bool:
        """However it is named."""
        return event.get("type") == "error" or bool(event.get("error"))

    def join(self, event: Json) -> Iterator[bytes]:
        """An event of the continuation: its text goes on in the block that is open, other blocks come after that."""
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start":
            return
        if kind == "content_block_start" and index == 0:
            block = inner(event, "content_block")
            if block.get("type") == "text":
                if text := block.get("text"):
                    yield _event(
                        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}}
                    )
                return
            self._shift = 1
        if self._open and (self._shift or kind in ("content_block_stop", "message_delta")):
            self._open = False
            yield _event({"type": "content_block_stop", "index": 0})
            if kind == "content_block_stop":
                return
        if isinstance(index, int):
            event["index"] = index + self._shift
        if kind == "message_delta":
            self.ends()
            event["usage"] = self.one_usage(inner(event, "usage"), "input_tokens", "output_tokens")
        yield _event(event)


def _event(event: Json) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (str(event.get("type")).encode(), encoded(event))
