"""GET /v1/models in the shape of each family."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.lab.protocols.openai_base import encode
from hedgerow.lab.text import CREATED

CREATED_AT = "2025-11-30T10:53:20Z"
"""CREATED in RFC 3339."""


def openai_models(names: Sequence[str], owner: str) -> bytes:
    """As OpenAI lists them."""
    data = [{"id": name, "object": "model", "created": CREATED, "owned_by": owner} for name in names]
    return encode({"object": "list", "data": data})


def anthropic_models(names: Sequence[str]) -> bytes:
    """As Anthropic lists them, all on one page."""
    kind = {"type": "model", "created_at": CREATED_AT, "lifecycle": "active"}
    data = [{**kind, "id": name, "display_name": name} for name in names]
    ends = {"first_id": names[0], "last_id": names[-1]} if names else {"first_id": None, "last_id": None}
    return encode({"data": data, "has_more": False, **ends})


def gemini_models(names: Sequence[str]) -> bytes:
    """As Google lists them."""
    methods = {"supportedGenerationMethods": ["generateContent"]}
    return encode({"models": [{"name": f"models/{name}", "displayName": name, **methods} for name in names]})
