"""What gates see of a `GenerateContentResponse`."""

from __future__ import annotations

from typing import Any

import msgspec

from hedgerow.answer import Answer, Finish
from hedgerow.wire.chunks import Json
from hedgerow.wire.gemini_answer import DECISIONS
from hedgerow.wire.gemini_sse import Elements, GeminiBlocks
from hedgerow.wire.reading import EventReading, Said, inner, json_object, objects, tokens
from hedgerow.wire.sse import BOM

_FINISH = {"STOP": Finish.STOP, "MAX_TOKENS": Finish.LENGTH} | dict.fromkeys(DECISIONS, Finish.CONTENT_FILTER)
_OF_AN_IMAGE = "IMAGE_"
_NO_MEDIA = frozenset({"text", "thought", "thoughtSignature", "functionCall", "partMetadata"})
_BLANK = b" \t\r\n"


class GeminiReading(EventReading):
    """Chunks, as events or as the elements of one array. It is complete when every candidate is."""

    def __init__(self) -> None:
        super().__init__()
        self._start = b""
        self._framed = False
        self._blocked = False

    def feed(self, data: bytes) -> None:
        """The next piece of the body; its first byte says how it is framed."""
        if not self._framed:
            data = self._start = self._start + data
            start = data.removeprefix(BOM).lstrip(_BLANK)[:1]
            if not start:
                return
            self._framed, self._start = True, b""
            self._blocks = Elements() if start == b"[" else GeminiBlocks()
        super().feed(data)

    def take(self, event: Json) -> None:
        """One chunk; more of them may follow the finish of a candidate."""
        for candidate in objects(event.get("candidates")):
            said = self.said(candidate.get("index"))
            for part in objects(inner(candidate, "content").get("parts")):
                self._add(said, part)
            if reason := candidate.get("finishReason"):
                said.finish = _finish(reason)
        if inner(event, "promptFeedback").get("blockReason"):
            self._blocked = True
            self.said(0).finish = Finish.CONTENT_FILTER
        if (usage := event.get("usageMetadata")) is not None:
            self.output_tokens = tokens(usage, "candidatesTokenCount", "", "")

    def answer(self) -> Answer:
        """The answer as far as it has come."""
        ends = [said.finish is not None for said in self._said.values()]
        self.complete = self._blocked or (bool(ends) and all(ends))
        answer = super().answer()
        self.complete = False  # what follows a finish is read as well
        return answer

    def _add(self, said: Said, part: Json) -> None:
        if part.get("thought"):
            return
        self.chars += said.add(part.get("text"))
        said.tool_calls = said.tool_calls or part.get("functionCall") is not None
        said.media = said.media or any(part[name] is not None for name in part.keys() - _NO_MEDIA)


def gemini_answer(document: bytes) -> Answer:
    """A whole answer: one document, or an array of chunks."""
    reading = GeminiReading()
    if document[:64].removeprefix(BOM).lstrip(_BLANK)[:1] == b"[":
        reading.feed(document)
    else:
        reading.take(json_object(document) or {})
    answer = reading.answer()
    return answer if answer.complete else _closed(answer)


def _closed(answer: Answer) -> Answer:
    """A whole answer says all that it will ever say."""
    others = tuple(map(_closed, answer.others))
    return msgspec.structs.replace(answer, finish=answer.finish or Finish.OTHER, complete=True, others=others)


def _finish(reason: Any) -> Finish:
    if isinstance(reason, str):
        return Finish.CONTENT_FILTER if reason.startswith(_OF_AN_IMAGE) else _FINISH.get(reason, Finish.OTHER)
    return Finish.OTHER
