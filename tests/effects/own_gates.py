"""A gate of one's own, as a user would write it."""

from __future__ import annotations

import asyncio

from hedgerow.answer import Answer


async def polite(answer: Answer) -> str | None:
    """Says so after half a second."""
    await asyncio.sleep(0.5)
    return None if "please" in answer.text else "no please in it"


async def asked_for(answer: Answer, request: bytes) -> bool:
    """Whether what the client names is in the answer."""
    return b'"user":"please"' not in request or "please" in answer.text
