"""The edits hedgerow makes in a request body: top-level members set, all other bytes left as they are.

Re-encoding would change what the upstream sees (key order, number spelling, lone surrogates, duplicate keys) and cost
a copy per attempt in objects; here the body is cut at those few places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

Value = bytes | Callable[[bytes | None], bytes]
"""JSON to put in place, or what makes it of the JSON that is there (None: the member is missing)."""

_PARTS = {
    b"string": rb'"(?:[^"\\]++|\\.)*+"',
    b"scalar": rb'[^\s,:"\[\]{}]++',
    b"colon": rb"[ \t\r\n]*+:[ \t\r\n]*+",
    b"blank": rb"[ \t\r\n]*+",
}

_FIRST = b'{"model":"'

_EARLY = (
    rb'%(blank)s\{%(blank)s(?:(?!"NAME")"[^"\\]*+"%(colon)s(?:%(string)s|%(scalar)s)%(blank)s,%(blank)s)*+'
    rb'"NAME"%(colon)s(%(string)s|%(scalar)s)' % _PARTS
)
"""The first member, or one after members that are no objects or arrays; no key before it has an escape."""
_LATE = (
    rb'(?<!\\)"NAME"%(colon)s("[^"\\]*+"|%(scalar)s)%(blank)s'
    rb'(?:,%(blank)s"[^"\\]*+"%(colon)s(?:"[^"\\]*+"|%(scalar)s)%(blank)s)*+\}%(blank)s\Z' % _PARTS
)
"""The last member, or one before members that are no objects or arrays; without escapes from there to the end, so each
quote is one, and only the body's own brace is closed."""
_TAIL = 256
"""Bytes of the body's end in which that is looked for."""

OPEN = re.compile(rb"%(blank)s\{(%(blank)s\})?" % _PARTS)
"""The start of an object; group 1 is the rest of an empty one."""
_MODEL = re.compile(rb'"model"%(colon)s(%(string)s)' % _PARTS, re.DOTALL)
_TOKEN = re.compile(rb"(%(string)s)(%(colon)s)?|[{}\[\]]" % _PARTS, re.DOTALL)
_VALUE = re.compile(rb"%(string)s|%(scalar)s" % _PARTS, re.DOTALL)

_ESCAPE = b"\\u00"
_ESCAPED = re.compile(rb"\\u00[567]")
"""How each letter and the underscore starts when it is escaped: without it, a key is spelled out. Other escapes are
common, those of umlauts too, and to walk through all of a long body takes long."""
quoted = lru_cache(maxsize=64)(msgspec.json.encode)
"""A model's name in JSON; those that targets want are few."""


def edit(body: bytes, members: Mapping[str, Value], *, unique: bool = False) -> bytes:
    """`body` with these top-level members set: each such key gets the value, a missing one is put in front.

    `body` is a valid JSON object (what a protocol's `facts` established, lenient as they are), the names are of letters
    and underscores; `unique` says that the body has none of them twice. A key counts however it is spelled; keys of
    that name deeper down stay.
    """
    missing = []
    cuts: list[tuple[int, int, bytes]] = []
    for name, value in members.items():
        spans = _spans(body, name, unique=unique)
        if spans:
            cuts += [(a, b, value if isinstance(value, bytes) else value(body[a:b])) for a, b in spans]
        else:
            missing.append(b'"%b":%b' % (name.encode(), value if isinstance(value, bytes) else value(None)))
    if missing and (brace := OPEN.match(body)) is not None:
        at = brace.end() if brace[1] is None else brace.start(1)
        cuts.append((at, at, b",".join(missing) + (b"," if brace[1] is None else b"")))
    return spliced(body, sorted(cuts))


def asking_for_usage(options: bytes | None) -> bytes:
    """A chat request's `stream_options` that make the stream report usage; for `edit`.

    What else an object asks for stays; what is no object is left for the upstream to refuse.
    """
    if options is None or options == b"null":
        return b'{"include_usage":true}'
    return edit(options, {"include_usage": b"true"}) if options.startswith(b"{") else options


def with_member(body: bytes, member: bytes) -> bytes:
    """`body`, a JSON object that is not empty, with one more member in front: `b'"name":value'`, not there yet."""
    at = body.index(b"{") + 1
    return b"".join((body[:at], member, b",", body[at:]))


def replace_model(body: bytes, model: str, *, unique: bool = False) -> bytes:
    """`body` with the value of every top-level `model` key replaced.

    `body` is a valid JSON object that has a top-level string `model` (what a protocol's `facts` established), with
    `unique` exactly one. Keys of that name deeper down stay.
    """
    value = quoted(model)
    if unique:
        if body.startswith(_FIRST):  # as most clients spell it
            end = body.find(b'"', len(_FIRST)) + 1
            if body.find(b"\\", len(_FIRST), end) < 0:
                return b"".join((_FIRST[:-1], value, body[end:]))
        if (span := _near(body, "model") or _only_model(body)) is not None:
            return b"".join((body[: span[0]], value, body[span[1] :]))
    return spliced(body, [(start, end, value) for start, end in _spans(body, "model")])


def spliced(body: bytes, cuts: Sequence[tuple[int, int, bytes]]) -> bytes:
    """`body` with each cut (start, end, what to put there) made; they are in order and do not overlap."""
    pieces: list[bytes] = []
    done = 0
    for start, end, value in cuts:
        pieces += (body[done:start], value)
        done = end
    pieces.append(body[done:])
    return b"".join(pieces)


def _spans(body: bytes, name: str, *, unique: bool = False) -> list[tuple[int, int]]:
    """Where the values of the top-level members of this name are."""
    if unique and (near := _near(body, name)) is not None:
        return [near]
    key = b'"%b"' % name.encode()
    if body.find(key) < 0 and (body.find(_ESCAPE) < 0 or _ESCAPED.search(body) is None):
        return []
    return [(member.start, member.end) for member in members(body) if member.name == name]


def _near(body: bytes, name: str) -> tuple[int, int] | None:
    """Where the value is of the only member of this name, if it is found near the start or the end."""
    early, late = _patterns(name)
    if (found := early.match(body)) is not None or (found := late.search(body, max(0, len(body) - _TAIL))) is not None:
        return found.span(1)
    return None


@lru_cache(maxsize=64)
def _patterns(name: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    early, late = (pattern.replace(b"NAME", name.encode()) for pattern in (_EARLY, _LATE))
    return re.compile(early, re.DOTALL), re.compile(late)


def _only_model(body: bytes) -> tuple[int, int] | None:
    """The top-level `model` has a string value; if `"model"` is there once and has one, it is that."""
    if body.count(b'"model"') == 1 and body.find(b"\\u006") < 0:
        found = _MODEL.match(body, body.find(b'"model"'))
        return None if found is None else found.span(1)
    return None


class Member(NamedTuple):
    """A member of an object: the key as it is spelled, with its quotes, where that starts, and where the value is."""

    key: bytes
    at: int
    start: int
    end: int

    @property
    def name(self) -> str | None:
        """What the key spells; None for one that is no text."""
        if b"\\" not in self.key:
            return self.key[1:-1].decode("utf-8", "replace")
        try:
            name: str = msgspec.json.decode(self.key)
        except msgspec.DecodeError:
            return None
        return name


def members(body: bytes) -> Iterator[Member]:
    """The top-level members."""
    depth = 0
    key, at, start = b"", 0, 0  # of the object or array that is open
    for token in _TOKEN.finditer(body):
        text = token[0]
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
            if depth == 1:
                yield Member(key, at, start, token.end())
        elif depth == 1 and token[2]:
            value = _VALUE.match(body, token.end())
            if value is not None:
                yield Member(token[1], token.start(), value.start(), value.end())
            else:
                key, at, start = token[1], token.start(), token.end()
