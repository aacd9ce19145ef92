"""What a route says of its delays, and what it tells a request."""

from __future__ import annotations

from math import inf

import msgspec

from hedgerow.policy.delay import Spec
from hedgerow.policy.reissue import Aim

TARGET = 0.99
"""The quantile of the time to the first token that is to be made short, unless said otherwise."""


class Rules(msgspec.Struct, frozen=True, gc=False):
    """What a route says of its delays. Times are seconds. Raises `ValueError` for what cannot work.

    `min_delay`, `max_delay`: bounds of every delay but 0. `budget`: the most hedges per request that `auto` may plan
    with, in (0, 1]; None sets no bound. `target`: the quantile to be made short, and the share that should meet an
    objective. `warmup_delay`: the delay of a learning rule while too little is known of the primary.
    """

    spec: Spec
    min_delay: float = 0.0
    max_delay: float = inf
    budget: float | None = None
    target: float = TARGET
    warmup_delay: float = inf

    def __post_init__(self) -> None:
        _ = self.aim  # it says what cannot work
        if not self.warmup_delay >= 0.0:
            raise ValueError("warmup_delay must be 0 or more")

    @property
    def aim(self) -> Aim:
        """What is planned with."""
        return Aim(self.target, 1.0 if self.budget is None else self.budget, self.min_delay, self.max_delay)

    def clamp(self, delay: float) -> float:
        """The nearest delay that is allowed; no delay at all stays none, and so does never."""
        return min(max(delay, self.min_delay), self.max_delay) if 0.0 < delay < inf else delay


WARMUP = "warmup"
"""The source of delays that are given, as nothing is learned yet."""


class Choice(msgspec.Struct, frozen=True, gc=False):
    """After `delay` seconds without a first token hedge with `probability`; `inf` means never.

    `source`: the rule that chose. "off", "fixed", "warmup", "slo", "auto", a percentile as it is written, or "budget"
    where so many requests straggle that the percentile is of no use.
    """

    delay: float
    probability: float
    source: str
