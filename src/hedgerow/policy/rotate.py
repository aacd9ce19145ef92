"""Rotation: every target is first as often as its weight says, and their turns are spread as evenly as can be.

Smooth weighted round robin, as nginx does it: with every request each target earns its weight, the
richest is first, and pays what all have earned. So a target that is left out as unwell, which neither earns nor pays,
loses its turns to the others by their weights, and has no turns to make up for when it is back.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Candidate
from hedgerow.policy.where import Where


class Turns:
    """Whose turn it is, by names of any kind."""

    __slots__ = ("_earned",)

    def __init__(self) -> None:
        self._earned: dict[str, float] = {}

    def wealth(self, name: str) -> float:
        """What this one has earned and not paid; below nought after its turn."""
        return self._earned.get(name, 0.0)

    def took(self, first: str, all_of: Sequence[tuple[str, float]]) -> None:
        """It was the turn of `first`, out of all these (name, weight)."""
        earned = self._earned
        for name, weight in all_of:
            earned[name] = earned.get(name, 0.0) + weight
        earned[first] = earned.get(first, 0.0) - sum(weight for _, weight in all_of)


class Rotation(Where):
    """Who waits longest for a turn is first. A target that is listed twice has twice its weight."""

    name = "rotate"

    __slots__ = ("_turns",)

    def __init__(self) -> None:
        self._turns = Turns()

    def order(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> Sequence[int]:
        """The richest first, with what this request would earn each of them."""
        due = [-self._turns.wealth(each.target) - self._weight(each.target, candidates) for each in candidates]
        return sorted(range(len(candidates)), key=due.__getitem__)

    def led(self, usable: Sequence[Candidate]) -> None:
        """All of them earn, and the first pays."""
        self._turns.took(usable[0].target, [(each.target, each.weight) for each in usable])

    def _weight(self, target: str, candidates: Sequence[Candidate]) -> float:
        return sum(each.weight for each in candidates if each.target == target)
