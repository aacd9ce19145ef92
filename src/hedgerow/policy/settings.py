"""All that a route says of hedging, as plain data that can be sent to a serving process."""

from __future__ import annotations

from math import inf

import msgspec

from hedgerow.policy.account import UNLIMITED, Limits
from hedgerow.policy.gates.settings import GateSettings
from hedgerow.policy.latency.cells import Learning
from hedgerow.policy.order import OrderRule, Sticky
from hedgerow.policy.outage import ThrottleSettings
from hedgerow.policy.quota import KEEP, SHARE


class Conditions(msgspec.Struct, frozen=True, gc=False):
    """What a request must be like to be hedged; None and empty set no condition. `traits` as in `Ask`."""

    streaming: bool | None = None
    max_tokens_below: int | None = None
    traits: frozenset[str] = frozenset()
    max_input_tokens: int | None = None
    background: bool = False


class Policy(msgspec.Struct, frozen=True, gc=False):
    """How a route hedges. Times are seconds, `inf` switches a rule off; see `Plan`.

    `order` None: targets are asked as they are listed. `sticky` None: sessions are nowhere.
    `delay` is a number of seconds or a rule as `delay.show` writes it. `target` and `warmup_delay` as in `when.Rules`.
    `width`: attempts that are launched together at the start; with more than one there is no delay.
    `shadow`: decide everything, launch no hedge. `chain`: `first_token` holds for whole answers too.
    `throttle` None: nothing stops hedges in an outage. `holdout`: the share of requests that is not hedged, to compare.
    """

    order: OrderRule | None = None
    sticky: Sticky | None = None
    delay: float | str = inf
    min_delay: float = 0.0
    max_delay: float = inf
    target: float = 0.99
    warmup_delay: float = inf
    learning: Learning = Learning()
    shadow: bool = False
    width: int = 1
    chain: bool = False
    max_hedges: int = 1
    max_attempts: int = 2
    limits: Limits = UNLIMITED
    conditions: Conditions = Conditions()
    rollout: float = 1.0
    holdout: float = 0.0
    kill_switch: bool = False
    quota_keep: float = KEEP
    quota_share: float = SHARE
    throttle: ThrottleSettings | None = None
    first_token: float = inf
    stall: float = inf
    total: float = inf
    gates: GateSettings | None = None
