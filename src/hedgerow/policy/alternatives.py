"""Which of several answers to one request say the same, and what may be spent on hearing those that lost the race."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from math import inf
from typing import Any

import msgspec

from hedgerow.answer import Answer
from hedgerow.events import Role, Usage
from hedgerow.policy.price import show_dollars
from hedgerow.unshown import Unshown

MOST = 20
"""Sayings that are kept for one request; with more the oldest go."""

NO_DOCUMENT = msgspec.Raw(b"null")


class KeepSettings(msgspec.Struct, frozen=True, gc=False):
    """How far a loser may run on after the win: `time` in seconds, money and tokens of the whole attempt.

    What is kept is kept for `ttl` seconds. `by_content`: later requests of the same content see it, too. `drains`:
    nothing is kept, they are only read to their ends.
    """

    time: float = 30.0
    nanousd: int | None = None
    tokens: int | None = None
    ttl: float = 600.0
    by_content: bool = False
    drains: bool = False

    def allows(self, nanousd: int, tokens: int) -> bool:
        """Whether an attempt that has come to so much may go on."""
        return nanousd <= (inf if self.nanousd is None else self.nanousd) and tokens <= (self.tokens or inf)


class Saying(Unshown, msgspec.Struct, frozen=True, gc=False):
    """One attempt's whole answer. Times are seconds from its launch; `at` is when it was whole.

    `document` is the body where that is JSON, of a stream what it amounts to; else `NO_DOCUMENT`.
    """

    request_id: str
    attempt: int
    target: str
    role: Role
    won: bool
    first_token: float | None
    took: float
    at: float
    answer: Answer
    document: msgspec.Raw = NO_DOCUMENT
    usage: Usage | None = None
    nanousd: int | None = None

    def view(self) -> dict[str, Any]:
        """Who said it, for people and programs."""
        usage = self.usage
        return {
            "request_id": self.request_id,
            "attempt": self.attempt,
            "target": self.target,
            "role": self.role,
            "won": self.won,
            "first_token_ms": None if self.first_token is None else round(self.first_token * 1e3, 3),
            "took_ms": round(self.took * 1e3, 3),
            "input_tokens": None if usage is None else usage.input_tokens,
            "output_tokens": None if usage is None else usage.output_tokens,
            "cost_usd": None if self.nanousd is None else show_dollars(self.nanousd)[1:],
        }


class Alternative:
    """What one or more attempts said alike, in the order in which they came."""

    __slots__ = ("number", "sayings")

    def __init__(self, number: int) -> None:
        self.number = number
        self.sayings: list[Saying] = []

    def view(self) -> dict[str, Any]:
        """For people and programs. The text is that of whoever said it first."""
        first = self.sayings[0]
        return {
            "number": self.number,
            "text": first.answer.text,
            "finish": first.answer.finish,
            "answer": first.document,
            "won": any(saying.won for saying in self.sayings),
            "agreement": len(self.sayings),
            "said_by": [saying.view() for saying in self.sayings],
        }


class Alternatives:
    """The answers to one request, those that mean the same put together."""

    __slots__ = ("_by_meaning", "_next")

    def __init__(self) -> None:
        self._by_meaning: dict[object, Alternative] = {}
        self._next = 1

    def __iter__(self) -> Iterator[Alternative]:
        return iter(self._by_meaning.values())

    def __len__(self) -> int:
        """Different answers."""
        return len(self._by_meaning)

    @property
    def disagreement(self) -> bool:
        """Whether there are answers of different meaning."""
        return len(self._by_meaning) > 1

    def add(self, saying: Saying) -> Alternative:
        """One more answer; returns what it is now among."""
        meaning = meaning_of(saying.answer, saying.document)
        found = self._by_meaning.get(meaning)
        if found is None:
            found = self._by_meaning[meaning] = Alternative(self._next)
            self._next += 1
        found.sayings.append(saying)
        return found

    def sayings(self) -> list[Saying]:
        """All that was said, the oldest first."""
        return sorted((saying for each in self for saying in each.sayings), key=lambda saying: saying.at)


def meaning_of(answer: Answer, document: bytes = NO_DOCUMENT) -> object:
    """Equal for answers that say and want the same.

    JSON is compared by value, any other text without regard to case, kinds of blanks or of Unicode composition (NFKC).
    Of one that calls tools, or has more to it than text, all of its document counts but what differs between any two.
    """
    more: object = None
    if answer.tool_calls or answer.media:
        more = _all_of(document)
    return (_text(answer.text), answer.refusal is None, more, tuple(map(meaning_of, answer.others)))


_ANY_TWO = frozenset(
    {
        "id",
        "call_id",
        "created",
        "created_at",
        "model",
        "usage",
        "usageMetadata",
        "system_fingerprint",
        "service_tier",
        "responseId",
        "modelVersion",
        "logprobs",
        "provider",
        "metadata",
    }
)
"""Members of answers that say nothing of what is answered."""
_OWN = ("input", "args")
"""Members in which a tool's own arguments are."""


def _all_of(document: bytes) -> object:
    try:
        value = _essence(msgspec.json.decode(document))
    except (msgspec.DecodeError, RecursionError):
        value = None
    # Of what is not known it is not known whether it is the same.
    return object() if value is None else msgspec.json.encode(value, order="sorted")


def _essence(value: object) -> object:
    match value:
        case dict():
            return {
                name: inner if name in _OWN else _essence(inner)
                for name, inner in value.items()
                if name not in _ANY_TWO
            }
        case list():
            return [_essence(inner) for inner in value]
        case str() if value[:1] in ("{", "["):  # arguments, as OpenAI writes them
            return _json(value) or value
    return value


def _text(text: str) -> object:
    stripped = text.strip()
    return _json(stripped) or " ".join(unicodedata.normalize("NFKC", stripped).casefold().split())


def _json(text: str) -> str | None:
    """JSON as it is written in one way only; None where it is none, or no object or list."""
    if text[:1] not in ("{", "["):
        return None
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    return msgspec.json.encode(value, order="sorted").decode()
