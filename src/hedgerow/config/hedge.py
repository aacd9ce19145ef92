"""When a backup attempt starts, whether it may, and what it may cost."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from hedgerow.config.amounts import DELAY, MAYBE, NAME_VALUES, PERCENTILE, dollars, number, share
from hedgerow.config.base import DAY, Model
from hedgerow.config.fields import FLAG, duration, one_of, percentage, some_of, whole
from hedgerow.policy.delay import Auto, Fixed, Off, Spec

_HOUR = 3_600.0


class Warmup(Model):
    """What holds until enough is known of a target's latency."""

    samples: Annotated[int, whole(1, 100_000)] = 100
    """How many attempts of a target must be known before its delay is learned from them."""
    delay: Annotated[float | None, duration(0.0, _HOUR, off=True)] = 2.0
    """The delay until then, within `min_delay` and `max_delay`; `off` hedges nothing until then."""


class Window(Model):
    """Which attempts a delay is learned from."""

    samples: Annotated[int, whole(10, 20_000)] = 1_000
    """The most recent so many, for each target and prompt size. Up to four times as many before them count too, as \
long as they look like these."""
    age: Annotated[float, duration(1.0, DAY)] = 1_800.0
    """Attempts longer ago than this no longer count."""


class OnlyIf(Model):
    """Conditions that a request must meet to be hedged; all of those given."""

    streaming: Annotated[bool | None, MAYBE] = None
    """`true`: only streams; `false`: only whole answers."""
    max_tokens_below: Annotated[int | None, whole(1, 10_000_000, nullable=True)] = None
    """Only requests whose own limit of output tokens is below this. A request without a limit is not."""
    headers: Annotated[dict[str, str], NAME_VALUES] = Field(default_factory=dict)
    """Only requests with these header fields, each with this value."""


class Outage(Model):
    """When hedges stop because slowness is general: another attempt would be slow too and add to the load."""

    max_tokens: Annotated[float, number(1, 1_000)] = 20.0
    """Every slow or failed request takes one of so many tokens; below half of them nothing is hedged, until three \
quarters are back or most of the latest further attempts won."""
    token_ratio: Annotated[float, number(0.001, 10)] = 1.0
    """What every request answered before its delay gives back: with 1 hedging goes on while no more than half are \
late, with 0.5 a third, with 4 four fifths."""
    both_slow: Annotated[float | None, percentage(0.01, 0.99)] = 0.5
    """Nothing is hedged either while more than this share of the first attempts and of the further ones are late or \
fail. `off` where a delay is meant to be shorter than what any target usually takes; then the tokens alone decide."""


class Spend(Model):
    """The most that extra attempts may cost, in any window of that length."""

    usd_per_hour: Annotated[int | None, dollars(off=True)] = None
    """Dollars in any hour. Needs the `price` of every target of the route. `off` sets no limit."""
    usd_per_day: Annotated[int | None, dollars(off=True)] = None
    """Dollars in any 24 hours."""
    usd_per_month: Annotated[int | None, dollars(off=True)] = None
    """Dollars in any 31 days."""
    tokens_per_minute: Annotated[int | None, whole(1, 1_000_000_000, off=True)] = None
    """Tokens of prompts and answers in any minute, estimated when an attempt starts."""

    @property
    def in_money(self) -> bool:
        """Whether any limit is in dollars."""
        return any(each is not None for each in (self.usd_per_hour, self.usd_per_day, self.usd_per_month))


class Cap(Spend):
    """A cap above those of the routes."""

    hedges: Annotated[float | None, percentage(0.001, 1.0)] = None
    """Most attempts started by delay, as a share of requests. `off` sets no cap."""
    failovers: Annotated[float | None, percentage(0.001, 1.0)] = None
    """Most attempts after a failure, as a share of requests. `off` sets no cap."""
    burst: Annotated[float, number(1, 1_000_000)] = 10.0
    """How many of each may start in a row before they must have been earned."""


class Failover(Model):
    """How many attempts may follow on failures."""

    budget: Annotated[float | None, percentage(0.001, 1.0)] = 0.2
    """Most attempts after a failure, as a share of the route's requests: a hard cap, so that an outage cannot \
multiply the load. Target after target is left out by its `breaker` before this is felt. `off` sets no cap."""
    burst: Annotated[float, number(1, 1_000_000)] = 50.0
    """How many may start in a row before they must have been earned."""
    per_minute: Annotated[float, number(0, 1_000_000)] = 1.0
    """So many are earned each minute, however few the requests."""


class Hedge(Model):
    """When a backup attempt starts."""

    delay: Annotated[Spec, DELAY] = Auto()
    """How long an attempt may run without a first token (a non-streaming one: without its answer) before the next \
target is tried as well. `2s`: fixed. `p95`: what 95 % of the target's recent attempts took, for prompts of this size; \
`ema(p95)` smooths it. `auto`: what cuts `target` most for the `budget`, learned from both targets, spent on the \
prompt sizes where it helps most. `{slo: 1.2s}`: early enough that the backup can still make it. `0`: at once. `off` \
never hedges: the other targets are then used only when one fails."""
    mode: Annotated[Literal["on", "shadow", "race", "chain"], one_of("on", "shadow", "race", "chain")] = "on"
    """`shadow` decides everything and launches nothing: the event log says what would have been hedged. `race` waits \
for no delay: `width` targets are asked together, and the first good answer wins. `chain` never hedges: the next \
target is asked when one has failed or has given no first token (a request that is not streamed: no answer) within \
`timeouts.first_token`, or its own."""
    width: Annotated[int, whole(2, 10)] = 2
    """How many targets are asked together in `mode: race`."""
    target: Annotated[float, PERCENTILE] = 0.99
    """The percentile of the time to first token that `delay: auto` cuts."""
    min_delay: Annotated[float, duration(0.0, _HOUR)] = 0.05
    """No learned delay is shorter."""
    max_delay: Annotated[float, duration(0.001, _HOUR)] = 30.0
    """No learned delay is longer."""
    warmup: Warmup = Warmup()
    window: Window = Window()
    max_hedges: Annotated[int, whole(0, 3)] = 1
    """Most attempts started by delay for one request. Attempts after a failure do not count."""
    budget: Annotated[float | None, percentage(0.001, 1.0, zero=" (no cap); to hedge nothing, set delay: off")] = 0.1
    """Most attempts started by delay, as a share of the route's requests: a hard cap. Attempts after a failure do not \
count. `off` sets no cap. In `mode: race` it is off unless set: then a race is run for so many requests."""
    burst: Annotated[float, number(1, 1_000_000)] = 50.0
    """How many may start in a row before they must have been earned."""
    per_minute: Annotated[float, number(0, 1_000_000)] = 1.0
    """So many are earned each minute, however few the requests."""
    allow: Annotated[tuple[str, ...], some_of("n", "audio", "store", least=0)] = ()
    """What may be hedged although it costs more or leaves something behind: `n` (several answers to one request), \
`audio` (spoken answers), `store` (answers that the Responses API keeps unless told not to)."""
    max_input_tokens: Annotated[int | None, whole(1, 100_000_000, off=True)] = None
    """Longer prompts are not hedged: their tokens are billed even when the attempt is cancelled. Estimated from the \
size of the request."""
    only_if: OnlyIf = Field(default_factory=OnlyIf)
    rollout: Annotated[float, share(0.0, 1.0)] = 1.0
    """The share of requests that may be hedged, chosen by request id."""
    kill_switch: Annotated[bool, FLAG] = False
    """`true` stops all hedges of the route, whatever else is set. Also changed at run time."""
    quota_keep: Annotated[float, share(0.0, 0.99)] = 0.2
    """A hedge is not sent where it would leave less than this share of the target's rate limit, as the target reports \
it, for regular traffic."""
    quota_share: Annotated[float, share(0.001, 1.0)] = 0.2
    """Hedges take at most this share of the capacity that the primary target reports."""
    outage: Outage = Outage()

    @property
    def races(self) -> bool:
        """Whether several targets are asked together."""
        return self.mode == "race"

    @property
    def chained(self) -> bool:
        """Whether one target is asked after the other, and never two at once."""
        return self.mode == "chain"

    @property
    def cap(self) -> float | None:
        """The cap on further attempts, as a share of requests; None where there is none."""
        return None if self.races and "budget" not in self.model_fields_set else self.budget

    @property
    def first_delay(self) -> float | None:
        """The delay that holds at first, in seconds: a fixed one, else that of the warm-up; None where none does."""
        match self.delay:
            case Off():
                return None
            case Fixed(seconds):
                return seconds
            case _:
                warmup = self.warmup.delay
                return min(max(warmup, self.min_delay), self.max_delay) if warmup else warmup
