"""How a gateway keeps its ledger."""

from __future__ import annotations

import msgspec

from hedgerow.unshown import Unshown


class LedgerSettings(Unshown, msgspec.Struct, frozen=True, kw_only=True):
    """Where it is, how often it is written, and for how long. Times are seconds, None for ever; `queue` is bytes.

    `content`: prompts and answers are kept, of each so many bytes; None keeps none.
    """

    url: str
    """It may have a password in it."""
    flush: float
    keep: float | None
    keep_hourly: float | None
    queue: int
    content: int | None = None
