"""OpenRouter's accounts: what a generation came to, by the id that its answer's head had.

https://openrouter.ai/docs/api/api-reference/generations/get-generation; an entry is there some seconds after the end.
"""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from hedgerow.probe.witness import HALF, Cancelled, Get, Said, Ticks, Witness

PATIENCE = 30.0
"""Seconds until an entry that is not there will not come."""
_STEP = 1.0


class _Generation(msgspec.Struct):
    native_tokens_completion: int | None = None
    tokens_completion: int | None = None
    finish_reason: str | None = None
    total_cost: float | None = None
    provider_name: str | None = None


class _Answer(msgspec.Struct):
    data: _Generation


class OpenRouterWitness(Witness):
    """`GET /api/v1/generation?id=`."""

    name = "OpenRouter's /generation"

    def __init__(self, get: Get, *, patience: float = PATIENCE, step: float = _STEP) -> None:
        self._get = get
        self._patience = patience
        self._step = step

    async def before(self) -> str | None:
        """Others do not matter: entries are by request."""
        return None

    async def after(self, cancelled: Cancelled) -> Said:
        """What it charges for."""
        headers = dict(cancelled.heard.headers)
        name = headers.get(b"x-generation-id", b"").decode("latin-1")
        if not name:
            return Said(None, "it tells a generation's id in the head of its answer, which had not come")
        async for now in Ticks(self._step, cancelled.at + self._patience):
            body = await self._get(f"/generation?id={quote(name, safe='')}")
            found = None if body is None else _read(body)
            tokens = None if found is None else _tokens(found)
            if found is None or tokens is None:
                continue
            stopped = tokens - cancelled.tokens < HALF * cancelled.rest()
            cost = "" if found.total_cost is None else f", ${found.total_cost:.6f}"
            by = f" by {found.provider_name}" if found.provider_name else ""
            return Said(stopped, f"{tokens} tokens charged{cost}{by}", now, max(0, tokens - cancelled.tokens))
        return Said(None, f"it had no entry after {self._patience:g} s")


def _read(body: bytes) -> _Generation | None:
    try:
        return msgspec.json.decode(body, type=_Answer).data
    except msgspec.DecodeError:
        return None


def _tokens(found: _Generation) -> int | None:
    return found.tokens_completion if found.native_tokens_completion is None else found.native_tokens_completion
