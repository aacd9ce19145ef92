"""How large a JSON Schema is once its references are followed: a small one may be more than can ever be checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

MOST = 100_000
"""Parts of a schema that may come with a request."""

_ELSEWHERE = ("$defs", "definitions")
"""Counted where they are referred to."""


def size_of(schema: Any, weigh: Callable[[Any], int] = lambda _: 1) -> int:
    """How many parts the schema has, or what they weigh together.

    Raises `ValueError` for one that unfolds to more than `MOST`, or refers to what is not plainly in it. A part that
    refers to itself is counted once: how often it is used is up to the answer.
    """
    return _count(schema, schema, weigh, {}, 0)


def _count(node: Any, schema: Any, weigh: Callable[[Any], int], seen: dict[int, int], so_far: int) -> int:
    if not isinstance(node, dict | list):
        return weigh(node)
    if (known := seen.get(id(node))) is not None:
        return known
    seen[id(node)] = total = weigh(node)  # for what is within it and refers to it
    inner = [each for name, each in node.items() if name not in _ELSEWHERE] if isinstance(node, dict) else node
    for each in inner:
        total += _count(each, schema, weigh, seen, so_far + total)
    if isinstance(node, dict) and isinstance(reference := node.get("$ref"), str):
        total += _count(_find(schema, reference), schema, weigh, seen, so_far + total)
    if so_far + total > MOST:
        raise ValueError("the schema unfolds to more than can be checked")
    seen[id(node)] = total
    return total


def _find(schema: Any, reference: str) -> Any:
    """The part that a JSON Pointer (RFC 6901) in a fragment leads to."""
    if reference not in ("#", "#/") and not reference.startswith("#/"):
        raise ValueError("the schema refers to something else than a place in it")
    found = schema
    for name in reference[1:].split("/")[1:]:
        name = name.replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name) < len(found):
            found = found[int(name)]
        else:
            raise ValueError("the schema refers to a place that is not in it")
    return found
