"""The one edit hedgerow makes in a request body: the top-level `model` value, all other bytes left as they are.

Re-encoding would change what the upstream sees (key order, number spelling, lone surrogates, duplicate keys) and cost
a copy per attempt in objects; here the body is cut at most twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

_PARTS = {
    b"string": rb'"(?:[^"\\]++|\\.)*+"',
    b"scalar": rb'[^\s,:"\[\]{}]++',
    b"colon": rb"[ \t\r\n]*+:[ \t\r\n]*+",
    b"blank": rb"[ \t\r\n]*+",
}

_FIRST = b'{"model":"'

_EARLY = re.compile(
    rb'%(blank)s\{%(blank)s(?:(?!"model")"[^"\\]*+"%(colon)s(?:%(string)s|%(scalar)s)%(blank)s,%(blank)s)*+'
    rb'"model"%(colon)s(%(string)s)' % _PARTS,
    re.DOTALL,
)
"""`model` as the first member, or after members that are no objects or arrays; no key before it has an escape."""

_MEMBER = re.compile(rb'"model"%(colon)s(%(string)s)' % _PARTS, re.DOTALL)
_TOKEN = re.compile(rb"(%(string)s)(%(colon)s)?|[{}\[\]]" % _PARTS, re.DOTALL)
_VALUE = re.compile(rb"%(string)s|%(scalar)s" % _PARTS, re.DOTALL)


_quoted = lru_cache(maxsize=64)(msgspec.json.encode)
"""The names that targets want are few."""


def replace_model(body: bytes, model: str, *, unique: bool = False) -> bytes:
    """`body` with the value of every top-level `model` key replaced.

    `body` is a valid JSON object that has a top-level string `model` (what a protocol's `facts` established), with
    `unique` exactly one. Keys of that name deeper down stay.
    """
    value = _quoted(model)
    if unique:
        if body.startswith(_FIRST):  # as most clients spell it
            end = body.find(b'"', len(_FIRST)) + 1
            if body.find(b"\\", len(_FIRST), end) < 0:
                return b"".join((_FIRST[:-1], value, body[end:]))
        if early := _EARLY.match(body):
            start, end = early.span(1)
            return b"".join((body[:start], value, body[end:]))
    pieces: list[bytes] = []
    done = 0
    for start, end in _spans(body):
        pieces += (body[done:start], value)
        done = end
    pieces.append(body[done:])
    return b"".join(pieces)


def _spans(body: bytes) -> Iterator[tuple[int, int]]:
    """Where the values of the top-level `model` keys are."""
    # Every letter of "model" is \u006x when escaped, so without that the key is spelled out.
    if body.count(b'"model"') == 1 and b"\\u006" not in body:
        member = _MEMBER.match(body, body.find(b'"model"'))
        if member is not None:
            yield member.span(1)
            return
    depth = 0
    for token in _TOKEN.finditer(body):
        text = token[0]
        if text in b"{[":
            depth += 1
        elif text in b"}]":
            depth -= 1
        elif depth == 1 and token[2] and _is_model(token[1]):
            value = _VALUE.match(body, token.end())
            if value is not None:
                yield value.span()


def _is_model(key: bytes) -> bool:
    if b"\\" not in key:
        return key == b'"model"'
    try:
        return bool(msgspec.json.decode(key) == "model")
    except msgspec.DecodeError:
        return False
