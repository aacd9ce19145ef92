"""What an attempt used."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class UsageSource(StrEnum):
    """How an attempt's tokens are known."""

    REPORTED = "reported"
    """The upstream said so when its answer was complete."""
    PARTIAL = "partial"
    """The attempt ended early: what it had reported or sent until then, so at least this much."""
    ESTIMATED = "estimated"
    """The attempt reported nothing: guessed from the sizes of the request and of what came."""


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens of one attempt; None where they are not known.

    `input_tokens` are all of the prompt, those read from a cache or written to one included; `output_tokens` include
    reasoning. `cache_write_1h_tokens` are those of `cache_write_tokens` that are kept for an hour and cost more:
    Anthropic's.
    """

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    reasoning_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_1h_tokens: int | None = None
    source: UsageSource = UsageSource.REPORTED
