"""POST /v1/moderations: nothing is ever flagged."""

from __future__ import annotations

from functools import partial

import msgspec

from hedgerow.lab.chunks import Body, Said
from hedgerow.lab.endpoint import Asked, Endpoint, decode
from hedgerow.lab.protocols.openai_base import OPENAI_ERRORS, encode

CATEGORIES = (
    *("harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent"),
    *("self-harm", "self-harm/intent", "self-harm/instructions", "sexual", "sexual/minors"),
    *("violence", "violence/graphic"),
)


class _Moderations(msgspec.Struct):
    """What the lab reads of a request."""

    input: msgspec.Raw
    model: str = "omni-moderation-latest"


_decoder = msgspec.json.Decoder(_Moderations)
_input_decoder = msgspec.json.Decoder(str | list[str | dict[str, msgspec.Raw]])


def _texts(given: bytes) -> int:
    """How many results are due: one for each string; one in all for a text or for parts of one message."""
    found = decode(_input_decoder, given)
    return len(found) if isinstance(found, list) and all(isinstance(one, str) for one in found) else 1


class OpenAIModerations(Endpoint):
    """Moderations, which cost nothing."""

    prefix = "modr"
    errors = OPENAI_ERRORS

    def read(self, target: bytes, body: bytes) -> Asked:
        asked = decode(_decoder, body)
        prompt = bytes(asked.input)
        speak = partial(Verdicts, texts=_texts(prompt))
        return Asked(model=asked.model, prompt=prompt, speak=speak, generates=False, free=True)


class Verdicts(Body):
    """A verdict for each text."""

    __slots__ = ("_said", "_texts")

    def __init__(self, said: Said, *, texts: int) -> None:
        self._said = said
        self._texts = texts

    def whole(self) -> bytes:
        verdict = {
            "flagged": False,
            "categories": dict.fromkeys(CATEGORIES, False),
            "category_scores": dict.fromkeys(CATEGORIES, 0.0),
            "category_applied_input_types": {name: ["text"] for name in CATEGORIES},
        }
        return encode({"id": self._said.answer_id, "model": self._said.model, "results": [verdict] * self._texts})
