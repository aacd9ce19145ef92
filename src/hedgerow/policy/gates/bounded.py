"""What a JSON Schema that comes with a request may hold, and with which answers it is tried.

The library compiles a schema and checks a document without letting other threads run: what takes long there stops the
whole process, in a thread and with a limit of time too. So it is only tried where both are a matter of milliseconds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from hedgerow.policy.gates.unfolded import size_of

PARTS = 3_000
"""Values in the schema as it is written: 2 to 8 ms to compile."""
CHARACTERS = 200_000
"""Of all names and texts in it."""
PATTERNS = 50
PATTERN_CHARACTERS = 2_000
"""Of all patterns together."""
ROOM = 400_000
"""Bytes that all patterns together may take when they are compiled: at most 6 ms."""
STEPS = 2_000_000
"""Parts of the unfolded schema times values in the answer: some 20 ms of checking."""
SEARCHES = 200_000_000
"""Bytes of all patterns, as often as they are used, times characters in the answer: at worst some 50 ms of checking."""
_LEAST = 100
"""Bytes in which no pattern fits."""
DIVISIONS = 2_000
"""Uses of `multipleOf` times numbers in the answer: at worst 30 us each."""

_UNTRIED = frozenset({"unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"})
"""Takes seconds to compile in a schema of a few KB, or leads to who knows where."""
_NOT_ECMA = re.compile(r"\(\?[A-Za-z-]")
"""Flags within a pattern. JSON Schema has none, and case-blind classes of Unicode are the dearest of all."""


class TooCostly(ValueError):
    """The schema of a request is not tried: it, or the answer checked against it, could take the gateway's time."""


def room_for(schema: Any, document: Any) -> int:
    """Bytes that each pattern of the schema may take when it is compiled to check this document.

    Raises `TooCostly`, and other `ValueError` as `size_of`.
    """
    patterns = _patterns(schema)
    values, characters, numbers = _measured(document)
    if values * size_of(schema) > STEPS or numbers * size_of(schema, _divisions_in) > DIVISIONS:
        raise TooCostly("the answer is too long for so large a schema")
    if not patterns:
        return ROOM
    uses = max(size_of(schema, lambda part: len(_patterns_in(part))), len(patterns))
    room = min(ROOM // len(patterns), SEARCHES // (uses * max(characters, 1)))
    if room < _LEAST:
        raise TooCostly("the answer is too long for so many patterns")
    return room


def _patterns(schema: Any) -> list[str]:
    """All of them. Raises `TooCostly`."""
    characters = 0
    patterns: list[str] = []
    for parts, value in enumerate(_values(schema), 1):
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, dict):
            characters += sum(map(len, value))
            patterns += _patterns_in(value)
            if not _UNTRIED.isdisjoint(value) or (value is not schema and isinstance(value.get("$id"), str)):
                raise TooCostly("the schema uses a keyword that is not tried")
        if parts > PARTS or characters > CHARACTERS:
            raise TooCostly("the schema is longer than can be compiled")
    if isinstance(schema, dict) and "draft-04" in str(schema.get("$schema")):
        raise TooCostly("the schema is of a draft that is not tried")  # its `id` is what `$id` is in others
    if len(patterns) > PATTERNS or sum(map(len, patterns)) > PATTERN_CHARACTERS:
        raise TooCostly("the schema has more patterns than can be compiled")
    if any(map(_NOT_ECMA.search, patterns)):
        raise TooCostly("a pattern of the schema has flags")
    return patterns


def _measured(document: Any) -> tuple[int, int, int]:
    """Values, characters of all texts and names, and numbers in a document."""
    characters = numbers = values = 0
    for values, value in enumerate(_values(document), 1):  # noqa: B007  # the count is the point
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, dict):
            characters += sum(map(len, value))
        elif isinstance(value, int | float):
            numbers += 1
    return values, characters, numbers


def _values(value: Any) -> Iterator[Any]:
    left = [value]
    while left:
        value = left.pop()
        yield value
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value


def _patterns_in(part: Any) -> list[str]:
    if not isinstance(part, dict):
        return []
    pattern, named = part.get("pattern"), part.get("patternProperties")
    return [pattern] * isinstance(pattern, str) + list(named if isinstance(named, dict) else ())


def _divisions_in(part: Any) -> int:
    return 1 if isinstance(part, dict) and "multipleOf" in part else 0
