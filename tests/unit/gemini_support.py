"""What Gemini sends, for the tests of how it is read."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

from hedgerow.events import Failure
from hedgerow.wire.base import Accepted, Ending, Facts, Scanner, Verdict
from hedgerow.wire.gemini import Gemini, GeminiFacts

GEMINI = Gemini()
SSE = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"x-request-id", b"r1")]
EVENTS = GeminiFacts("g", True)
ARRAY = GeminiFacts("g", True, array=True)
WHOLE = GeminiFacts("g", False)


def usage(given: int, made: int, **more: int) -> dict[str, int]:
    return {"promptTokenCount": given, "candidatesTokenCount": made, "totalTokenCount": given + made, **more}


def answer(parts: list[Any] | None, finish: str | None = None, index: int = 0, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": index}
    if parts is not None:
        candidate["content"] = {"parts": parts, "role": "model"}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], **more, "modelVersion": "g-p"}


def event(document: dict[str, Any]) -> bytes:
    """As Google frames it."""
    return b"data: " + json.dumps(document, separators=(",", ":")).encode() + b"\r\n\r\n"


def chunk(text: str, finish: str | None = None, **more: Any) -> bytes:
    return event(answer([{"text": text}], finish, **more))


RED = chunk("Red ", usageMetadata=usage(9, 2))
BLUE = chunk("and blue", usageMetadata=usage(9, 3))
STOP = chunk("", "STOP", usageMetadata=usage(9, 4))
OVERLOADED = b"""{
  "error": {
    "code": 503,
    "message": "The model is overloaded. Please try again later.",
    "status": "UNAVAILABLE"
  }
}
"""


def run(
    *reads: bytes, clean: bool = True, facts: Facts = EVENTS, reasoning_counts: bool = True
) -> tuple[Verdict, bytes, Ending | None]:
    """Feed as the gateway does: verdict, the read that brought it, the ending."""
    reading: Scanner = GEMINI.scanner(facts, SSE, reasoning_counts=reasoning_counts)
    seen = b""
    for number, read in enumerate(reads):
        seen += read
        verdict = reading.feed(read)
        if isinstance(verdict, Accepted):
            assert not any(reading.watch(piece) for piece in (b"", *reads[number + 1 :])), "only EOF is the end"
            return verdict, read, reading.ending(clean)
        if verdict is not None:
            return verdict, read, None
    verdict = reading.eof(seen)
    return verdict, b"", reading.ending(clean) if isinstance(verdict, Accepted) else None


def failed(verdict: Verdict | None) -> Failure:
    assert isinstance(verdict, Failure)
    return verdict


def of(ending: Ending | None) -> Ending:
    assert ending is not None
    return ending


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    """The stream in reads, cut where asked."""
    marks = sorted({0, len(stream), *(number % (len(stream) + 1) for number in at)})
    return [stream[start:end] for start, end in pairwise(marks)]
