"""Whether an answer's text is JSON, and whether what must be in it is."""

from __future__ import annotations

from typing import Any

from hedgerow.policy.gates.documents import judged
from hedgerow.policy.gates.gate import Says
from hedgerow.policy.gates.settings import Json, RequiredFields


def json(spec: Json) -> Says:
    """It is JSON, or may still become so."""

    return lambda answer, _request: judged(answer, lambda _document: None, fenced=spec.fenced)


def required_fields(spec: RequiredFields) -> Says:
    """It is JSON, and each of the paths leads to something other than null."""
    paths = [(path, path.split(".")) for path in spec.paths]

    def lacks(document: Any) -> str | None:
        missing = [path for path, names in paths if _find(document, names) is None]
        return f"it has no {', '.join(missing)}" if missing else None

    return lambda answer, _request: judged(answer, lacks, fenced=spec.fenced)


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
