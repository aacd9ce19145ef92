"""Which of a target's several keys a request goes out with: each in turn, of those that have room for it.

A target with several keys is as many candidates in a row, one for each account. So what a rate limit, a refusal or a
report of what is left says holds for one key, and all else, how fast the target is and whether it is well, for all.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.policy.ask import Ask
from hedgerow.policy.guards import place
from hedgerow.policy.health import Health
from hedgerow.policy.plan import Candidate
from hedgerow.policy.quota import Quota


class Keys:
    """Of the listed targets of one route. The requests of a session keep their key as long as it has room."""

    __slots__ = ("_candidates", "_health", "_places", "_quota", "_turn")

    def __init__(self, candidates: Sequence[Candidate], health: Health, quota: Quota) -> None:
        self._candidates, self._health, self._quota = candidates, health, quota
        self._places = _listed(candidates)
        self._turn = -1

    def choose(self, ask: Ask, now: float) -> Sequence[int]:
        """One candidate for each listed target. One that is listed twice gets another key the second time."""
        self._turn += 1
        start = place(ask.session, b"key") if ask.session else self._turn
        chosen: list[int] = []
        for listed in self._places:
            others = sum(self._candidates[index].target == self._candidates[listed[0]].target for index in chosen)
            chosen.append(self._one_of(listed, start + others, ask, now) if len(listed) > 1 else listed[0])
        return chosen

    def others(self, chosen: Sequence[int], now: float) -> tuple[list[int], list[int]]:
        """The keys that were not chosen, for after a failure: those that are not left out, and those that are."""
        rest = [index for listed in self._places for index in listed if index not in chosen]
        well = [index for index in rest if self._health.out_until(self._candidates[index], now) is None]
        return well, [index for index in rest if index not in well]

    def _one_of(self, listed: Sequence[int], turn: int, ask: Ask, now: float) -> int:
        preferred, candidates = listed[turn % len(listed)], self._candidates
        well = [index for index in listed if self._health.out_until(candidates[index], now) is None]
        free = [index for index in well if self._quota.fits(candidates[index], ask, now)] or well or listed
        return preferred if preferred in free else free[turn % len(free)]


def _listed(candidates: Sequence[Candidate]) -> Sequence[Sequence[int]]:
    """The candidates of each listed target: those in a row that differ in nothing but their account."""
    places: list[list[int]] = []
    for index, candidate in enumerate(candidates):
        same = places and candidates[places[-1][0]].target == candidate.target
        if same and candidate.account not in [candidates[each].account for each in places[-1]]:
            places[-1].append(index)
        else:
            places.append([index])
    return places


def keys_of(candidates: Sequence[Candidate], health: Health, quota: Quota) -> Keys | None:
    """None where every target has one key."""
    return None if len(_listed(candidates)) == len(candidates) else Keys(candidates, health, quota)
