"""Whether a regular expression is found in an answer's text, within a limit of time.

Python's own `re` cannot be stopped: one expression with nested repetition can hold the whole process for ever. `regex`
has the same syntax and a limit.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from hedgerow.answer import Answer
from hedgerow.policy.gates.gate import Says, is_wordless

SECONDS = 0.05
"""Of processor time that one search may take; then the gate has not judged."""


def compiled(pattern: str) -> Any:
    """The expression. Raises `ImportError` without the extra `gates`, `ValueError` with what is wrong with it."""
    regex = import_module("regex")
    try:
        return regex.compile(pattern)
    except regex.error as error:
        raise ValueError(f"is no regular expression: {error}") from None


def matches(pattern: str) -> Says:
    """It is found in the text."""
    search = compiled(pattern).search

    def says(answer: Answer, _request: bytes) -> str | None:
        if not answer.complete or is_wordless(answer) or search(answer.text, timeout=SECONDS):
            return None
        return "the expression is not found in it"

    return says


def not_matches(pattern: str) -> Says:
    """It is not found in the text."""
    search = compiled(pattern).search

    def says(answer: Answer, _request: bytes) -> str | None:
        return "the expression is found in it" if search(answer.text, timeout=SECONDS) else None

    return says
