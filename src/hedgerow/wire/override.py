"""A target's own values for fields of a request: set or removed in place, all other bytes left as they are.

A *tree* says what: JSON (as bytes) to set, None to remove, or a tree for the members of the object below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Union

from hedgerow.wire.body import OPEN, members, spliced

Tree = Mapping[str, Union[bytes, "Tree", None]]
Twin = Callable[[str], str]
"""The other spelling of a name, where an API reads two; else the name itself."""

FIXED = frozenset(
    {
        # The question.
        *("messages", "input", "prompt", "contents", "system", "instructions", "systemInstruction", "suffix"),
        # What says how the answer is to be read.
        *(
            "stream",
            "stream_options",
            "stream_format",
            "n",
            "best_of",
            "candidateCount",
            "modalities",
            "responseModalities",
            "audio",
        ),
        # What says whether asking twice does something twice.
        *("store", "background", "tools", "previous_response_id", "conversation", "plugins", "web_search_options"),
        *("search_parameters", "mcp_servers", "container", "thread", "fallback_credit_token"),
        *("cachedContent", "continuationToken", "generationOutputConfig"),
    }
)
"""Fields that no target may change: `facts` are those of the client's request and hold for every attempt."""


def twin_of(name: str) -> str:
    """The other spelling of a name in camel or snake case; Google reads both."""
    if "_" in name:
        first, *rest = name.split("_")
        return first + "".join(map(str.capitalize, rest))
    return re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name)


def fixed(path: str, value: object) -> str | None:
    """The field among `FIXED` that setting `path` to `value` would change, as it is spelled; None where none is."""
    names = [path.split(".")[0], path.removeprefix("generationConfig.").removeprefix("generation_config.")]
    if path in ("generationConfig", "generation_config") and isinstance(value, dict):
        names += value
    return next((name for name in names if not FIXED.isdisjoint((name, twin_of(name)))), None)


def limit_with(tree: Tree, limit: int | None) -> int | None:
    """The most tokens that an answer may have with these fields where the client's own `limit` is that; None: no limit.

    Of two limits the higher: an API may know both fields.
    """
    for name, value in tree.items():
        if isinstance(value, Mapping):
            limit = limit_with(value, limit)
        elif name in _LIMITS or twin_of(name) in _LIMITS:
            own = int(value) if value is not None and value.isdigit() else None
            limit = own if own is None or limit is None else max(own, limit)
    return limit


_LIMITS = frozenset({"max_tokens", "max_completion_tokens", "max_output_tokens"})


def tree_of(fields: Iterable[tuple[str, bytes | None]]) -> Tree:
    """The tree that these fields amount to; a dot in a name leads into an object, none into another field's value."""
    tree: dict[str, bytes | Tree | None] = {}
    for path, value in fields:
        *above, name = path.split(".")
        here = tree
        for each in above:
            here = here.setdefault(each, {})  # type: ignore[assignment]  # see above: no value is in the way
        here[name] = value
    return tree


def override(body: bytes, tree: Tree, twin: Twin = str) -> bytes:
    """`body`, a valid JSON object, with the fields of `tree` set and removed.

    What is set and not there is put in front. Where there is no object to go into, one is made if there is anything to
    set in it. A key counts however it is spelled, and as often as it is there.
    """
    wanted = {spelling: name for name in tree for spelling in (twin(name), name)}
    missing = dict(tree)
    cuts: list[tuple[int, int, bytes]] = []
    there = list(members(body))
    gone = 0
    for place, member in enumerate(there):
        name = wanted.get(member.name or "")
        if name is None:
            continue
        missing.pop(name, None)
        value = tree[name]
        if value is not None:
            cuts.append((member.start, member.end, _put(value, body[member.start : member.end], twin)))
            continue
        # With the comma after it at the start of the object, elsewhere with the one before it.
        after = there[place + 1].at if place + 1 < len(there) else member.end
        cuts.append((member.at, after, b"") if gone == place else (there[place - 1].end, member.end, b""))
        gone += 1
    return _with_missing(spliced(body, cuts), [(name, value) for name, value in missing.items() if _sets(value)], twin)


def _put(value: bytes | Tree, found: bytes, twin: Twin) -> bytes:
    if isinstance(value, bytes):
        return value
    if not found.startswith(b"{"):
        return override(b"{}", value, twin) if _sets(value) else found
    return override(found, value, twin)


def _with_missing(body: bytes, fields: Iterable[tuple[str, bytes | Tree | None]], twin: Twin) -> bytes:
    new = b",".join(b'"%b":%b' % (name.encode(), _put(value or {}, b"", twin)) for name, value in fields)
    brace = OPEN.match(body)
    if not new or brace is None:
        return body
    empty = brace[1] is not None
    at = brace.start(1) if empty else brace.end()
    return b"".join((body[:at], new, b"" if empty else b",", body[at:]))


def _sets(value: bytes | Tree | None) -> bool:
    if isinstance(value, Mapping):
        return any(map(_sets, value.values()))
    return value is not None
