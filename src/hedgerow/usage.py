"""What an attempt used."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

MOST_TOKENS: Final = (1 << 31) - 1
"""More are told of no attempt, whatever an upstream says: sums of many must still be numbers that others can hold."""


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

    def bounded(self) -> Usage:
        """The same within what is told of any attempt: no number below 0, none above `MOST_TOKENS`."""
        some = (self.input_tokens or 0) | (self.output_tokens or 0) | (self.cached_input_tokens or 0)
        more = (self.reasoning_tokens or 0) | (self.cache_write_tokens or 0) | (self.cache_write_1h_tokens or 0)
        if not (some | more) >> 31:  # no bit beyond, as one of a negative number is
            return self
        counts = {name: getattr(self, name) for name in _COUNTS}
        return msgspec.structs.replace(
            self, **{name: tokens and min(max(tokens, 0), MOST_TOKENS) for name, tokens in counts.items()}
        )


_COUNTS: Final = tuple(name for name in Usage.__struct_fields__ if name != "source")
