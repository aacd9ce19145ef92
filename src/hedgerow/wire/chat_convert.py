"""Chat completions from one form into the other: the document that a stream amounts to, the stream of a document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hedgerow.wire.chunks import (
    Json,
    Pieces,
    added,
    choices_of,
    chunk_head,
    encoded,
    merged,
    objects,
    read_chunks,
    read_object,
    written,
)


def as_document(stream: bytes) -> bytes:
    """The completion that a whole stream amounts to.

    Raises `ValueError` when it does not end with `[DONE]`, reports an error, or its chunks do not fit together.
    """
    try:
        answer, choices = read_chunks(stream)
        whole = [_choice(index, parts) for index, parts in choices]
        return encoded({**answer, "object": "chat.completion", "choices": whole})
    except RecursionError:
        raise ValueError("nested too deeply") from None


def as_stream(document: bytes, *, usage: bool = True) -> bytes:
    """The chunks that a whole completion amounts to, with its usage or without.

    Raises `ValueError` when it is no completion.
    """
    try:
        whole = read_object(document)
        choices = choices_of(whole)
        head = chunk_head(whole, "chat.completion.chunk")
        return written(whole, head, (chunk for choice in choices for chunk in _chunks(choice)), usage=usage)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _choice(index: int, parts: list[Json]) -> Json:
    choice: Json = {"index": index, "message": {}, "logprobs": None, "finish_reason": None}
    message: Json = {}
    calls: list[Json] = []
    for part in parts:
        for key, value in part.items():
            if key == "delta":
                _add_delta(message, calls, value)
            elif key == "logprobs":
                choice[key] = merged(choice[key], value)
            elif key == "finish_reason":
                choice[key] = value or choice[key]
            elif key not in ("index", "message"):
                added(choice, key, value)
    choice["message"] = {
        "role": message.pop("role", None) or "assistant",
        "content": message.pop("content", None),
        "refusal": message.pop("refusal", None),
        **{key: value for key, value in message.items() if value is not None},
    }
    if calls:
        calls.sort(key=lambda call: call.get("index") or 0)
        choice["message"]["tool_calls"] = [_call(call) for call in calls]
    return choice


def _add_delta(message: Json, calls: list[Json], delta: Any) -> None:
    if delta is None:
        return
    if not isinstance(delta, dict):
        raise ValueError("a delta that is no object")
    merged(message, {key: value for key, value in delta.items() if key not in ("tool_calls", "content")})
    _add_content(message, delta.get("content"))
    for piece in objects(delta.get("tool_calls")):
        _add_call(calls, piece)


def _add_content(message: Json, more: Any) -> None:
    """A text; or, Mistral's, a list of thoughts and texts, which empty texts come before and plain ones after."""
    held = message.get("content")
    if not isinstance(held, list) and not isinstance(more, list):
        message["content"] = merged(held, more)
        return
    if not isinstance(held, list):
        message["content"], before = [], held
        _add_content(message, None if before is None else str(before) if isinstance(before, Pieces) else before)
        held = message["content"]
    if isinstance(more, str):
        more = [{"type": "text", "text": more}] if more else None
    _continue(held, more)


def _continue(parts: Any, more: Any) -> None:
    """The next parts: what is of the last one's kind goes on with it."""
    if not isinstance(parts, list):
        raise ValueError("parts of a content that are no list")
    for part in objects(more):
        if part.get("type") not in _CONTINUED or "index" in part:
            merged(parts, [part])
            continue
        if not parts or parts[-1].get("type") != part["type"]:
            parts.append({})
        for key, value in part.items():
            if isinstance(value, list):
                _continue(parts[-1].setdefault(key, []), value)
            else:
                merged(parts[-1], {key: value})


_CONTINUED = ("text", "thinking")


def _add_call(calls: list[Json], piece: Json) -> None:
    """An index numbers the calls; where servers leave it out or use it twice, another id is another call."""
    index, name = piece.get("index"), piece.get("id")
    if not isinstance(index, int | None):
        raise ValueError("a tool call whose number is none")
    for call in reversed(calls):
        if (index is None or call.get("index") == index) and (not name or call.get("id") in (None, "", name)):
            merged(call, piece)
            return
    calls.append(merged(None, piece))


def _call(call: Json) -> Json:
    kind = "custom" if "custom" in call else "function"
    said = {key: value for key, value in call.items() if key not in ("index", "id") and value is not None}
    return {"id": call.get("id"), "type": kind, **said}


def _chunks(choice: Json) -> Iterator[Json]:
    """Its role, all of its output, its end."""
    message = choice.get("message")
    if not isinstance(message, dict):
        raise ValueError("a choice without a message")
    index = choice.get("index", 0)
    text = message.get("content")
    start = {"role": message.get("role") or "assistant", "content": "" if isinstance(text, str) else None}
    yield {"index": index, "delta": start, "logprobs": None, "finish_reason": None}
    delta = {key: value for key, value in message.items() if key != "role" and value is not None}
    if not text:
        delta.pop("content", None)
    if calls := objects(delta.get("tool_calls")):
        delta["tool_calls"] = [{"index": at, **call} for at, call in enumerate(calls)]
    if delta or choice.get("logprobs"):
        yield {"index": index, "delta": delta, "logprobs": choice.get("logprobs"), "finish_reason": None}
    known = ("index", "message", "logprobs", "finish_reason")
    rest = {key: value for key, value in choice.items() if key not in known}
    yield {"index": index, "delta": {}, "logprobs": None, "finish_reason": choice.get("finish_reason"), **rest}
