"""Reading a few fields of an answer's JSON: strict and fast first, then as leniently as many servers write."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)


def read(document: bytes, strict: msgspec.json.Decoder[S], shape: type[S]) -> S | None:
    """Decode one JSON document; None when it is JSON of some other shape. Raises `ValueError` when it is no JSON.

    What only strict parsers refuse (lone surrogates, NaN, bad UTF-8 inside strings) is read all the same.
    """
    try:
        return strict.decode(document)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError):
        pass
    try:
        return msgspec.convert(json.loads(document.decode("utf-8", "replace")), shape)
    except msgspec.ValidationError:
        return None
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read_or_none(document: bytes, strict: msgspec.json.Decoder[S], shape: type[S]) -> S | None:
    """As `read`, with None for what is no JSON too."""
    try:
        return read(document, strict, shape)
    except ValueError:
        return None
