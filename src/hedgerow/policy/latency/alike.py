"""Whether older samples look like the latest ones: then they may be counted together.

At some quantiles of the latest samples the shares that take longer are compared, each estimated as Kaplan and Meier do
(see `Distribution`), as if both were proportions of the samples of which it is known (two proportions, pooled: Fleiss,
Levin and Paik, Statistical Methods for Rates and Proportions (2003), section 3.3).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from itertools import accumulate
from math import sqrt

QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.98)
"""Where they are compared."""
TOLERANCE = 3.0
"""Standard deviations by which shares may differ."""


class Alike:
    """The latest samples. A sample is a number as of `window.code_of`: odd ones are "at least"s."""

    __slots__ = ("_cuts", "_shares")

    def __init__(self, latest: Counter[int]) -> None:
        codes = sorted(latest)
        reached = list(accumulate(latest[code] for code in codes))
        places = (bisect_right(reached, p * reached[-1]) for p in QUANTILES)
        self._cuts = sorted({codes[min(place, len(codes) - 1)] | 1 for place in places})
        self._shares = _longer(latest, self._cuts)

    def to(self, older: Counter[int]) -> bool:
        """Whether these are like the latest ones."""
        return all(_near(a, b) for a, b in zip(self._shares, _longer(older, self._cuts), strict=True))


def _longer(samples: Counter[int], cuts: Sequence[int]) -> list[tuple[float, int]]:
    """At each cut the share of samples that take longer, and of how many that is known; of none: it is not known."""
    found: list[tuple[float, int]] = []
    codes, left = sorted(samples), samples.total()
    known, share, place = left, 1.0, 0
    for cut in cuts:
        while place < len(codes) and codes[place] <= cut:
            count = samples[codes[place]]
            if codes[place] & 1:
                known -= count
            else:
                share *= 1.0 - count / left
            left -= count
            place += 1
        found.append((share, known if left or share == 0.0 else 0))
    return found


def _near(a: tuple[float, int], b: tuple[float, int]) -> bool:
    (longer, known), (other, others) = a, b
    if not known or not others:
        return True
    share = (longer * known + other * others) / (known + others)
    spread = sqrt(share * (1.0 - share) * (1.0 / known + 1.0 / others))
    return abs(longer - other) <= TOLERANCE * spread
