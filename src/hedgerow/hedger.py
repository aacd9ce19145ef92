"""One route, composed: its targets, its policy, the guards, the health of its targets and who listens.

A `Hedger` outlives requests. For each request it makes a `Run` (the engine's) and speaks its events; what an attempt
*is* (an HTTP call, a coroutine) is the caller's affair.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from math import inf
from typing import get_args

import msgspec

from hedgerow.alarm import Alarm
from hedgerow.engine import Driver, Run
from hedgerow.events import (
    Event,
    Failure,
    FailureClass,
    Listener,
    Role,
)
from hedgerow.policy.budget import Budget
from hedgerow.policy.health import Health
from hedgerow.policy.plan import Candidate, Plan, Policy, Refusal, Whether


class Place(msgspec.Struct, frozen=True, gc=False):
    """A target as a route sees it.

    `own_key` and `own_model` tell whether key and model come from our configuration: only then does a refusal say
    anything about the next request.
    """

    candidate: Candidate
    own_key: bool = True
    own_model: bool = True


def _budget(policy: Policy) -> Budget | None:
    """None where there is no cap, or none that could ever be exceeded."""
    most = policy.max_hedges if policy.delay < inf and policy.max_attempts > 1 else 0  # hedges of one request
    return Budget(policy.budget) if policy.budget is not None and policy.budget < most else None


def _hedges_only(guard: Callable[[float], Refusal | None]) -> Whether:
    return lambda role, _attempt, _candidate, now: guard(now) if role is Role.HEDGE else None


class Hedger:
    """The one object that composes a route."""

    __slots__ = (
        "_alone",
        "_audience",
        "_budget",
        "_candidates",
        "_everyone",
        "_health",
        "_plans",
        "_stall",
        "_whether",
        "heard",
        "name",
        "places",
    )

    def __init__(
        self,
        name: str,
        places: Sequence[Place],
        policy: Policy = Policy(),  # noqa: B008  # frozen
        *,
        listeners: Sequence[Listener] = (),
        health: Health | None = None,
    ) -> None:
        self.name = name
        self.places = tuple(places)
        self._candidates = tuple(place.candidate for place in places)
        self._audience: dict[type[Event], tuple[Listener, ...]] = {
            kind: tuple(listener for listener in listeners if kind in getattr(listener, "kinds", (kind,)))
            for kind in get_args(Event)
        }
        self.heard = frozenset(kind for kind, audience in self._audience.items() if audience)
        """What somebody listens to; other records need not be made."""
        self._health = health or Health()
        self._stall = policy.stall
        self._everyone: Sequence[int] = range(len(self.places))
        self._plans = {
            (stream, replayable): Plan(
                delay=policy.delay,
                max_hedges=policy.max_hedges,
                max_attempts=policy.max_attempts,
                # A whole answer has no first token to be late: only the total limit holds.
                first_token=policy.first_token if stream else inf,
                total=policy.total,
                replayable=replayable,
            )
            for stream in (True, False)
            for replayable in (True, False)
        }
        self._budget = _budget(policy)
        self._whether: Whether | None = None if self._budget is None else _hedges_only(self._budget.take)
        self._alone = Plan(max_hedges=0, max_attempts=1, total=policy.total)

    def narrowed(self, which: Sequence[int]) -> Hedger:
        """The same route for only these of its places: one budget, one health, the same rules and listeners."""
        one = copy.copy(self)
        one.places = tuple(self.places[index] for index in which)
        one._candidates = tuple(place.candidate for place in one.places)
        one._everyone = range(len(which))
        return one

    def run(
        self,
        driver: Driver,
        now: float,
        *,
        alarm: Alarm,
        stream: bool,
        replayable: bool,
        refusal: Refusal | None = None,
    ) -> tuple[Run, Sequence[int]]:
        """A run, and which of `places` its candidates are. The request counts towards the budget.

        `replayable` is False for a request that must not take effect twice; with a `refusal` no hedge starts.
        """
        order = self._everyone
        candidates: Sequence[Candidate] = self._candidates
        if self._health.out:
            order = self._health.usable(candidates, now)
            candidates = [candidates[index] for index in order]
        if self._budget is not None:
            self._budget.earn()
        whether = self._whether if refusal is None else _hedges_only(lambda _now: refusal)
        plan = self._plans[stream, replayable]
        return Run(driver, plan, candidates, whether, alarm=alarm, stall=self._stall), order

    def run_alone(self, driver: Driver, *, alarm: Alarm) -> tuple[Run, Sequence[int]]:
        """A run of one attempt, at the first place, whatever happens; the budget knows nothing of it."""
        return Run(driver, self._alone, self._candidates[:1], alarm=alarm, stall=self._stall), (0,)

    def failed(self, place: Place, failure: Failure, now: float) -> None:
        """Let the health of targets learn from an attempt that failed."""
        about_us = place.own_model if failure.kind is FailureClass.UPSTREAM_MISSING_MODEL else place.own_key
        if about_us and (event := self._health.failed(place.candidate, failure, now)) is not None:
            self.emit(event)

    def answered(self, place: Place) -> None:
        """The place gave a good answer: it is healthy."""
        if self._health.out:
            self._health.recovered(place.candidate)

    def emit(self, event: Event) -> None:
        """Tell every listener of this kind of event, in order."""
        for listener in self._audience[type(event)]:
            listener(event)
