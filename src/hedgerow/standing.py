"""Records of what holds for more than one request: targets that are out or do not stop, breakers, delays, controls.

`hedgerow.events` has all of them too.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from hedgerow.vocabulary import FailureClass


class TargetTakenOut(msgspec.Struct, frozen=True, gc=False):
    """A target gets no traffic until `until` because it refused our key, model, quota or rate.

    `key`: which one of its several keys is meant, from 1; 0 where it has not several, or all are.
    """

    target: str
    kind: FailureClass
    message: str
    at: float
    until: float
    key: int = 0


class BreakerState(StrEnum):
    """Whether a target may have traffic."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


class BreakerChanged(msgspec.Struct, frozen=True, gc=False):
    """A target's breaker is in another state now, and why. `until`: when an open one is half-open, else None.

    `model` is the client's own where the target passes it on, else empty.
    """

    target: str
    model: str
    state: BreakerState
    why: str
    at: float
    until: float | None = None


class DelayRuleChanged(msgspec.Struct, frozen=True, gc=False):
    """So many requests of a target straggle that a percentile is no delay any more (`straggles`), or no longer.

    `detail` says which and what is done instead.
    """

    route: str
    target: str
    stream: bool
    straggles: bool
    detail: str
    at: float


class HedgingThrottled(msgspec.Struct, frozen=True, gc=False):
    """The outage guard of a route begins (`throttled`), or ends, to hold hedges back; `detail` says why it does.

    Looked at every five seconds while requests come.
    """

    route: str
    throttled: bool
    detail: str
    at: float


class CancelFailed(msgspec.Struct, frozen=True, gc=False):
    """A target is known to go on with what is cancelled there (`fails`), or known to do so no longer.

    `detail` says from what that is known, `action` what is done about it (`targets.X.on_cancel_failure`). Told at the
    start and when a reload brings other knowledge.
    """

    target: str
    fails: bool
    detail: str
    action: str
    at: float


class ControlsChanged(msgspec.Struct, frozen=True, gc=False):
    """An operator changed what holds while the gateway runs (`policy.controls.Controls`): `changes` are the new values.

    `route` is None where it is for all routes. `by`: who did it, a fingerprint of their token or a signal's name.
    """

    at: float
    route: str | None
    changes: dict[str, bool | float | str | None]
    by: str
