"""The tokens of an answer in process, where it says so."""

from __future__ import annotations

from typing import Any

from hedgerow.usage import Usage

_INPUT = ("prompt_tokens", "input_tokens")
_OUTPUT = ("completion_tokens", "output_tokens")
_CACHES = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Anthropic counts these apart from the input; for `Usage` they are among it."""


def usage_of(answer: Any) -> Usage | None:
    """What an answer of the SDKs of OpenAI or Anthropic, or one of that shape, says of its tokens; else None."""
    said = answer.get("usage") if isinstance(answer, dict) else getattr(answer, "usage", None)
    if said is None:
        return None
    read, made = _first(said, _INPUT), _first(said, _OUTPUT)
    if read is None and made is None:
        return None
    cached, written = (_number(said, name) for name in _CACHES)
    if read is not None:
        read += (cached or 0) + (written or 0)
    if cached is None:
        details = _get(said, "prompt_tokens_details") or _get(said, "input_tokens_details")
        cached = _number(details, "cached_tokens")
    return Usage(read, made, cached, cache_write_tokens=written)


def _first(said: Any, names: tuple[str, ...]) -> int | None:
    return next((number for name in names if (number := _number(said, name)) is not None), None)


def _number(said: Any, name: str) -> int | None:
    value = _get(said, name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _get(said: Any, name: str) -> Any:
    return said.get(name) if isinstance(said, dict) else getattr(said, name, None)
