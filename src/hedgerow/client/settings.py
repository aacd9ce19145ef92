"""What a caller in process says of hedging, in the words of the configuration, and the policy that this comes to."""

from __future__ import annotations

from math import inf
from typing import Any, Literal, TypedDict

import msgspec

from hedgerow.client.checking import one_of, refuse_unknown, share, whole
from hedgerow.client.prices import MONEY, Dollars, amount
from hedgerow.policy import settings
from hedgerow.policy.account import Limits
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.policy.budget import FAILOVERS, HEDGES, Share
from hedgerow.policy.delay import is_early, parse_delay, show
from hedgerow.policy.gates.settings import GateSettings
from hedgerow.policy.latency.cells import Learning
from hedgerow.policy.outage import ThrottleSettings
from hedgerow.units import parse_measure

Seconds = float | str
"""A number of seconds, or a text such as "2s" or "300ms"."""
FIRST_TOKEN = 60.0
"""Seconds that an attempt has to the first item of a stream, where nothing else is said, as in the gateway."""
WHOLE = 600.0
"""The same for answers that come whole, which take minutes now and then; the SDKs wait as long."""


class Breaker(BreakerSettings, frozen=True, gc=False):
    """When a target is left out because too many of its attempts fail, or are slow.

    Shares are in (0, 1], times in seconds; None switches a condition off. It is left out when of at least `minimum`
    results in the `window` a share of `failure_ratio` failed, or one of `slow_ratio` had no first item within
    `slow_after`; or after `failures` failed ones in a row. After `open_for` seconds single attempts try it again, and
    `successes` good ones bring it back. Raises `ValueError` for what cannot work.
    """


class Outage(ThrottleSettings, frozen=True, gc=False):
    """When hedges stop because slowness is general: another attempt would be slow too, and add to the load.

    Every slow or failed call takes one of `max_tokens`, and one that is answered before its delay gives `token_ratio`
    back. Nothing is hedged while less than half of them are left, nor until a share of `resume` is there again. Nothing
    either while more than `both_slow` of the first attempts and of the further ones are late or fail, of the last
    `count` of each within `window` seconds, with at least `minimum` of each known; None switches that off. Raises
    `ValueError` for what cannot work.
    """


class _Unsaid(float):
    """A budget that nobody has asked for: it is no cap of a race."""


class _UnsaidDelay(str):
    """A delay that nobody has asked for: one target may do."""

    __slots__ = ()


class Rules(TypedDict, total=False):
    """The rules of a `Policy`, as keyword arguments."""

    delay: Seconds
    budget: float | str | None
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
    breaker: bool | Breaker
    outage: bool | Outage
    tokens_per_minute: int | None
    usd_per_hour: Dollars | None
    usd_per_day: Dollars | None
    usd_per_month: Dollars | None


class _Named(msgspec.StructMeta):
    """Says which name is meant where one is not known."""

    def __call__(cls, *args: Any, **said: Any) -> Any:  # noqa: N805  # it is a class of classes
        refuse_unknown(cls.__name__, said, cls.__struct_fields__)
        return super().__call__(*args, **said)


class Policy(msgspec.Struct, frozen=True, kw_only=True, metaclass=_Named):
    """When a call is hedged, and how much that may cost. Raises `ValueError` for what cannot work.

    `delay`: how long the first attempt runs alone: seconds, "2s", "p95" (what 95 % of recent attempts took),
    "ema(p95)", "auto" (what cuts p99 most for the `budget`), "slo: 1.2s", or "off". Learned delays are within
    `min_delay` and `max_delay`; until `warmup_samples` attempts are known, `warmup_delay` holds (None: no hedge).
    `budget`: the most hedges as a share of calls (0.05 or "5%"), None for no cap; left out, a race has none.
    `deadline`: how long a call may take to its answer, or a stream to its end, all attempts together.
    `first_token_timeout`: how long an attempt may take to its value or first item before it counts as failed; left out,
    60 s where a stream is expected (async generator functions, `first_token` given) and 600 s elsewhere; None for no
    limit. `stall_timeout`: the longest silence of a stream that has won. `mode`: "hedge"; "race" launches all together;
    "chain" asks the next only after a failure; "shadow" decides everything and launches no hedge. `strict`: a value
    that a gate rejected is no answer; else the best of them is given when nobody is better, after `gate_wait`.
    `losers`: "cancel", or "keep" to let them run on for `keep_time`. `breaker`: a target that fails again and again is
    left out for a while, as `Breaker` says (True: as its defaults do). `outage`: hedges stop while slowness is general,
    as `Outage` says. `tokens_per_minute`: the most tokens of hedges and failovers; what they come to is taken from
    answers that say so, and estimated by `Hedger(size=...)`. `usd_per_hour`, `usd_per_day` and `usd_per_month`: the
    most dollars of hedges and failovers in any window of that length; every target needs its `price`.
    """

    delay: Seconds = _UnsaidDelay("auto")
    budget: float | str | None = _Unsaid(HEDGES.share)
    deadline: Seconds | None = None
    first_token_timeout: Seconds | None = "auto"
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
    breaker: bool | Breaker = True
    outage: bool | Outage = True
    tokens_per_minute: int | None = None
    usd_per_hour: Dollars | None = None
    usd_per_day: Dollars | None = None
    usd_per_month: Dollars | None = None

    def __post_init__(self) -> None:
        one_of("mode", self.mode, ("hedge", "race", "chain", "shadow"))
        one_of("losers", self.losers, ("cancel", "keep"))
        whole("max_hedges", self.max_hedges, 0)
        whole("warmup_samples", self.warmup_samples, 1)
        if self.tokens_per_minute is not None:
            whole("tokens_per_minute", self.tokens_per_minute, 1)
        _on_off("breaker", self.breaker, Breaker)
        _on_off("outage", self.outage, Outage)
        seconds_of("keep_time", self.keep_time)
        for name in ("deadline", "first_token_timeout", "stall_timeout"):
            limit_of(name, getattr(self, name))
        self.for_targets(2)

    @property
    def kept_for(self) -> float | None:
        """Seconds for which losers run on; None: they are cancelled."""
        return seconds_of("keep_time", self.keep_time) if self.losers == "keep" else None

    def idle_with(self, targets: int) -> str | None:
        """What of it so many targets cannot do, if anything that somebody has asked for."""
        again = "give another, or the same one twice, to ask it twice"
        hedges, one = self.mode in ("hedge", "shadow"), "there is one target, so nobody"
        if self.mode == "race" and targets < 2:
            return f"{one} to race with: {again}"
        if hedges and targets < 2 and self.delay != "off" and not isinstance(self.delay, _UnsaidDelay):
            return f"{one} to hedge with (delay={self.delay!r}): {again}"
        if hedges and self.max_hedges > max(targets - 1, 1):
            return f"max_hedges={self.max_hedges}, and {targets} targets are too few for that: {again}"
        return None

    @property
    def early(self) -> bool:
        """Whether many calls are meant to pass the delay."""
        return is_early(parse_delay(self.delay, parse_measure))

    @property
    def in_money(self) -> str | None:
        """The first of its limits that is in dollars."""
        return next((name for name in MONEY if getattr(self, name) is not None), None)

    @property
    def breaker_settings(self) -> BreakerSettings | None:
        """None: none."""
        return self.breaker if isinstance(self.breaker, BreakerSettings) else Breaker() if self.breaker else None

    def for_targets(self, targets: int, *, streams: bool = True) -> settings.Policy:
        """As the engine takes it, for a route with so many targets, which give streams, or (not `streams`) anything."""
        races, chained = self.mode == "race", self.mode == "chain"
        spec = parse_delay("off" if races or chained else self.delay, parse_measure)
        outage = self.outage if isinstance(self.outage, Outage) else Outage() if self.outage else None
        first_token = _timeout("first_token_timeout", self.first_token_timeout)
        capped = self.budget is not None and not (races and isinstance(self.budget, _Unsaid))
        return settings.Policy(
            delay=show(spec),
            min_delay=seconds_of("min_delay", self.min_delay),
            max_delay=seconds_of("max_delay", self.max_delay),
            warmup_delay=seconds_of("warmup_delay", self.warmup_delay),
            learning=Learning(min_samples=min(100, self.warmup_samples), warmup=self.warmup_samples),
            shadow=self.mode == "shadow",
            width=targets if races else 1,
            chain=chained,
            max_hedges=0 if chained or targets == 1 else self.max_hedges,
            max_attempts=targets,
            limits=Limits(
                _share(self.budget) if capped else None,
                FAILOVERS if self.budget is not None else None,
                nanousd_per_hour=_dollars("usd_per_hour", self.usd_per_hour),
                nanousd_per_day=_dollars("usd_per_day", self.usd_per_day),
                nanousd_per_month=_dollars("usd_per_month", self.usd_per_month),
                tokens_per_minute=self.tokens_per_minute,
            ),
            throttle=None if races else outage,
            first_token=first_token if first_token is not None else FIRST_TOKEN if streams else WHOLE,
            stall=seconds_of("stall_timeout", self.stall_timeout),
            total=seconds_of("deadline", self.deadline),
            gates=GateSettings(wait=seconds_of("gate_wait", self.gate_wait), strict=self.strict),
        )


def _share(budget: float | str | None) -> Share:
    return Share(share("budget", budget), HEDGES.burst, HEDGES.per_minute)


def _dollars(name: str, said: Dollars | None) -> int | None:
    return None if said is None else amount(name, said)


def _on_off(name: str, value: object, kind: type) -> None:
    if not isinstance(value, bool | kind):
        raise ValueError(f"{name} is {value!r}: it must be True, False or a hedgerow.{kind.__name__}(...)")


def _timeout(name: str, value: Seconds | None) -> float | None:
    """None: whatever is usual."""
    return None if value == "auto" and name == "first_token_timeout" else seconds_of(name, value)


def limit_of(name: str, value: Seconds | None) -> float | None:
    """As `_timeout`, of what must leave some time."""
    if (seconds := _timeout(name, value)) == 0.0:
        raise ValueError(f"{name} is {value!r}: it must be more than 0 seconds, or None for no limit")
    return seconds


def seconds_of(name: str, value: Seconds | None) -> float:
    if value is None or value == inf:
        return inf
    seconds = parse_measure(value)
    if seconds is None:
        raise ValueError(f'{name} is {value!r}: it must be a number of seconds or a text such as "2s" or "300ms"')
    return seconds
