"""Whether the model refused to answer: by the protocol's own sign, or in so many words at its beginning."""

from __future__ import annotations

from hedgerow.answer import Answer, Finish
from hedgerow.policy.gates.gate import Says
from hedgerow.policy.gates.settings import NoRefusal

BEGINNING = 200
"""Characters in which a phrase counts: a refusal opens an answer, further on the words may be about anything."""

PHRASES = (
    "i can't help with",
    "i cannot help with",
    "i can't assist with",
    "i cannot assist with",
    "i'm unable to help",
    "i am unable to help",
    "i'm unable to assist",
    "i am unable to assist",
    "i'm not able to help",
    "i am not able to help",
    "i'm not able to assist",
    "i am not able to assist",
    "i can't provide",
    "i cannot provide",
    "i can't fulfill",
    "i cannot fulfill",
    "i can't comply",
    "i cannot comply",
    "i must decline",
    "i won't be able to help",
)
"""English openings of refusals; `no_refusal` with a list has its own instead."""

_SIGNS = {Finish.REFUSAL: "the model refused", Finish.CONTENT_FILTER: "a content filter cut in"}
_PLAIN = str.maketrans("\u2019\u02bc", "''")


def no_refusal(spec: NoRefusal) -> Says:
    """There is no sign of a refusal, and none of the phrases where answers begin, whatever their case."""
    phrases = tuple(map(_plain, PHRASES if spec.phrases is None else spec.phrases))

    def says(answer: Answer, _request: bytes) -> str | None:
        if answer.refusal is not None:
            return "the model refused"
        if answer.finish in _SIGNS:
            return _SIGNS[answer.finish]
        beginning = _plain(answer.text.lstrip()[:BEGINNING])
        return "it begins like a refusal" if any(phrase in beginning for phrase in phrases) else None

    return says


def _plain(text: str) -> str:
    return text.translate(_PLAIN).casefold()
