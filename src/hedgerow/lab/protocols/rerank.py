"""POST /v1/rerank: documents in the order of how many words they share with the query."""

from __future__ import annotations

import re
from functools import partial

import msgspec

from hedgerow.errors import RequestError
from hedgerow.lab.chunks import Body, Said
from hedgerow.lab.endpoint import Asked, Endpoint, decode
from hedgerow.lab.protocols.openai_base import OPENAI_ERRORS, encode


class _Document(msgspec.Struct):
    text: str = ""


class _Rerank(msgspec.Struct):
    """What the lab reads of a request."""

    model: str
    query: str
    documents: list[str | _Document]
    top_n: int | None = None


_decoder = msgspec.json.Decoder(_Rerank)


def score(query: str, document: str) -> float:
    """Words in common, as a share of all words of both; from 0 to 1."""
    asked, given = (set(re.findall(r"\w+", text.lower())) for text in (query, document))
    return len(asked & given) / max(1, len(asked | given))


class Rerank(Endpoint):
    """Reranking; a document is a string or `{"text": ...}`."""

    prefix = "rerank"
    errors = OPENAI_ERRORS

    def read(self, target: bytes, body: bytes) -> Asked:
        asked = decode(_decoder, body)
        texts = [one if isinstance(one, str) else one.text for one in asked.documents]
        if not texts:
            raise RequestError(400, "At least one document is needed", param="documents")
        scores = sorted(enumerate(score(asked.query, text) for text in texts), key=lambda one: (-one[1], one[0]))
        top = len(scores) if asked.top_n is None else max(0, asked.top_n)
        return Asked(
            model=asked.model,
            prompt=encode([asked.query, *texts]),
            speak=partial(Ranking, scores=scores[:top]),
            generates=False,
        )


class Ranking(Body):
    """The best documents, best first."""

    __slots__ = ("_said", "_scores")

    def __init__(self, said: Said, *, scores: list[tuple[int, float]]) -> None:
        self._said = said
        self._scores = scores

    def whole(self) -> bytes:
        said = self._said
        results = [{"index": index, "relevance_score": score} for index, score in self._scores]
        used = {"prompt_tokens": said.input_tokens, "total_tokens": said.input_tokens}
        return encode({"id": said.answer_id, "model": said.model, "results": results, "usage": used})
