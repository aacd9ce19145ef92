"""Which targets can do what a request needs: the others are not asked, neither first nor after a failure.

What a target lacks is certain. How much context a request takes is estimated, and an estimate must refuse nobody: with
no target that should have room for it, it goes to the roomiest, who knows, and says so in its own words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Candidate


class Capabilities:
    """Of the candidates of one route."""

    __slots__ = ("_candidates",)

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = candidates

    def able(self, ask: Ask, indices: Iterable[int]) -> Sequence[int]:
        """Those of `indices` that can answer this request, in their order; all, where nobody can."""
        rooms = {index: self._room(index) for index in indices if not ask.needs & self._candidates[index].lacks}
        if not rooms:
            return list(indices)
        least = min(ask.context, max(rooms.values()))
        return [index for index, room in rooms.items() if room >= least]

    def _room(self, index: int) -> float:
        room = self._candidates[index].max_context
        return inf if room is None else room


def capabilities_of(candidates: Sequence[Candidate]) -> Capabilities | None:
    """None where everybody can everything."""
    limited = any(candidate.lacks or candidate.max_context is not None for candidate in candidates)
    return Capabilities(candidates) if limited else None


def nobody_can(candidates: Sequence[Candidate], needs: frozenset[str]) -> str | None:
    """Why none of these can do all of that; None where one can."""
    lacking = {candidate.target: sorted(needs & candidate.lacks) for candidate in candidates}
    if not all(lacking.values()):
        return None
    return "; ".join(f"{target} has no {' and no '.join(lacks)}" for target, lacks in lacking.items())
