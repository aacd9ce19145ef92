"""Whom a request is for, as its body names it: the providers' own hints of whose prompts are alike."""

from __future__ import annotations

from typing import Any

import msgspec


class _Named(msgspec.Struct):
    prompt_cache_key: Any = None
    user: Any = None
    safety_identifier: Any = None
    metadata: Any = None


_decode = msgspec.json.Decoder(_Named).decode


def user_of(body: bytes) -> bytes:
    """The first that is there of OpenAI's `prompt_cache_key`, `user` and `safety_identifier`, and Anthropic's
    `metadata.user_id`; b"" where none is, or the body is no JSON object.
    """
    try:
        named = _decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return b""
    user_id = named.metadata.get("user_id") if isinstance(named.metadata, dict) else None
    for each in (named.prompt_cache_key, named.user, named.safety_identifier, user_id):
        if isinstance(each, str) and each:
            return each.encode("utf-8", "surrogatepass")
    return b""
