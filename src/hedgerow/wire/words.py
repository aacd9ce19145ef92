"""What an upstream says of its answer in words of its own: why it ended, and in which tier it was served."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from hedgerow.events import Headers

_TIER = b"x-gemini-service-tier"


class Words(msgspec.Struct, frozen=True, gc=False):
    """As the upstream spells them; None where it does not say, or not in words.

    `finish_reason`: `finish_reason`, `stop_reason`, `finishReason` or a prompt's `blockReason`; or how a response
    stands at its end, why it is incomplete where it is. Of several choices it is that of the last one.
    """

    finish_reason: str | None = None
    service_tier: str | None = None


NO_WORDS = Words()


def words(finish_reason: Any, service_tier: Any = None) -> Words:
    """Of values that may have any type, since servers differ."""
    return Words(
        finish_reason if finish_reason and isinstance(finish_reason, str) else None,
        service_tier if service_tier and isinstance(service_tier, str) else None,
    )


def tier_at_end(text: bytes) -> str | None:
    """The tier that is named last in this JSON, or these events, found without decoding them."""
    at = text.rfind(b'"service_tier"')
    found = None if at < 0 else _NAMED.match(text, at)
    return None if found is None else found[1].decode("utf-8", "replace")


_NAMED = re.compile(rb'"service_tier"\s*:\s*"([^"]+)"')


def tier_in(headers: Headers) -> str | None:
    """The tier that Gemini tells in a header field of its answer."""
    return next((value.decode("latin-1") for name, value in headers if name == _TIER), None)
