"""What a client makes of an answer, by protocol: text, finish, error, end marker. Written apart from `hedgerow.wire`.

It reads as the standards say (WHATWG server-sent events, JSON) and knows nothing of how the gateway reads.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.cases.client import Got

_LINE_END = re.compile(rb"\r\n|\n|\r")


@dataclass
class Told:
    """An error as the client was told it."""

    status: int
    in_stream: bool
    code: Any = None
    type: Any = None


@dataclass
class Answer:
    """One answer, read."""

    texts: dict[str, str] = field(default_factory=lambda: defaultdict(str))
    """By choice."""
    finishes: dict[str, str] = field(default_factory=dict)
    """By choice."""
    error: Told | None = None
    ended: bool = False
    """The protocol's end marker came."""

    @property
    def text(self) -> str:
        """All choices' text, in their order."""
        return "".join(self.texts[choice] for choice in sorted(self.texts))

    @property
    def finish(self) -> str | None:
        """The finish reason; several that differ are listed."""
        return " and ".join(sorted(set(self.finishes.values()))) or None


def read(protocol: str, got: Got) -> Answer:
    """What a client of this protocol sees. Never raises, whatever the answer holds."""
    answer = Answer()
    if got.status is None:
        return answer
    if got.status >= 300:
        told = _error_in(_json(got.body))
        answer.error = told(got.status, False) if told else Told(got.status, in_stream=False)
        return answer
    reader = _READERS.get(protocol, _read_nothing)
    if not got.headers.get("content-type", "").startswith("text/event-stream"):
        documents = _json(got.body)
        for document in documents if isinstance(documents, list) else [documents]:
            _take(answer, reader, document, got.status, whole=True)
        answer.ended = got.whole
        return answer
    for data in events(got.body):
        if data == b"[DONE]":
            answer.ended = protocol.startswith("openai.") and protocol != "openai.responses"
        else:
            _take(answer, reader, _json(data), got.status, whole=False)
    if answer.error is None and (told := _error_in(_json(_not_events(got.body)))):
        answer.error = told(got.status, True)
    return answer


def events(body: bytes) -> Iterator[bytes]:
    """The data of each server-sent event; what follows the last blank line is none."""
    data: list[bytes] = []
    for line in _LINE_END.split(body.removeprefix(b"\xef\xbb\xbf")):
        name, _, value = line.partition(b":")
        if name == b"data":
            data.append(value.removeprefix(b" "))
        elif not line and data:
            yield b"\n".join(data)
            data = []


def _not_events(body: bytes) -> bytes:
    """What follows the last event that begins with a known field: Gemini says its errors there, as bare JSON."""
    tail = _LINE_END.split(body)
    last = max((i for i, line in enumerate(tail) if line.startswith((b"data:", b"event:", b":"))), default=-1)
    return b"\n".join(tail[last + 1 :])


_Reader = Callable[[Answer, dict[str, Any], bool], None]


def _take(answer: Answer, reader: _Reader, data: Any, status: int, *, whole: bool) -> None:
    if not isinstance(data, dict):
        return
    if answer.error is None and (told := _error_in(data)):
        answer.error = told(status, True)
    try:
        reader(answer, data, whole)
    except (AttributeError, KeyError, TypeError):
        return  # not in the shape of this protocol: then it says nothing


def _error_in(data: Any) -> Callable[[int, bool], Told] | None:
    if not isinstance(data, dict):
        return None
    error = data.get("error")
    if not error and isinstance(response := data.get("response"), dict):
        error = response.get("error")
    if not error and data.get("type") == "error":
        error = data
    if not error:
        return None
    fields = error if isinstance(error, dict) else {}
    return lambda status, in_stream: Told(status, in_stream, fields.get("code"), fields.get("type"))


def _json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _read_chat(answer: Answer, data: dict[str, Any], whole: bool) -> None:
    for choice in data["choices"]:
        index = str(choice.get("index", 0))
        part = choice if "text" in choice else choice.get("message" if whole else "delta") or {}
        answer.texts[index] += part.get("content") or part.get("text") or ""
        if choice.get("finish_reason"):
            answer.finishes[index] = choice["finish_reason"]


def _read_responses(answer: Answer, data: dict[str, Any], whole: bool) -> None:
    if whole:
        for item in data["output"]:
            for part in item.get("content") or ():
                answer.texts["0"] += part.get("text") or ""
        answer.finishes["0"] = data["status"]
    elif data["type"] == "response.output_text.delta":
        answer.texts["0"] += data["delta"]
    elif data["type"] in ("response.completed", "response.incomplete", "response.failed"):
        answer.finishes["0"] = data["response"]["status"]
        answer.ended = data["type"] != "response.failed"


def _read_messages(answer: Answer, data: dict[str, Any], whole: bool) -> None:
    kind = data["type"]
    if whole:
        answer.texts["0"] += "".join(block.get("text") or "" for block in data["content"])
        answer.finishes["0"] = data["stop_reason"]
    elif kind == "content_block_start":
        answer.texts["0"] += data["content_block"].get("text") or ""
    elif kind == "content_block_delta":
        answer.texts["0"] += data["delta"].get("text") or ""
    elif kind == "message_delta" and data["delta"].get("stop_reason"):
        answer.finishes["0"] = data["delta"]["stop_reason"]
    elif kind == "message_stop":
        answer.ended = True


def _read_gemini(answer: Answer, data: dict[str, Any], _whole: bool) -> None:
    for candidate in data["candidates"]:
        index = str(candidate.get("index", 0))
        for part in (candidate.get("content") or {}).get("parts") or ():
            answer.texts[index] += "" if part.get("thought") else part.get("text") or ""
        if candidate.get("finishReason"):
            answer.finishes[index] = candidate["finishReason"]
            answer.ended = True  # there is no marker: with a finish reason the end of the body is the end


def _read_nothing(_answer: Answer, _data: dict[str, Any], _whole: bool) -> None:
    """An answer without text, such as embeddings."""


_READERS: dict[str, _Reader] = {
    "openai.chat": _read_chat,
    "openai.completions": _read_chat,
    "openai.responses": _read_responses,
    "anthropic.messages": _read_messages,
    "gemini.generate": _read_gemini,
}
