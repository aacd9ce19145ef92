"""What gates see of chat and text completions."""

from __future__ import annotations

from typing import Any

from hedgerow.answer import Answer, Finish
from hedgerow.wire.chunks import Json
from hedgerow.wire.reading import EventReading, Said, inner, json_object, objects, tokens

_FINISH = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "tool_calls": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "content_filter": Finish.CONTENT_FILTER,
}


class ChatReading(EventReading):
    """A chat's chunks, ended by `[DONE]`."""

    def ends(self, payload: bytes) -> bool:
        """The official SDKs' end marker."""
        return payload.startswith(b"[DONE]")

    def take(self, event: Json) -> None:
        """One chunk."""
        self._note(event, "delta")

    def document(self, whole: Json) -> Answer:
        """A whole completion."""
        self._note(whole, "message")
        self.complete = True
        return self.answer()

    def _note(self, answer: Json, output: str) -> None:
        for choice in objects(answer.get("choices")):
            said = self.said(choice.get("index"))
            self._add(said, choice, output)
            if reason := choice.get("finish_reason"):
                said.finish = _FINISH.get(reason, Finish.OTHER) if isinstance(reason, str) else Finish.OTHER
        if (usage := answer.get("usage")) is not None:
            names = "completion_tokens", "completion_tokens_details", "reasoning_tokens", "prompt_tokens"
            self.output_tokens = tokens(usage, *names)

    def _add(self, said: Said, choice: Json, output: str) -> None:
        message = inner(choice, output)
        for part in _texts(message.get("content")):
            self.chars += said.add(part)
        said.refuse(message.get("refusal"))
        said.tool_calls = said.tool_calls or bool(message.get("tool_calls") or message.get("function_call"))
        said.media = said.media or bool(message.get("images"))
        if audio := inner(message, "audio"):
            said.media = True
            self.chars += said.add(audio.get("transcript"))


class TextReading(ChatReading):
    """A text completion's chunks, and a whole one, which looks the same."""

    def _add(self, said: Said, choice: Json, output: str) -> None:
        self.chars += said.add(choice.get("text"))


def chat_answer(document: bytes) -> Answer:
    """A whole chat completion."""
    return ChatReading().document(json_object(document) or {})


def text_answer(document: bytes) -> Answer:
    """A whole text completion."""
    return TextReading().document(json_object(document) or {})


def _texts(content: Any) -> list[Any]:
    """A text; or, Mistral's, a list of thoughts and texts."""
    return (
        [content] if isinstance(content, str) else [p.get("text") for p in objects(content) if p.get("type") == "text"]
    )
