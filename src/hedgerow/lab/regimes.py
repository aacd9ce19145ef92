"""Slow regimes: times in which a provider as a whole is slow, as a two-state Markov process in simulated time."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from random import Random

from hedgerow.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SlowSpec:
    """For a `share` of the time everything takes `factor` times as long, for `seconds` on average at a stretch."""

    factor: float
    share: float
    seconds: float

    @classmethod
    def parse(cls, text: str) -> SlowSpec:
        """Read "FACTOR:SHARE:SECONDS", e.g. "3:0.1:20". Raises ConfigError."""
        try:
            factor, share, seconds = map(float, text.split(":"))
        except ValueError:
            factor = share = seconds = -1.0
        if not (factor > 0 and 0 < share < 1 and 0 < seconds < float("inf")):
            wanted = "FACTOR:SHARE:SECONDS with a share between 0 and 1, e.g. 3:0.1:20"
            raise ConfigError([f"slow: expected {wanted}; got {text!r}"])
        return cls(factor, share, seconds)


class SlowRegimes:
    """Which regime holds when; a pure function of the seed handed in. Stretches are exponentially long."""

    __slots__ = ("_means", "_random", "_slow_first", "_spec", "_switches")

    def __init__(self, spec: SlowSpec, seed: int) -> None:
        self._spec = spec
        self._random = Random(seed)  # noqa: S311  (a simulation, not a secret)
        self._slow_first = self._random.random() < spec.share
        fast = spec.seconds * (1 - spec.share) / spec.share
        self._means = (spec.seconds, fast) if self._slow_first else (fast, spec.seconds)
        self._switches = [0.0]

    def factor_at(self, elapsed: float) -> float:
        """What times are multiplied by at `elapsed` simulated seconds."""
        switches = self._switches
        while switches[-1] <= elapsed:
            mean = self._means[(len(switches) - 1) % 2]
            switches.append(switches[-1] + self._random.expovariate(1 / mean))
        odd = bisect_right(switches, elapsed) % 2 == 0
        return self._spec.factor if odd != self._slow_first else 1.0
