"""What an attempt comes to, in money, and how sure that is. Money is whole nano-dollars (1e-9 USD), never a float."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Protocol, TypeVar

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


class Tried(Protocol):
    """An attempt, as far as it matters here; without an outcome it still runs."""

    @property
    def role(self) -> Role: ...
    @property
    def outcome(self) -> Outcome | None: ...


_T = TypeVar("_T", bound=Tried)
_HEDGES = (Role.HEDGE, Role.RACER)
_LOST = (Outcome.SUPERSEDED, Outcome.KEPT)
_COMMITTED = (Outcome.WON, Outcome.FAILED_AFTER_COMMIT)


def added_by_hedging(attempts: Sequence[_T]) -> Sequence[_T]:
    """Which attempts of a request, in the order of their launch, are what hedging has cost on top of its answer.

    Hedges and racers that gave no answer, and other attempts that lost to one that did. What failed by itself, what was
    asked for that, and what a client left would have been there without hedging.
    """
    if len(attempts) < 2 or all(each.role not in _HEDGES for each in attempts):
        return ()
    left = [each for each in attempts if each.outcome is Outcome.CLIENT_GONE]
    left.sort(key=lambda each: each.role in _HEDGES)  # what the client waited for, or would have without hedging
    return [
        each
        for each in attempts
        if each.outcome is not None
        and (each.outcome in _LOST or (each.role in _HEDGES and each.outcome not in _COMMITTED))
        and not (left and each is left[0])
    ]
