"""The leaf type of fields that a target changes in requests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from hedgerow.config.fields import Leaf, expected, problem
from hedgerow.wire.override import FIXED, fixed, twin_of

_NAME = re.compile(r"[A-Za-z_]+(?:\.[A-Za-z_]+)*")


def _parse(value: object, _: Path) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise expected("a mapping of the request's fields to values such as {max_tokens: 256}")
    for path, each in value.items():
        if not isinstance(path, str) or not _NAME.fullmatch(path):
            raise problem("expected the name of a field: letters and _, with dots into objects", at=(path,))
        _check(path, each)
        for above in _above(path):
            if above in value:
                raise problem(f"is within {above}, which is set as a whole; keep one of the two", at=(path,))
    return value


def _check(path: str, value: object) -> None:
    if path == "model" and (not isinstance(value, str) or not value.strip() or not value.isprintable()):
        raise problem("expected the name of a model", at=(path,))
    if (name := fixed(path, value)) is not None:
        text = f"{name} cannot be overridden: it is the question, or what hedgerow decides by, as are"
        raise problem(f"{text} {', '.join(sorted(FIXED - {name, twin_of(name)}))}", at=(path,))
    if any(isinstance(each, float) and not isfinite(each) for each in _leaves(value)):
        raise problem("holds a number that JSON does not know", at=(path,))


def _above(path: str) -> Iterator[str]:
    above = path.rpartition(".")[0]
    while above:
        yield above
        above = above.rpartition(".")[0]


def _leaves(value: object) -> Iterator[Any]:
    match value:
        case dict():
            for each in value.values():
                yield from _leaves(each)
        case list() | tuple():
            for each in value:
                yield from _leaves(each)
        case _:
            yield value


OVERRIDE = Leaf(
    _parse,
    "mapping of fields to values",
    {
        "type": "object",
        "properties": {"model": {"type": "string", "minLength": 1}},
        "propertyNames": {"pattern": f"^{_NAME.pattern}$", "not": {"enum": sorted({*FIXED, *map(twin_of, FIXED)})}},
    },
    json.dumps,
)
