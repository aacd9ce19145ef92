"""OpenAI embeddings: `POST /v1/embeddings`."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from hedgerow.events import Failure, FailureClass, Headers, Usage
from hedgerow.wire.base import ACCEPTED, Facts, Scanner, Verdict
from hedgerow.wire.body import replace_model
from hedgerow.wire.failures import classify_frame
from hedgerow.wire.openai_base import OpenAIProtocol
from hedgerow.wire.override import Tree
from hedgerow.wire.request import Reader, Routed, model_of
from hedgerow.wire.whole import WholeBody, not_json


class _Request(Routed):
    input: Any = None


class _Item(msgspec.Struct, gc=False):
    embedding: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    """Not decoded: thousands of numbers, or their bytes in base64."""


class _Tokens(msgspec.Struct, gc=False):
    prompt_tokens: Any = None
    total_tokens: Any = None


class _Answer(msgspec.Struct, gc=False):
    data: list[_Item] | msgspec.UnsetType | None = msgspec.UNSET
    error: Any = None
    usage: _Tokens | None = None


_read = Reader(_Request).read
_decode = msgspec.json.Decoder(_Answer).decode
_NOTHING = (b"null", b"[]", b'""')


class OpenAIEmbeddings(OpenAIProtocol):
    """Embeddings: never a stream, and asking twice does nothing twice."""

    name = "openai.embeddings"

    def facts(self, target: bytes, body: bytes) -> Facts:
        """Raises `RequestError` (400) for broken JSON, no model, or a repeated `model`."""
        request = _read(body)
        return Facts(model_of(request), False, inputs=_count(request.input))

    def rewrite(
        self, body: bytes, facts: Facts, model: str | None, *, usage: bool = False, stream: bool = False
    ) -> bytes:
        """The body with `model` replaced in place; both attempts must ask for the same encoding and dimensions."""
        if model is None or model == facts.model:
            return body
        return replace_model(body, model, unique=True)

    def override(self, body: bytes, tree: Tree) -> bytes:
        """The body as it is: vectors of other parameters are no backup for each other."""
        return body

    def scanner(self, facts: Facts, headers: Headers, *, reasoning_counts: bool = True) -> Scanner:
        """A scanner for as many embeddings as there are inputs."""
        return EmbeddingsBody(headers, facts.inputs)


class EmbeddingsBody(WholeBody):
    """A whole list of embeddings: one for each input, in JSON that is complete."""

    __slots__ = ("_inputs",)

    def __init__(self, headers: Headers, inputs: int | None) -> None:
        super().__init__(headers)
        self._inputs = inputs

    def judge(self, body: bytes) -> Verdict:
        """Whether this is an adequate answer."""
        if body[:64].lstrip()[:1] != b"{":
            return not_json(body)
        try:
            answer = _read_answer(body)
        except ValueError:
            return Failure(FailureClass.PROTOCOL, "the body is not whole JSON")
        if answer is not None and answer.error:
            return classify_frame(body, self.headers)
        if answer is None or answer.data is msgspec.UNSET:
            return Failure(FailureClass.PROTOCOL, "JSON that is no list of embeddings")
        self.usage = _usage_of(answer.usage)
        return self._judge_items(answer.data or [], body)

    def _judge_items(self, items: list[_Item], body: bytes) -> Verdict:
        made = sum(map(_is_there, items))
        if not made:
            return Failure(FailureClass.EMPTY, "a whole answer with nothing in it", 200, self.headers, body)
        wanted = len(items) if self._inputs is None else self._inputs
        if made == wanted == len(items):
            return ACCEPTED
        return Failure(FailureClass.PROTOCOL, f"{made} embeddings for {wanted} inputs")


def _is_there(item: _Item) -> bool:
    return item.embedding is not msgspec.UNSET and memoryview(item.embedding)[:4] not in _NOTHING


def _count(given: Any) -> int | None:
    """How many inputs these are; None where it cannot be told."""
    if isinstance(given, str):
        return 1
    if not isinstance(given, list):
        return None
    return 1 if given and isinstance(given[0], int) else len(given)


def _read_answer(body: bytes) -> _Answer | None:
    """Decode the answer; None when it is JSON of some other shape. Raises `ValueError` when it is no JSON."""
    try:
        return _decode(body)
    except msgspec.ValidationError:
        return None
    except (msgspec.DecodeError, RecursionError):
        pass
    try:  # NaN in a vector, or a lone surrogate
        found = json.loads(body.decode("utf-8", "replace"))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    for item in found["data"] if isinstance(found, dict) and isinstance(found.get("data"), list) else ():
        if isinstance(item, dict) and "embedding" in item:
            item["embedding"] = msgspec.Raw(b"[0]" if item["embedding"] else b"[]")
    try:
        return msgspec.convert(found, _Answer)
    except msgspec.ValidationError:
        return None


def _usage_of(tokens: _Tokens | None) -> Usage | None:
    if tokens is None:
        return None
    given = tokens.total_tokens if tokens.prompt_tokens is None else tokens.prompt_tokens
    return Usage(given, 0) if isinstance(given, int) else None
