"""What an attempt comes to, in money, and how sure that is. Money is whole nano-dollars (1e-9 USD), never a float."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from hedgerow.usage import Usage
from hedgerow.vocabulary import Outcome, Role

MOST_NANOUSD: Final = (1 << 53) - 1
"""No attempt is said to cost more ($9,007,199), whatever prices and tokens are: sums of many must still be numbers that
others can hold."""


class Certainty(StrEnum):
    """How sure a cost is."""

    EXACT = "exact"
    """From the usage that the upstream reported of a whole answer, or nothing was billed."""
    ESTIMATED = "estimated"
    """From counts of our own: the invoice may say less or more, between `least` and `most`."""
    AT_LEAST = "at_least"
    """The upstream reported or sent this much; it may have gone on."""


class Bill(msgspec.Struct, frozen=True, gc=False):
    """What one attempt comes to.

    `nanousd` is the best guess, None where the target has no price; the invoice says no less than `least` and no more
    than `most` (None: no bound is known). `usage` is what it was worked out from, with the tokens that are not known
    filled in by estimates.
    """

    attempt: int
    target: str
    role: Role
    outcome: Outcome
    usage: Usage
    certainty: Certainty
    nanousd: int | None = None
    least: int | None = None
    most: int | None = None

    def __post_init__(self) -> None:
        if (self.nanousd or 0) >> 53 or (self.least or 0) >> 53 or (self.most or 0) >> 53:
            for name in ("nanousd", "least", "most"):
                if (amount := getattr(self, name)) is not None:
                    msgspec.structs.force_setattr(self, name, min(max(amount, 0), MOST_NANOUSD))
