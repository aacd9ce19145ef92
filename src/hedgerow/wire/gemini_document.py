"""From a stream of chunks to the one answer that it amounts to, and back."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hedgerow.wire.gemini_answer import read_leniently
from hedgerow.wire.gemini_sse import Elements, as_events, event
from hedgerow.wire.sse import payloads

_JOINED = ("citationSources", "citations", "chosenCandidates", "topCandidates", "transcripts")
"""Lists that every chunk continues."""
_DONE = b"[DONE]"


def as_document(stream: bytes) -> bytes:
    """The one `GenerateContentResponse` that events, or an array, of them amount to.

    Pieces of text that follow each other become one, thoughts apart from the answer; a part with a signature stays as
    it is. Of all else the last chunk that says it counts. Raises `ValueError` where the stream is not whole or not
    clear: it holds an error, no finish reason, or a call whose arguments come in pieces.
    """
    merged: dict[str, Any] = {}
    candidates: dict[int, dict[str, Any]] = {}
    for chunk in _chunks(stream):
        if not isinstance(chunk, dict) or chunk.get("error"):
            raise ValueError("a chunk that is no answer")
        for key, value in chunk.items():
            if key == "candidates":
                merged.setdefault(key, [])
                for candidate in _objects(value):
                    index = candidate.get("index", 0)
                    _merge(candidates.setdefault(index if isinstance(index, int) else 0, {}), candidate)
            elif value is not None:
                merged[key] = value
    if candidates:
        merged["candidates"] = [candidates[index] for index in sorted(candidates)]
    if not _is_over(merged):
        raise ValueError("no finish reason")
    try:
        return msgspec.json.encode(merged)
    except UnicodeEncodeError:  # a lone surrogate
        return json.dumps(merged, separators=(",", ":")).encode()


def as_stream(document: bytes) -> bytes:
    """The events that one answer, or an array of chunks, amounts to; raises `ValueError` where it is not whole."""
    if document.lstrip()[:1] == b"[":
        as_document(document)
        return b"".join(event(chunk) for chunk in _elements(document))
    answer = _load(document)
    if not isinstance(answer, dict) or answer.get("error") or not _is_over(answer):
        raise ValueError("no whole answer")
    return event(document)


def _chunks(stream: bytes) -> list[Any]:
    if stream.lstrip()[:1] == b"[":
        found = _load(stream)
        return found if isinstance(found, list) else []
    found = payloads(as_events(stream) + b"\n\n")
    return [_load(payload) for payload in found if payload.strip() not in (b"", _DONE)]


def _load(document: bytes) -> Any:
    try:
        return msgspec.json.decode(document)
    except (msgspec.DecodeError, RecursionError):
        return read_leniently(document)


def _elements(array: bytes) -> list[bytes]:
    elements = Elements()
    found = payloads(elements.cut(array))
    if not elements.closed:
        raise ValueError("an array that is not whole")
    return found


def _is_over(answer: dict[str, Any]) -> bool:
    feedback = answer.get("promptFeedback")
    if isinstance(feedback, dict) and feedback.get("blockReason"):
        return True
    candidates = answer.get("candidates")
    if not isinstance(candidates, list) or not candidates:
        return False
    return all(isinstance(candidate, dict) and candidate.get("finishReason") for candidate in candidates)


def _merge(candidate: dict[str, Any], chunk: dict[str, Any]) -> None:
    for key, value in chunk.items():
        before = candidate.get(key)
        if value is None:
            continue
        if key == "content" and isinstance(before, dict) and isinstance(value, dict):
            content = dict(before)
            content.update((name, given) for name, given in value.items() if name != "parts" and given is not None)
            content["parts"] = _joined(_objects(before.get("parts")), value.get("parts"))
            candidate[key] = content
        elif key == "content" and isinstance(value, dict) and value.get("parts"):
            candidate[key] = value | {"parts": _joined([], value["parts"])}
        elif isinstance(before, dict) and isinstance(value, dict):
            joined = {name: before[name] + given for name, given in value.items() if _continues(name, before, given)}
            candidate[key] = before | value | joined
        else:
            candidate[key] = value


def _continues(name: str, before: dict[str, Any], given: Any) -> bool:
    return name in _JOINED and isinstance(given, list) and isinstance(before.get(name), list)


def _objects(value: Any) -> list[dict[str, Any]]:
    """The objects of a list that holds nothing else."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("something else than a list of objects")
    return value


def _joined(parts: list[dict[str, Any]], more: Any) -> list[dict[str, Any]]:
    joined = list(parts)
    for part in _objects(more):
        call = part.get("functionCall")
        if isinstance(call, dict) and ("partialArgs" in call or call.get("willContinue")):
            raise ValueError("a call whose arguments come in pieces")
        if not _is_text(part):
            joined.append(part)
        elif joined and _is_text(joined[-1]) and bool(joined[-1].get("thought")) == bool(part.get("thought")):
            joined[-1] = joined[-1] | {"text": joined[-1]["text"] + part["text"]}
        elif part["text"]:
            joined.append(part)
    return joined


def _is_text(part: dict[str, Any]) -> bool:
    """Whether this is text and nothing else, which may be joined with more of it."""
    return isinstance(part.get("text"), str) and part.keys() <= {"text", "thought"}
