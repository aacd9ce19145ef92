"""Who may be first and who may be next: targets for one role only, regions, and cancels that fail."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.policy.plan import Candidate


class Roles:
    """Of the candidates of one route.

    The first that may is the primary; with nobody who may, the first of all. Those in its own region come last of those
    that may get hedges: what makes the primary slow or fails it is often its region's.
    """

    __slots__ = ("_candidates",)

    def __init__(self, candidates: Sequence[Candidate]) -> None:
        self._candidates = candidates

    def arrange(self, indices: Sequence[int], *, stream: bool = True) -> tuple[list[int], list[int]]:
        """The primary and those who may get its hedges, and those who may only follow on failures.

        Last of the former are those that would be refused a hedge, since what is cancelled there goes on.
        """
        candidates = self._candidates
        if not indices:
            return [], []
        primary = next((index for index in indices if candidates[index].leads), indices[0])
        others = [index for index in indices if index != primary]
        backups = [index for index in others if candidates[index].backs]
        if region := candidates[primary].region:
            backups.sort(key=lambda index: candidates[index].region == region)
        backups.sort(key=lambda index: (known := candidates[index].runs_on) is not None and known.bars(stream=stream))
        return [primary, *backups], [index for index in others if not candidates[index].backs]


def roles_of(candidates: Sequence[Candidate]) -> Roles | None:
    """None where everybody may be anything, and nobody is anywhere in particular."""
    regions = {candidate.region for candidate in candidates}
    all_alike = len(regions) < 2 and all(
        candidate.leads and candidate.backs and candidate.runs_on is None for candidate in candidates
    )
    return None if all_alike else Roles(candidates)
