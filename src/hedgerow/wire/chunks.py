"""What converting chats and texts has in common: chunks read from a stream, their pieces put together, chunks written.

Pieces are put together as the official SDK does it: strings are joined, objects merged, items of lists matched by their
`index`. What compatible servers repeat in every chunk, an `id` or a `role`, is kept once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from hedgerow.wire.sse import BOM, payloads

Json = dict[str, Any]

_REPEATED = frozenset({"id", "type", "role", "index", "format"})
_OF_A_CHUNK = frozenset({"choices", "object", "obfuscation"})
_OF_EVERY_CHUNK = ("id", "created", "model")


class Pieces:
    """A string that is still coming; joined once, since adding to it piece by piece would copy it each time."""

    __slots__ = ("_strings",)

    def __init__(self) -> None:
        self._strings: list[str] = []

    def add(self, string: str) -> None:
        """The next piece."""
        self._strings.append(string)

    def __str__(self) -> str:
        return "".join(self._strings)


def read_object(document: bytes) -> Json:
    """One JSON object, read leniently. Raises `ValueError` for anything else."""
    try:
        value = msgspec.json.decode(document)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    except msgspec.DecodeError:
        try:
            value = json.loads(document.decode("utf-8", "replace"))
        except RecursionError:
            raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("JSON that is no object")
    return value


def read_chunks(stream: bytes) -> tuple[Json, list[tuple[int, list[Json]]]]:
    """What the chunks of a whole stream say of the answer, and the parts of each choice, in the order of their index.

    Raises `ValueError` when the stream has no chunks, does not end with `[DONE]`, or reports an error.
    """
    answer: Json = {}
    parts: dict[int, list[Json]] = {}
    for payload in payloads(stream.removeprefix(BOM) + b"\n\n"):
        if payload.startswith(b"[DONE]"):
            if not (answer or parts):
                raise ValueError("a stream without chunks")
            return answer, sorted(parts.items())
        if not payload.strip():
            continue
        chunk = read_object(payload)
        if chunk.get("error"):
            raise ValueError("the stream reports an error")
        _note(answer, chunk)
        for part in objects(chunk.get("choices")):
            index = part.get("index", 0)
            if not isinstance(index, int) or part.get("finish_reason") == "error":
                raise ValueError("a choice without a number, or with an error")
            parts.setdefault(index, []).append(part)
    raise ValueError("the stream ended before its end marker")


def merged(held: Any, more: Any) -> Any:
    """`held` with another piece of it. Raises `ValueError` when the two do not fit together."""
    if more is None:
        return held
    if held is None:
        held = {} if isinstance(more, dict) else [] if isinstance(more, list) else Pieces() if _is_text(more) else more
    if isinstance(held, Pieces) and isinstance(more, str):
        held.add(more)
    elif isinstance(held, dict) and isinstance(more, dict):
        for key, value in more.items():
            held[key] = (held.get(key) or value) if key in _REPEATED else merged(held.get(key), value)
    elif isinstance(held, list) and isinstance(more, list):
        for item in more:
            _place(held, item)
    elif isinstance(held, int | float) and isinstance(more, int | float):
        return more
    else:
        raise ValueError("pieces of one value that are of different kinds")
    return held


def added(choice: Json, key: str, value: Any) -> None:
    """Note what another part of a choice says of itself: lists grow, anything else is said anew."""
    if isinstance(value, list):
        choice[key] = merged(choice.get(key), value)
    elif value is not None:
        choice[key] = value


def encoded(document: Json) -> bytes:
    """The JSON of a document that may hold `Pieces`."""
    whole = _joined(document)
    try:
        return msgspec.json.encode(whole)
    except UnicodeEncodeError:  # a lone surrogate: only an escape can say it, or put it together with its other half
        return json.dumps(whole, separators=(",", ":")).encode()


def choices_of(document: Json) -> list[Json]:
    """The choices of a document. Raises `ValueError` when it is none."""
    if document.get("error") or "choices" not in document:
        raise ValueError("a document without choices")
    return objects(document["choices"])


def objects(items: Any) -> list[Json]:
    """A list of objects, of which there may be none. Raises `ValueError` for anything else."""
    if not items:
        return []
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("something else than a list of objects")
    return items


def chunk_head(document: Json, kind: str) -> Json:
    """What every chunk of this document's stream says."""
    head = {"id": "", "object": kind, "created": 0, "model": ""}
    names = (*_OF_EVERY_CHUNK, "service_tier", "system_fingerprint")
    return head | {name: document[name] for name in names if document.get(name) is not None}


def written(document: Json, head: Json, chunks: Iterable[Json], *, usage: bool) -> bytes:
    """A whole stream of these chunks of one choice each; with `usage` it reports the document's, if there is one."""
    stream = [{**head, "choices": [choice]} for choice in chunks] or [{**head, "choices": []}]
    said = _OF_A_CHUNK | head.keys() | {"usage"}
    stream[0] |= {key: value for key, value in document.items() if key not in said and value is not None}
    if usage and document.get("usage"):
        stream.append({**head, "choices": [], "usage": document["usage"]})
    return b"".join(b"data: %b\n\n" % encoded(chunk) for chunk in stream) + b"data: [DONE]\n\n"


def _note(answer: Json, chunk: Json) -> None:
    for key, value in chunk.items():
        if value is None or key in _OF_A_CHUNK:
            continue
        if key not in _OF_EVERY_CHUNK or not answer.get(key):  # Azure's first chunk names no model
            answer[key] = value


def _place(items: list[Any], item: Any) -> None:
    if not isinstance(item, dict) or not isinstance(item.get("index"), int):
        items.append(item)
        return
    for held in reversed(items):
        if isinstance(held, dict) and held.get("index") == item["index"]:
            merged(held, item)
            return
    items.append(merged(None, item))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _joined(value: Any) -> Any:
    if isinstance(value, Pieces):
        return str(value)
    if isinstance(value, dict):
        return {key: _joined(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_joined(item) for item in value]
    return value
