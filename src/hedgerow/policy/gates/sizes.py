"""Whether there is enough of an answer. Of the start of a stream these say nothing."""

from __future__ import annotations

from hedgerow.answer import Answer
from hedgerow.policy.gates.gate import Says, is_wordless
from hedgerow.policy.gates.settings import MinChars, MinTokens

CHARACTERS_PER_TOKEN = 4
"""Where tokens are not reported."""


def non_empty(answer: Answer, _request: bytes) -> str | None:
    """There is text that is not only space, a call of a tool, or something else to see or hear."""
    empty = answer.complete and not (answer.text.strip() or answer.tool_calls or answer.media)
    return "there is nothing in it" if empty else None


def min_chars(spec: MinChars) -> Says:
    """Its text has so many characters, not counting the space around it."""

    def says(answer: Answer, _request: bytes) -> str | None:
        found = len(answer.text.strip())
        if found >= spec.least or not answer.complete or is_wordless(answer):
            return None
        return f"{found} characters"

    return says


def min_tokens(spec: MinTokens) -> Says:
    """It has so many tokens: as reported, else of its text."""

    def says(answer: Answer, _request: bytes) -> str | None:
        if not answer.complete or (answer.output_tokens is None and is_wordless(answer)):
            return None
        found = answer.output_tokens
        if found is None:
            found = len(answer.text) // CHARACTERS_PER_TOKEN
        return None if found >= spec.least else f"{found} tokens"

    return says
