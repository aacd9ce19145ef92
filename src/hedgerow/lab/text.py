"""What a simulated provider says: the same words in every protocol, the provider's name first."""

from __future__ import annotations

from functools import lru_cache

CREATED = 1_764_500_000
"""A fixed Unix time: equal requests get equal bytes."""

_TEXT = (
    " A hedge is a row of shrubs planted close together; it marks a border, keeps the wind from the field and gives"
    " small birds a home. It costs little, grows slowly and is only missed when the storm comes."
)
_WORDS = [" " + word for word in _TEXT.split()]


def word(speaker: str, token: int) -> str:
    """The text of token `token` (from 0)."""
    return _WORDS[(token - 1) % len(_WORDS)] if token else speaker


def text(speaker: str, tokens: int) -> str:
    """An answer of so many tokens."""
    return speaker + _rest(tokens) if tokens else ""


@lru_cache(maxsize=64)
def _rest(tokens: int) -> str:
    """The words after the first of an answer of so many tokens."""
    return "".join(_WORDS[i % len(_WORDS)] for i in range(tokens - 1))
