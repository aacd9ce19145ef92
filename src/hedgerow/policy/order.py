"""How a route says in which order its targets are asked, as plain data that can be sent to a serving process.

A route that says nothing asks them as they are listed.
"""

from __future__ import annotations

import msgspec


class Rotate(msgspec.Struct, frozen=True, gc=False, tag="rotate"):
    """Each in turn, as often as its weight says."""


class Fastest(msgspec.Struct, frozen=True, gc=False, tag="fastest"):
    """By what each has lately taken to its first token. Raises `ValueError` for what cannot work.

    `quantile` of the time, in (0, 1). Who is ahead stays there until another takes less than its time by the share
    `margin`. `explore`: the share of requests that another than the first is measured by. `within`: of those that take
    at most this share longer than the fastest the cheapest is first; None where money does not matter.
    """

    quantile: float = 0.5
    margin: float = 0.1
    explore: float = 0.05
    within: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.quantile < 1.0:
            raise ValueError("quantile must be above 0 and below 1")
        if not 0.0 <= self.margin < 1.0 or not 0.0 <= self.explore <= 1.0:
            raise ValueError("margin must be at least 0 and below 1, explore from 0 to 1")
        if self.within is not None and not self.within >= 0.0:
            raise ValueError("within must be 0 or more")


OrderRule = Rotate | Fastest


class Sticky(msgspec.Struct, frozen=True, gc=False):
    """Sessions stay at a target for `ttl` seconds after their last answer from it, at most so many of them at a time.

    Raises `ValueError` for what cannot work.
    """

    ttl: float = 600.0
    most: int = 10_000

    def __post_init__(self) -> None:
        if not self.ttl > 0.0 or self.most < 1:
            raise ValueError("ttl must be above 0, most at least 1")
