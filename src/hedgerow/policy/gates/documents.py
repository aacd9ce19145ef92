"""An answer's text as the JSON document that it is, was to be, or may still become."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from hedgerow.answer import Answer
from hedgerow.policy.gates.gate import is_wordless

DEEPEST = 500
"""Arrays and objects within each other. What is deeper could exhaust the stack of whoever reads it."""

_LONGEST_TOKEN = 6
"""Characters of the longest token but strings and numbers, `\\u0000` within a string."""
_LONGEST_INTEGER = 300
_FENCE = "```"


class NotJson(Exception):
    """Why the text is no JSON document; quotes nothing of it."""


def document_of(answer: Answer, *, fenced: bool) -> Any:
    """The document that the text of a complete answer is; with `fenced` also within one Markdown fence. Strictly RFC
    8259, but that names may come twice. Raises `NotJson`.
    """
    text = answer.text
    if fenced:
        text = _inside(text)
    try:
        document = _decode(text)
    except RecursionError:
        raise NotJson("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        what = "it is empty" if not text.strip() else f"it is not JSON from character {error.pos} on"
        raise NotJson(what) from None
    if text.count("[") + text.count("{") > DEEPEST and _is_deep(document):
        raise NotJson("it is nested too deeply")
    return document


def cannot_become(answer: Answer, *, fenced: bool) -> str | None:
    """Why the start of a text cannot be the start of a JSON document; None: it can, or nothing can be said yet."""
    text = answer.text.lstrip()
    if fenced and (text.startswith(_FENCE) or _FENCE.startswith(text)):
        _, _, text = text.partition("\n")
        text = text.partition(_FENCE)[0]
    try:
        _decode(text)
    except RecursionError:
        return "it is nested too deeply"
    except json.JSONDecodeError as error:
        cut = error.msg.startswith("Unterminated string") or len(text[error.pos :].strip()) < _LONGEST_TOKEN
        return None if cut else f"it is not JSON from character {error.pos} on"
    return None


def judged(answer: Answer, says: Callable[[Any], str | None], *, fenced: bool) -> str | None:
    """What `says` of the JSON that the answer is, or why it is none; of the start of a stream, why it can become none.

    An answer without words is not judged.
    """
    if is_wordless(answer):
        return None
    if not answer.complete:
        return cannot_become(answer, fenced=fenced)
    try:
        document = document_of(answer, fenced=fenced)
    except NotJson as error:
        return str(error)
    return says(document)


def _inside(text: str) -> str:
    """What is within the fence that the text is."""
    bare = text.strip()
    if bare.startswith(_FENCE) and bare.endswith(_FENCE) and len(bare) >= 2 * len(_FENCE):
        _, _, body = bare.removesuffix(_FENCE).partition("\n")
        return body
    return text


def _no_constant(name: str) -> Any:
    raise json.JSONDecodeError(f"{name} is no number", name, 0)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) < _LONGEST_INTEGER else float(digits)


def _is_deep(document: Any) -> bool:
    level, depth = [document], 0
    while level:
        depth += 1
        if depth > DEEPEST:
            return True
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                inner.extend(each.values())
            elif isinstance(each, list):
                inner.extend(each)
        level = inner
    return False


_decode = json.JSONDecoder(parse_constant=_no_constant, parse_int=_integer).decode
