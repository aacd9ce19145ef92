"""What a caller in process says of hedging, in the words of the configuration, and the policy that this comes to."""

from __future__ import annotations

from math import inf
from typing import Literal, TypedDict

import msgspec

from hedgerow.policy import settings
from hedgerow.policy.account import Limits
from hedgerow.policy.budget import FAILOVERS, HEDGES, Share
from hedgerow.policy.delay import parse_delay, show
from hedgerow.policy.gates.settings import GateSettings
from hedgerow.policy.latency.cells import Learning
from hedgerow.policy.outage import ThrottleSettings
from hedgerow.units import parse_duration

Seconds = float | str
"""A number of seconds, or a text such as "2s" or "300ms"."""


class _Unsaid(float):
    """A budget that nobody has asked for: it is no cap of a race."""


class Rules(TypedDict, total=False):
    """The rules of a `Policy`, as keyword arguments."""

    delay: Seconds
    budget: float | None
    deadline: Seconds | None
    first_token_timeout: Seconds | None
    stall_timeout: Seconds | None
    max_hedges: int
    min_delay: Seconds
    max_delay: Seconds
    warmup_delay: Seconds | None
    warmup_samples: int
    mode: Literal["hedge", "race", "chain", "shadow"]
    strict: bool
    gate_wait: Seconds
    losers: Literal["cancel", "keep"]
    keep_time: Seconds
    breaker: bool
    tokens_per_minute: int | None


class Policy(msgspec.Struct, frozen=True, kw_only=True):
    """When a call is hedged, and how much that may cost. Raises `ValueError` for what cannot work.

    `delay`: how long the first attempt runs alone: seconds, "2s", "p95" (what 95 % of recent attempts took),
    "ema(p95)", "auto" (what cuts p99 most for the `budget`), "slo: 1.2s", or "off". Learned delays are within
    `min_delay` and `max_delay`; until `warmup_samples` attempts are known, `warmup_delay` holds (None: no hedge).
    `budget`: the most hedges as a share of calls, None for no cap; left out, a race has none. `deadline`: how long a
    call may take to its answer, or a stream to its end, all attempts together. `first_token_timeout`: how long an
    attempt may take to its value or first item before it counts as failed; `stall_timeout`: the longest silence of a
    stream that has won. `mode`: "hedge"; "race" launches all together; "chain" asks the next only after a failure;
    "shadow" decides everything and launches no hedge. `strict`: a value that a gate rejected is no answer; else the
    best of them is given when nobody is better, after `gate_wait`. `losers`: "cancel", or "keep" to let them run on for
    `keep_time`. `breaker`: a target that fails again and again is left out for a while, as in the gateway.
    `tokens_per_minute`: the most tokens of hedges and failovers; what they come to is taken from answers that say so,
    and estimated by `Hedger(size=...)`.
    """

    delay: Seconds = "auto"
    budget: float | None = _Unsaid(HEDGES.share)
    deadline: Seconds | None = None
    first_token_timeout: Seconds | None = None
    stall_timeout: Seconds | None = None
    max_hedges: int = 1
    min_delay: Seconds = 0.05
    max_delay: Seconds = 30.0
    warmup_delay: Seconds | None = 2.0
    warmup_samples: int = 100
    mode: Literal["hedge", "race", "chain", "shadow"] = "hedge"
    strict: bool = False
    gate_wait: Seconds = 5.0
    losers: Literal["cancel", "keep"] = "cancel"
    keep_time: Seconds = 30.0
    breaker: bool = True
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        _one_of("mode", self.mode, ("hedge", "race", "chain", "shadow"))
        _one_of("losers", self.losers, ("cancel", "keep"))
        if self.max_hedges < 0:
            raise ValueError(f"max_hedges is {self.max_hedges}: it must be 0 or more")
        _seconds("keep_time", self.keep_time)
        self.for_targets(2)

    @property
    def kept_for(self) -> float | None:
        """Seconds for which losers run on; None: they are cancelled."""
        return _seconds("keep_time", self.keep_time) if self.losers == "keep" else None

    def for_targets(self, targets: int) -> settings.Policy:
        """As the engine takes it, for a route with so many targets."""
        races, chained = self.mode == "race", self.mode == "chain"
        spec = parse_delay("off" if races or chained else self.delay, parse_duration)
        capped = self.budget is not None and not (races and isinstance(self.budget, _Unsaid))
        return settings.Policy(
            delay=show(spec),
            min_delay=_seconds("min_delay", self.min_delay),
            max_delay=_seconds("max_delay", self.max_delay),
            warmup_delay=_seconds("warmup_delay", self.warmup_delay),
            learning=Learning(min_samples=min(100, self.warmup_samples), warmup=self.warmup_samples),
            shadow=self.mode == "shadow",
            width=targets if races else 1,
            chain=chained,
            max_hedges=0 if chained or targets == 1 else self.max_hedges,
            max_attempts=targets,
            limits=Limits(
                _share(self.budget) if capped else None,
                FAILOVERS if self.budget is not None else None,
                tokens_per_minute=self.tokens_per_minute,
            ),
            throttle=None if races else ThrottleSettings(),
            first_token=_seconds("first_token_timeout", self.first_token_timeout),
            stall=_seconds("stall_timeout", self.stall_timeout),
            total=_seconds("deadline", self.deadline),
            gates=GateSettings(wait=_seconds("gate_wait", self.gate_wait), strict=self.strict),
        )


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}: it must be one of {', '.join(allowed)}")


def _share(budget: float | None) -> Share:
    if budget is None or not 0.0 < budget <= 1.0:
        raise ValueError(f"budget is {budget!r}: it must be a share of calls above 0 and at most 1, or None for no cap")
    return Share(budget, HEDGES.burst, HEDGES.per_minute)


def _seconds(name: str, value: Seconds | None) -> float:
    if value is None or value == inf:
        return inf
    seconds = parse_duration(value)
    if seconds is None:
        raise ValueError(f'{name} is {value!r}: it must be a number of seconds or a text such as "2s" or "300ms"')
    return seconds
