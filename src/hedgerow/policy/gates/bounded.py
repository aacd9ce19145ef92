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
"""Values in the schema as it is written: 2 to 7 ms to compile."""
CHARACTERS = 200_000
"""Of all names and texts in it."""
PATTERNS = 50
PATTERN_CHARACTERS = 2_000
"""Of all patterns together."""
ROOM = 400_000
"""Bytes that all patterns together may take when they are compiled: at most 6 ms."""
STEPS = 2_000_000
"""Parts of the unfolded schema times values in the answer: some 20 ms of checking."""

_UNTRIED = frozenset({"unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"})
"""Takes seconds to compile in a schema of a few KB, or leads to who knows where."""
_NOT_ECMA = re.compile(r"\(\?[A-Za-z-]")
"""Flags within a pattern. JSON Schema has none, and case-blind classes of Unicode are the dearest of all."""


class TooCostly(ValueError):
    """The schema of a request is not tried: it, or the answer checked against it, could take the gateway's time."""


def room_of(schema: Any) -> int:
    """Bytes that each pattern of the schema may take when it is compiled. Raises `TooCostly`."""
    characters = 0
    patterns: list[str] = []
    for parts, value in enumerate(_values(schema), 1):
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, dict):
            characters += sum(map(len, value))
            if not _UNTRIED.isdisjoint(value):
                raise TooCostly("the schema uses a keyword that is not tried")
            patterns += _patterns(value)
        if parts > PARTS or characters > CHARACTERS:
            raise TooCostly("the schema is longer than can be compiled")
    if len(patterns) > PATTERNS or sum(map(len, patterns)) > PATTERN_CHARACTERS:
        raise TooCostly("the schema has more patterns than can be compiled")
    if any(map(_NOT_ECMA.search, patterns)):
        raise TooCostly("a pattern of the schema has flags")
    return ROOM // max(len(patterns), 1)


def check_steps(schema: Any, document: Any) -> None:
    """Raises `TooCostly` for an answer that is too long for so large a schema; other `ValueError` as `size_of`."""
    most = STEPS // size_of(schema)
    for count, _ in enumerate(_values(document), 1):
        if count > most:
            raise TooCostly("the answer is too long for so large a schema")


def _values(value: Any) -> Iterator[Any]:
    left = [value]
    while left:
        value = left.pop()
        yield value
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value


def _patterns(schema: dict[str, Any]) -> Iterator[str]:
    if isinstance(pattern := schema.get("pattern"), str):
        yield pattern
    if isinstance(named := schema.get("patternProperties"), dict):
        yield from named
