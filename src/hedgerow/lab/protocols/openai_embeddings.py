"""POST /v1/embeddings: vectors that depend on model and input alone, so that every provider gives the same."""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from functools import partial
from hashlib import shake_128

import msgspec

from hedgerow.errors import RequestError
from hedgerow.lab.chunks import Body, Said
from hedgerow.lab.endpoint import Asked, Endpoint, decode
from hedgerow.lab.protocols.openai_base import OPENAI_ERRORS, encode

DIMENSIONS = 256
MOST_DIMENSIONS = 4096
MOST_INPUTS = 2048


class _Embeddings(msgspec.Struct):
    """What the lab reads of a request."""

    model: str
    input: msgspec.Raw
    dimensions: int | None = None
    encoding_format: str | None = None
    user: str | None = None


_decoder = msgspec.json.Decoder(_Embeddings)
_input_decoder = msgspec.json.Decoder(str | list[str | int | list[int]])


def vector(model: str, text: bytes, dimensions: int) -> tuple[float, ...]:
    """A vector of length 1, in numbers that a float32 holds exactly."""
    drawn = struct.unpack(f"<{dimensions}h", shake_128(model.encode() + b"\0" + text).digest(2 * dimensions))
    length = math.hypot(*drawn) or 1.0
    packed = struct.pack(f"<{dimensions}f", *(number / length for number in drawn))
    return struct.unpack(f"<{dimensions}f", packed)


def _inputs(given: bytes) -> list[bytes]:
    """Each input as JSON of one spelling: one string, one array of token ids, or an array of either."""
    found = decode(_input_decoder, given)
    one = isinstance(found, str) or (bool(found) and isinstance(found[0], int))
    return [encode(text) for text in ([found] if one else found)]


class OpenAIEmbeddings(Endpoint):
    """Embeddings."""

    prefix = "emb"
    errors = OPENAI_ERRORS

    def read(self, target: bytes, body: bytes) -> Asked:
        asked = decode(_decoder, body)
        prompt = bytes(asked.input)
        inputs = _inputs(prompt)
        dimensions = DIMENSIONS if asked.dimensions is None else asked.dimensions
        if not 1 <= dimensions <= MOST_DIMENSIONS:
            raise RequestError(400, f"Between 1 and {MOST_DIMENSIONS}, got {dimensions}", param="dimensions")
        if not 1 <= len(inputs) <= MOST_INPUTS:
            raise RequestError(400, f"Between 1 and {MOST_INPUTS} inputs, got {len(inputs)}", param="input")
        if asked.encoding_format not in (None, "float", "base64"):
            raise RequestError(400, f"float or base64, got {asked.encoding_format!r}", param="encoding_format")
        return Asked(
            model=asked.model,
            prompt=prompt,
            speak=partial(Vectors, inputs=inputs, dimensions=dimensions, as_base64=asked.encoding_format == "base64"),
            generates=False,
            user=asked.user,
        )


class Vectors(Body):
    """A vector for each input."""

    __slots__ = ("_as_base64", "_dimensions", "_inputs", "_said")

    def __init__(self, said: Said, *, inputs: list[bytes], dimensions: int, as_base64: bool) -> None:
        self._said = said
        self._inputs = inputs
        self._dimensions = dimensions
        self._as_base64 = as_base64

    def _embedding(self, text: bytes) -> str | tuple[float, ...]:
        numbers = vector(self._said.model, text, self._dimensions)
        return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode() if self._as_base64 else numbers

    def whole(self) -> bytes:
        said = self._said
        data = [
            {"object": "embedding", "index": index, "embedding": self._embedding(text)}
            for index, text in enumerate(self._inputs)
        ]
        used = {"prompt_tokens": said.input_tokens, "total_tokens": said.input_tokens}
        return encode({"object": "list", "data": data, "model": said.model, "usage": used})
