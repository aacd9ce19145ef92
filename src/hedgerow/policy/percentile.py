"""Delays that are a percentile of what is known: smoothed if asked for, and found out when they are of no use."""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

import msgspec

from hedgerow.policy.delay import Percentile, show
from hedgerow.policy.latency.distribution import Distribution

_BEGINS, _ENDS = 3.0, 1.0
"""How many standard errors above 1 - p the share of stragglers must be to make it begin, and to let it go on.

Without that, a small window would flicker: all that is slower than the delay has been broken off by hedges, so whether
1 - p of it or a little more was slow is a matter of chance.
"""


class Which(NamedTuple):
    """Requests of one kind, by their primary."""

    target: str
    stream: bool
    size: int


class DelayNotice(msgspec.Struct, frozen=True, gc=False):
    """A target's requests have begun to straggle, or no longer do, so that another rule decides when to hedge."""

    target: str
    stream: bool
    straggles: bool
    detail: str
    at: float


class Percentiles:
    """The percentiles of all kinds of request of one route."""

    __slots__ = ("_limit", "_smooth", "_spec", "_straggling", "_told", "_values")

    def __init__(self, spec: Percentile, limit: float) -> None:
        """`limit`: the longest delay that is allowed, in seconds."""
        self._spec, self._limit = spec, limit
        self._smooth: dict[Which, float] = {}
        self._values: dict[Which, float | None] = {}
        self._straggling: set[Which] = set()
        self._told: set[tuple[str, bool]] = set()

    def begin(self) -> None:
        """A refresh begins: from now on each kind is looked at anew, once."""
        self._values.clear()

    def delay(self, which: Which, law: Distribution) -> float | None:
        """Seconds; None when so many straggle that the percentile is of no use."""
        if which not in self._values:
            self._values[which] = self._delay(which, law)
        return self._values[which]

    def forget(self, which: Which) -> None:
        """Nothing is known of it any more."""
        self._smooth.pop(which, None)
        self._straggling.discard(which)

    def notices(self, now: float) -> list[DelayNotice]:
        """What has changed since the last time."""
        straggling = {(which.target, which.stream) for which in self._straggling}
        changed = sorted(straggling ^ self._told)
        self._told = straggling
        return [self._notice(target, stream, (target, stream) in straggling, now) for target, stream in changed]

    def _delay(self, which: Which, law: Distribution) -> float | None:
        p, last = self._spec.p, law.times[-1] if law.times else 0.0
        late = law.survival(min(last, self._limit)) - (1.0 - p)  # beyond the last time known nobody can tell
        if late > (_ENDS if which in self._straggling else _BEGINS) * sqrt(p * (1.0 - p) / law.n):
            self._straggling.add(which)
            self._smooth.pop(which, None)
            return None
        self._straggling.discard(which)
        value = min(law.quantile(p), last, self._limit)
        if self._spec.smoothing is not None:
            before = self._smooth.get(which, value)
            self._smooth[which] = value = before + self._spec.smoothing * (value - before)
        return value

    def _notice(self, target: str, stream: bool, straggles: bool, now: float) -> DelayNotice:
        rule, slow = show(self._spec), f"{100.0 * (1.0 - self._spec.p):.6g}% of its requests"
        past = f"take longer than max_delay, {self._limit:g}s" if self._limit < inf else "never answer"
        if straggles:
            detail = f"more than {slow} {past}: {rule} is of no use, the budget decides"
        else:
            detail = f"no longer more than {slow} {past}: {rule} decides again"
        return DelayNotice(target, stream, straggles, detail, now)
