"""A plan that `auto` has made, with what it was made of: to see whether it must be made anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hedgerow.policy.auto import Kind
from hedgerow.policy.latency.cells import Seen

Inputs = tuple[Sequence[Kind], float, float]
"""What is known of each kind, and of how much attempts go together: the likeliest and the least."""


class KeptPlan(NamedTuple):
    """What it was made of, for how many kinds of request, after so many samples of primary and backup."""

    inputs: Inputs
    of: int
    seen: tuple[Seen, Seen]
    start: float

    def holds(self, kinds: int, seen: tuple[Seen, Seen]) -> bool:
        """Whether it need not be made anew."""
        known = bool(self.inputs[0]) and self.of == kinds
        return known and not any(then.is_stale(now, then.held) for then, now in zip(self.seen, seen, strict=True))

    def is_of(self, kinds: int, inputs: Inputs) -> bool:
        """Whether it would be the same."""
        before, after = self.inputs[0], inputs[0]
        if self.of != kinds or self.inputs[1:] != inputs[1:] or len(before) != len(after):
            return False
        return all(
            (a.sizes, a.primary, a.backup) == (b.sizes, b.primary, b.backup) for a, b in zip(before, after, strict=True)
        )
