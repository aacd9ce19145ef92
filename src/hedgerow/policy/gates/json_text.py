"""Whether an answer's text is JSON, and whether what must be in it is."""

from __future__ import annotations

from typing import Any

from hedgerow.answer import Answer
from hedgerow.policy.gates.documents import NotJson, cannot_become, document_of
from hedgerow.policy.gates.gate import Says, is_wordless
from hedgerow.policy.gates.settings import Json, RequiredFields


def json(spec: Json) -> Says:
    """It is JSON, or may still become so."""

    def says(answer: Answer, _request: bytes) -> str | None:
        if is_wordless(answer):
            return None
        if not answer.complete:
            return cannot_become(answer, fenced=spec.fenced)
        try:
            document_of(answer, fenced=spec.fenced)
        except NotJson as error:
            return str(error)
        return None

    return says


def required_fields(spec: RequiredFields) -> Says:
    """It is JSON, and each of the paths leads to something other than null."""
    paths = [(path, path.split(".")) for path in spec.paths]

    def says(answer: Answer, _request: bytes) -> str | None:
        if is_wordless(answer):
            return None
        if not answer.complete:
            return cannot_become(answer, fenced=spec.fenced)
        try:
            document = document_of(answer, fenced=spec.fenced)
        except NotJson as error:
            return str(error)
        missing = [path for path, names in paths if _find(document, names) is None]
        return f"it has no {', '.join(missing)}" if missing else None

    return says


def _find(value: Any, names: list[str]) -> Any:
    """What a path leads to, through members of objects and, by number from 0, items of arrays."""
    for name in names:
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value
