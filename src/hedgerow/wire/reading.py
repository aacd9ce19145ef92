"""What gates see of an answer: read from a whole document, or from a stream while it comes.

It is not on the way of every request, only of those whose route has gates. Whatever bytes come, nothing is raised: what
is not understood holds no text. The cost is linear in the bytes fed.
"""

from __future__ import annotations

import codecs
import re
from abc import ABC, abstractmethod
from typing import Any, Protocol

import msgspec

from hedgerow.answer import Answer, Finish
from hedgerow.wire.chunks import Json, read_object
from hedgerow.wire.sse import BOM, Blocks, payloads
from hedgerow.wire.thoughts import output_with_reasoning

_SURROGATE = re.compile(r"[\ud800-\udfff]")


class Reading(Protocol):
    """Reads one answer's stream."""

    @property
    def chars(self) -> int:
        """Characters of text that have come, of all choices."""

    def feed(self, data: bytes) -> None:
        """The next piece of the body, decoded."""

    def end(self) -> None:
        """The body is over: what is left ends an event, too."""

    def answer(self) -> Answer:
        """The answer as far as it has come."""


class Said:
    """One choice as far as it has come."""

    __slots__ = ("finish", "media", "refusals", "texts", "tool_calls")

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.refusals: list[str] = []
        self.finish: Finish | None = None
        self.tool_calls = False
        self.media = False

    def add(self, text: Any) -> int:
        """More text; its length. Anything but a string is none."""
        if not isinstance(text, str):
            return 0
        self.texts.append(text)
        return len(text)

    def refuse(self, text: Any) -> None:
        """More of a refusal."""
        if isinstance(text, str) and text:
            self.refusals.append(text)

    def answer(self, complete: bool) -> Answer:
        """What a gate sees of it."""
        text, refusal = _whole(self.texts), _whole(self.refusals) or None
        finish = self.finish
        if finish is Finish.STOP and refusal is not None and not text:
            finish = Finish.REFUSAL
        elif finish is Finish.STOP and self.tool_calls:
            finish = Finish.TOOL_CALLS
        elif finish is None and complete:
            finish = Finish.OTHER
        if finish is Finish.REFUSAL and refusal is None:
            refusal = ""
        return Answer(text, finish, refusal, self.tool_calls, self.media, complete=complete)


class EventReading(ABC):
    """Reads a stream of events whose data is JSON; a protocol fills in what they say."""

    def __init__(self) -> None:
        self.chars = 0
        self.complete = False
        self.output_tokens: int | None = None
        self._blocks = Blocks()
        self._said: dict[int, Said] = {}

    def feed(self, data: bytes) -> None:
        """The next piece of the body."""
        self._take_all(self._blocks.cut(data))

    def end(self) -> None:
        """The body is over."""
        self._take_all(self._blocks.rest() + b"\n\n")

    def answer(self) -> Answer:
        """The answer as far as it has come."""
        said = [self._said[index] for index in sorted(self._said)] or [Said()]
        first, *others = [each.answer(self.complete) for each in said]
        if others:
            return msgspec.structs.replace(first, others=tuple(others))
        return msgspec.structs.replace(first, output_tokens=self.output_tokens)

    def said(self, index: Any) -> Said:
        """The choice of this number; the first where that is none."""
        index = index if isinstance(index, int) else 0
        if (found := self._said.get(index)) is None:
            found = self._said[index] = Said()
        return found

    def ends(self, payload: bytes) -> bool:
        """Whether this is the end marker, where that is no JSON."""
        return False

    @abstractmethod
    def take(self, event: Json) -> None:
        """What one event says. `complete` is set where it is the last."""

    def _take_all(self, block: bytes) -> None:
        for payload in payloads(block):
            if self.complete:
                return
            if self.ends(payload):
                self.complete = True
            elif (event := json_object(payload)) is not None:
                self.take(event)


class BodyReading:
    """Reads a body of which nothing is known; it is never known to be complete."""

    def __init__(self) -> None:
        self.chars = 0
        self._texts: list[str] = []
        self._decoder: codecs.IncrementalDecoder | None = codecs.getincrementaldecoder("utf-8")()

    def feed(self, data: bytes) -> None:
        """The next piece of the body; what is no text holds none."""
        if self._decoder is None:
            return
        try:
            text = self._decoder.decode(data)
        except UnicodeDecodeError:
            self._decoder = None
            self._texts.clear()
            self.chars = 0
            return
        self._texts.append(text)
        self.chars += len(text)

    def end(self) -> None:
        """The body is over."""

    def answer(self) -> Answer:
        """The answer as far as it has come."""
        return Answer("".join(self._texts), complete=False)


def text_of(body: bytes) -> Answer:
    """A whole body of which nothing is known: its text, where it is text."""
    try:
        return Answer(body.removeprefix(BOM).decode())
    except UnicodeDecodeError:
        return Answer("")


def json_object(document: bytes) -> Json | None:
    """One JSON object, read leniently; None where it is none."""
    try:
        return read_object(document.removeprefix(BOM))
    except ValueError:
        return None


def objects(value: Any) -> list[Json]:
    """The objects of a list; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def inner(value: Any, name: str) -> Json:
    """The object that is a member of this object; an empty one where there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def tokens(usage: Any, made: str, details: str, reasoning: str, read: str = "") -> int | None:
    """The output tokens that a usage reports, without the reasoning if that is among them."""
    counts = inner({"": usage}, "")
    given, total, thought = (
        _count(counts.get(read)),
        _count(counts.get(made)),
        _count(inner(usage, details).get(reasoning)),
    )
    if total is None or output_with_reasoning(given, total, thought, counts.get("total_tokens")) != total:
        return total
    return total - thought if thought is not None and 0 <= thought <= total else total


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _whole(pieces: list[str]) -> str:
    """The pieces joined, and with them surrogates whose halves came apart; half a one alone is no text (U+FFFD)."""
    text = "".join(pieces)
    if _SURROGATE.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
