"""Whether older samples look like the latest ones: then they may be counted together.

At some quantiles of the latest samples the shares that take longer are compared, each estimated as Kaplan and Meier do
(see `Distribution`), as if both were proportions of the samples of which it is known (two proportions, pooled: Fleiss,
Levin and Paik, Statistical Methods for Rates and Proportions (2003), section 3.3).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Sequence
from itertools import accumulate, compress
from math import sqrt

Sorted = tuple[Sequence[int], Sequence[int]]
"""Samples as numbers (see `window.code_of`), in ascending order: values, and "at least"s."""

QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.98)
"""Where they are compared."""
TOLERANCE = 3.0
"""Standard deviations by which shares may differ."""

_Share = tuple[float, int]
"""The share of samples that take longer, and of how many that is known; of none: it is not known."""


class Alike:
    """The latest samples, at least one."""

    __slots__ = ("_cuts", "_shares")

    def __init__(self, counts: Sequence[int]) -> None:
        """`counts`: by number, how many there are."""
        codes = list(compress(range(len(counts)), counts))
        shorter = list(accumulate([counts[code] for code in codes], initial=0))
        places = (bisect_right(shorter, p * shorter[-1]) - 1 for p in QUANTILES)
        self._cuts = sorted({codes[min(place, len(codes) - 1)] | 1 for place in places})
        self._shares = _longer(codes, shorter, self._cuts)

    def to(self, older: Sequence[Sorted]) -> bool:
        """Whether these parts, taken together, are like the latest ones."""
        return all(map(_near, self._shares, _longer_of(older, self._cuts)))


def _longer(codes: Sequence[int], shorter: Sequence[int], cuts: Sequence[int]) -> list[_Share]:
    """At each cut, of samples with these numbers; `shorter` says how many come before each of them, and in all."""
    found: list[_Share] = []
    count = known = at_risk = shorter[-1]  # at risk after the last "at least": from there on shares are a plain ratio
    share, at_least = 1.0, deque(place for place, code in enumerate(codes) if code & 1)
    for cut in cuts:
        end = bisect_right(codes, cut)
        while at_least and at_least[0] < end:
            place = at_least.popleft()
            share *= (count - shorter[place]) / at_risk
            at_risk = count - shorter[place + 1]
            known -= shorter[place + 1] - shorter[place]
        found.append(_share(share, count - shorter[end], at_risk, known))
    return found


def _longer_of(parts: Sequence[Sorted], cuts: Sequence[int]) -> list[_Share]:
    """At each cut, of all that is in these parts."""
    count, at_least, late = 0, list[int](), list[int]()
    for values, others in parts:
        count += len(values) + len(others)
        at_least += others
    at_least.sort()
    first = at_least[0] if at_least else cuts[-1] + 1  # a value in a tie comes before it, see `Distribution`
    if first <= cuts[-1]:
        for values, _ in parts:
            late += values[bisect_left(values, first) :]
        late.sort()
    found: list[_Share] = []
    share, at_risk, place = 1.0, count, 0  # after the last "at least": from there on shares are a plain ratio
    for cut in cuts:
        if cut < first:
            left = count - sum([bisect_right(values, cut) for values, _ in parts])
        else:
            while place < len(at_least) and (code := at_least[place]) <= cut:
                left = len(late) - bisect_left(late, code) + len(at_least) - place
                share *= left / at_risk
                passed = bisect_right(at_least, code, place)
                at_risk = left - (passed - place)
                place = passed
            left = len(late) - bisect_right(late, cut) + len(at_least) - place
        found.append(_share(share, left, at_risk, count - place))
    return found


def _share(share: float, left: int, at_risk: int, known: int) -> _Share:
    if left:
        return share * left / at_risk, known
    return (0.0, known) if at_risk else (share, 0)


def _near(a: _Share, b: _Share) -> bool:
    (longer, known), (other, others) = a, b
    if not known or not others:
        return True
    share = (longer * known + other * others) / (known + others)
    spread = sqrt(share * (1.0 - share) * (1.0 / known + 1.0 / others))
    return abs(longer - other) <= TOLERANCE * spread
