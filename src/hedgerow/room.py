"""What an upstream says is left of its rate limits; `wire` reads it, `policy` decides by it."""

from __future__ import annotations

import msgspec


class Room(msgspec.Struct, frozen=True, gc=False):
    """What an upstream says is left of one of its limits.

    `limit` and `resets_in`, the seconds until all of the limit is there again, are None where it does not say.
    """

    remaining: int
    limit: int | None = None
    resets_in: float | None = None


class RateLimits(msgspec.Struct, frozen=True, gc=False):
    """The room that an answer reports, for requests and for tokens; None where it says nothing.

    `tokens` are those of prompt and answer together; an upstream may count the two apart as well, or instead.
    """

    requests: Room | None = None
    tokens: Room | None = None
    input_tokens: Room | None = None
    output_tokens: Room | None = None
