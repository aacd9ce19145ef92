"""POST /v1/translate: a word in another language, as services that are no LLM have it. They do not always agree."""

from __future__ import annotations

from functools import partial
from hashlib import sha256

import msgspec

from hedgerow.errors import RequestError
from hedgerow.lab.chunks import Body, Said
from hedgerow.lab.endpoint import Asked, Endpoint, decode
from hedgerow.lab.protocols.openai_base import OPENAI_ERRORS, encode

_ENGLISH = {
    "hæk": ("hedge", "hedgerow"),
    "hus": ("house", "home"),
    "vej": ("road", "way", "street"),
    "smuk": ("beautiful", "pretty"),
    "vind": ("wind",),
    "fugl": ("bird",),
}
"""Danish words."""


class _Translate(msgspec.Struct):
    """What the lab reads of a request."""

    text: str
    to: str = "en"
    model: str = "translate"


_decoder = msgspec.json.Decoder(_Translate)


def translation(text: str, to: str, speaker: str) -> str:
    """What this provider makes of it: a pure function of all three. An unknown word stays, with its language."""
    known = _ENGLISH.get(text.strip().lower(), ()) if to == "en" else ()
    if not known:
        return f"{text} ({to})"
    return known[sha256(f"{speaker} {text.strip().lower()}".encode()).digest()[0] % len(known)]


class Translate(Endpoint):
    """Translation of a word: `{"text": "hæk", "to": "en"}`."""

    prefix = "translate"
    errors = OPENAI_ERRORS

    def read(self, target: bytes, body: bytes) -> Asked:
        asked = decode(_decoder, body)
        if not asked.text.strip():
            raise RequestError(400, "A text is needed", param="text")
        return Asked(
            model=asked.model,
            prompt=encode([asked.text, asked.to]),
            speak=partial(Translation, text=asked.text, to=asked.to),
            generates=False,
        )


class Translation(Body):
    """One word."""

    __slots__ = ("_said", "_text", "_to")

    def __init__(self, said: Said, *, text: str, to: str) -> None:
        self._said = said
        self._text = text
        self._to = to

    def whole(self) -> bytes:
        return encode({"translation": translation(self._text, self._to, self._said.speaker)})
