"""Request bodies: only the needed fields decoded, and faults said the way OpenAI's API says them.

Strict and fast first (msgspec); what that refuses although many servers take it (escaped lone surrogates, NaN) goes
through the standard library once more.
"""

from __future__ import annotations

import json
import re
from typing import Any, Generic, NoReturn, TypeVar

import msgspec

from hedgerow.errors import RequestError


class Once:
    """The value of a key that may not occur twice: two parsers would read two different requests."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Routed(msgspec.Struct):
    """The two fields that decide where a request goes and how its answer is read; other shapes extend it."""

    model: Once | None = None
    stream: Once | None = None


R = TypeVar("R", bound=Routed)


class Reader(Generic[R]):
    """Decodes bodies of one shape."""

    __slots__ = ("_count", "_decode", "_shape")

    def __init__(self, shape: type[R]) -> None:
        self._shape = shape
        self._decode = msgspec.json.Decoder(shape, dec_hook=self._once).decode
        self._count = 0  # of `Once` in the body being read

    def read(self, body: bytes) -> R:
        """Decode `body`; unknown fields are ignored.

        Raises `RequestError` (400) when it is no JSON object, when a known field has a wrong type, or when `model` or
        `stream` occurs twice.
        """
        self._count = 0
        try:
            request = self._decode(body)
        except msgspec.ValidationError as error:
            _refuse(str(error))
        except (msgspec.DecodeError, RecursionError):
            return _read_leniently(body, self._shape)
        if self._count > (request.model is not None) + (request.stream is not None):
            raise RequestError(400, "Duplicate keys in the JSON body: 'model' and 'stream' may occur once only.")
        return request

    def _once(self, _: type, value: Any) -> Once:
        self._count += 1
        return Once(value)


def forbids_storing(body: bytes) -> bool:
    """Whether the request says `store: false`: its answer is to be kept nowhere."""
    if b'"store"' not in body:
        return False
    try:
        return _STORE(body).store is False
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return _STORE_FALSE.search(body) is not None  # what only some can read is taken at its worst


class _Store(msgspec.Struct):
    store: Any = None


_STORE = msgspec.json.Decoder(_Store).decode
_STORE_FALSE = re.compile(rb'"store"\s*:\s*false')


def uploaded_file(body: bytes) -> str | None:
    """Why a request must not be sent twice that names a file: an uploaded file lives in one account."""
    return "an uploaded file" if body.find(b'"file_id"') >= 0 and _FILE_ID.search(body) is not None else None


_FILE_ID = re.compile(rb'"file_id"\s*:\s*"')


def model_of(request: Routed) -> str:
    """The `model` field. Raises `RequestError` (400) when it is missing or no usable string."""
    if request.model is None:
        message = "Missing required parameter: 'model'."
        raise RequestError(400, message, param="model", code="missing_required_parameter")
    model = request.model.value
    if not isinstance(model, str):
        _wrong_type("model", "str", _kind(model))
    if not model.isascii():
        try:
            model.encode()
        except UnicodeEncodeError:
            message = "Invalid value for 'model': it holds a lone surrogate."
            raise RequestError(400, message, param="model", code="invalid_value") from None
    return model


def stream_of(request: Routed) -> bool:
    """The `stream` field, False where it is missing or null. Raises `RequestError` (400) for anything else."""
    value = None if request.stream is None else request.stream.value
    if value is not None and not isinstance(value, bool):
        _wrong_type("stream", "bool", _kind(value))
    return bool(value)


def _read_leniently(body: bytes, shape: type[R]) -> R:
    members: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal members
        members = pairs  # the outermost object is finished last
        return dict(pairs)

    try:
        parsed = json.loads(body.decode("utf-8", "surrogateescape"), object_pairs_hook=keep)
    except (ValueError, RecursionError):
        message = "We could not parse the JSON body of your request: it is not valid JSON."
        raise RequestError(400, message) from None
    try:
        request = msgspec.convert(parsed, type=shape, dec_hook=lambda _, value: Once(value))
    except msgspec.ValidationError as error:
        _refuse(str(error))
    except UnicodeEncodeError:
        raise RequestError(400, "Invalid JSON body: a lone surrogate where no text belongs.") from None
    if any(sum(key == name for key, _ in members) > 1 for name in ("model", "stream")):
        raise RequestError(400, "Duplicate keys in the JSON body: 'model' and 'stream' may occur once only.")
    return request


_FAULT = re.compile(r"Expected `(.+?)(?: \| null)?`, got `(\w+)`(?: - at `\$\.?(.*)`)?")
_WORDS = {
    "str": "a string",
    "bool": "a boolean",
    "int": "an integer",
    "float": "a decimal",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def _refuse(fault: str) -> NoReturn:
    match = _FAULT.fullmatch(fault)
    if match is None:
        raise RequestError(400, f"Invalid JSON body: {fault}.") from None
    expected, got, param = match.groups()
    if not param:
        raise RequestError(400, f"Invalid JSON body: expected an object, but got {_WORDS.get(got, got)} instead.")
    _wrong_type(param, expected, got)


def _wrong_type(param: str, expected: str, got: str) -> NoReturn:
    wanted = " or ".join(_WORDS.get(word, word) for word in expected.split(" | "))
    message = f"Invalid type for '{param}': expected {wanted}, but got {_WORDS.get(got, got)} instead."
    raise RequestError(400, message, param=param, code="invalid_type") from None


def _kind(value: Any) -> str:
    return {list: "array", dict: "object", type(None): "null"}.get(type(value), type(value).__name__)
