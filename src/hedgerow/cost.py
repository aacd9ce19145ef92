"""What an attempt comes to, in money, and how sure that is. Money is whole nano-dollars (1e-9 USD), never a float."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from hedgerow.usage import Usage
from hedgerow.vocabulary import Outcome, Role


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
