"""What becomes of attempts that lose the race."""

from __future__ import annotations

from typing import Annotated, Literal

from hedgerow.config.amounts import dollars
from hedgerow.config.base import DAY, Model
from hedgerow.config.fields import duration, one_of, whole


class Keep(Model):
    """How far losers run on with `losers: keep` or `drain`, and how long what they say is kept."""

    max_time: Annotated[float, duration(0.001, DAY)] = 30.0
    """How long after the win a loser may take to be whole."""
    max_usd: Annotated[int | None, dollars(off=True)] = None
    """Most dollars that a loser may come to, its prompt included; needs the `price` of the targets. A stream is \
broken off when it gets there; a whole answer is not kept if its limit of tokens (500 without one) would."""
    max_tokens: Annotated[int | None, whole(1, 1_000_000_000, off=True)] = None
    """Most tokens of prompt and answer that a loser may come to, in the same way."""
    ttl: Annotated[float, duration(1.0, DAY)] = 600.0
    """How long what was said is kept."""
    scope: Annotated[Literal["request", "content"], one_of("request", "content")] = "request"
    """`content`: a later request that asks the same, with the same key, sees it too."""
