"""A tool's input that stops in the middle (the answer ran out of tokens), closed as the official SDK closes it."""

from __future__ import annotations

import json
import re

import msgspec

_TOKEN = re.compile(r'[ \t\r\n]*(?:("(?:[^"\\]|\\.)*+")|([{}\[\]:,])|([^\s"{}\[\]:,]+))', re.DOTALL)
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null|-?Infinity|NaN")
_CLOSING = {"{": "}", "[": "]"}


def closed(text: str) -> bytes:
    """`text` itself where it is whole JSON; else its longest start without an unfinished value, closed.

    Raises `ValueError` where that is no JSON.
    """
    if (whole := _valid(text)) is not None:
        return whole
    if (start := _valid(_closed(text))) is None:
        raise ValueError("a tool's input is not JSON")
    return start


def _closed(text: str) -> str:
    closing: list[str] = []
    keys: list[bool] = []  # for each open object or array: the next string is a key
    good = at = 0
    while match := _TOKEN.match(text, at):
        string, sign, scalar = match.groups()
        at = match.end()
        if sign in _CLOSING:
            closing.append(_CLOSING[sign])
            keys.append(sign == "{")
        elif sign in _CLOSING.values() and closing:
            closing.pop()
            keys.pop()
        elif sign is not None:
            if keys and closing[-1] == "}":
                keys[-1] = sign == ","
            continue
        elif (string and keys and keys[-1]) or (scalar and not _SCALAR.fullmatch(scalar)):
            continue
        good = at
    return text[:good] + "".join(reversed(closing))  # nothing was opened or closed after that


def _valid(text: str) -> bytes | None:
    try:
        document = text.encode()
        msgspec.json.decode(document, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        try:
            return json.dumps(json.loads(text)).encode()
        except (ValueError, RecursionError):
            return None
    return document
