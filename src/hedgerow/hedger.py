"""One route, composed: its targets, its policy, the health of its targets and who listens.

A `Hedger` outlives requests. For each request it says what its `Run` (the engine's) is made of, and speaks its events;
what an attempt *is* (an HTTP call, a coroutine) is the caller's affair.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, cast

from hedgerow.audience import BEGINNINGS, OF_REQUESTS, Audience
from hedgerow.engine import Basis
from hedgerow.events import (
    Arm,
    AttemptEnded,
    Failure,
    FailureClass,
    FirstToken,
    Headers,
    Listener,
    Reason,
    RequestBilled,
    Role,
)
from hedgerow.policy.ask import Ask
from hedgerow.policy.controls import Controls
from hedgerow.policy.experiment import backups
from hedgerow.policy.failures import TAKES_OUT
from hedgerow.policy.health import Health, Order, Probe
from hedgerow.policy.judge import Judge, Shared
from hedgerow.policy.plan import Candidate, Place, Plan, Refusal
from hedgerow.policy.plans import Plans
from hedgerow.policy.rules import Choice
from hedgerow.policy.settings import Policy
from hedgerow.wire.limits import rate_limits

_PRIMARY, _FAILOVER, _HOLDOUT = Role.PRIMARY, Role.FAILOVER, Arm.HOLDOUT  # a member of an enum is slow to look up
log = logging.getLogger("hedgerow")
_BROKEN = Refusal(Reason.BREAKER, "another target is left out, and this one carries its traffic")
_FAULTY = Refusal(Reason.BUDGET, "nobody could be asked: hedgerow itself failed at it, its log says where")


class Hedger:
    """The one object that composes a route."""

    def __init__(
        self,
        name: str,
        places: Sequence[Place],
        policy: Policy = Policy(),  # noqa: B008  # frozen
        *,
        listeners: Sequence[Listener] = (),
        health: Health | None = None,
        shared: Shared | None = None,
        sealed: bool = False,
    ) -> None:
        """`sealed`: no other policy, no deadlines, nobody looks at what is known: what the policy asks is learned."""
        self.name = name
        self.health = health or Health()
        self._audience = Audience(listeners)
        self.tell = self._audience.tell
        """Tell every listener of an event, and learn nothing: it is about a request that runs alone."""
        self._ask_of(Judge(name, policy, shared, sealed=sealed))
        self.watched = self._audience.hears(OF_REQUESTS)
        """Whether somebody listens to what becomes of each request; else only what is learned from need be told."""
        self.followed = self._audience.hears(BEGINNINGS)
        """Whether somebody listens to how requests and attempts begin."""
        self.tally = self._audience.tally
        """As the audience's: for requests that `records.won_alone` can tell of."""
        self._go_to(places)
        self._go_by(policy)

    def _ask_of(self, judge: Judge) -> None:
        self._judge = judge
        self._experiment, self._won = judge.experiment, judge.won
        self.terms = judge.terms
        """Of a target: what its attempts cost."""
        self.late = judge.late
        """A hedge was due while the first attempt ran alone, whether or not it may start."""
        self.finished = judge.finished
        """A request is over; to be told of those of more than one attempt, and of those whose hedge was due."""
        learning = cast("Any", {FirstToken: judge.learn, AttemptEnded: judge.over, RequestBilled: judge.billed})
        self.emit = self._audience.after(learning).tell
        """Let the route learn from an event, then tell every listener."""

    def _go_to(self, places: Sequence[Place]) -> None:
        self.places = tuple(places)
        self._candidates = tuple(place.candidate for place in places)
        self._judge.knows(self._candidates)
        self._lineup = self._judge.lineup(self._candidates, self.health)
        self._backups = backups(self._candidates)
        self._as_listed = Order(tuple(range(len(places))))
        self._last: tuple[Choice, Plan, tuple[Basis, Sequence[int]]] | None = None
        """What requests begin with that are judged as the last one was."""

    def _go_by(self, policy: Policy) -> None:
        self._policy = policy
        self._gates_blame = policy.gates is not None and policy.gates.unhealthy
        self._plans = Plans(policy)

    def narrowed(self, places: Sequence[Place]) -> Hedger:
        """The same route for these of its places alone: one judgement, one health, the same rules and listeners."""
        one = copy.copy(self)
        one._go_to(places)
        return one

    def beside(self, policy: Policy) -> Hedger:
        """The same route by other delays and limits of time; what is learned and spent is one."""
        one = copy.copy(self)
        one._judge = self._judge.beside(policy)
        one._go_by(policy)
        return one

    def adopt(self, old: Hedger, now: float) -> None:
        """Take over what the hedger of this route's earlier configuration knows and has spent."""
        self._ask_of(old._judge)
        self._judge.change(self._policy, now)
        self._go_to(self.places)
        self._judge.sweep({candidate.target for candidate in self._candidates}, now)

    @property
    def controls(self) -> Controls:
        """What was changed at run time; call `apply` after changing it."""
        return self._judge.controls

    def apply(self, now: float) -> None:
        """The controls have changed."""
        self._judge.apply(now)

    def refreshing(self, now: float) -> Iterator[None]:
        """Choose delays and compare targets anew; in steps, to be taken away from requests every few seconds."""
        yield from self._judge.refreshing(now)
        for event in self._judge.notices(now):
            self.emit(event)

    def state(self, now: float) -> dict[str, Any]:
        """What holds now, for people."""
        return self._judge.state(now)

    def begins(self, ask: Ask, now: float, refusal: Refusal | None = None) -> tuple[Basis, Sequence[int]]:
        """What the `Run` of this request is made of, and which of `places` its candidates are.

        It counts towards the budgets. With a `refusal` no hedge starts.
        """
        judge, health, candidates = self._judge, self.health, self._candidates
        if health.out or health.unwell or self._lineup is not None or self._experiment.runs or refusal is not None:
            return self._begins_otherwise(ask, now, refusal)
        judge.arrived(ask, now)
        choice = judge.choose(ask, candidates, now)
        plan = self._plans.of(choice.delay, ask, now)
        last = self._last
        if last is None or last[0] is not choice or last[1] is not plan:
            order = self._as_listed
            may = partial(self._may, choice, candidates, order, None)
            last = self._last = choice, plan, ((plan, candidates, may, None, None), order.usable)
        return last[2]

    def _begins_otherwise(self, ask: Ask, now: float, refusal: Refusal | None) -> tuple[Basis, Sequence[int]]:
        """Where not all is as it nearly always is."""
        judge, health, candidates = self._judge, self.health, self._candidates
        order, hedgeable = self._as_listed, None
        indices = order.usable
        if health.out or health.unwell or self._lineup is not None:
            order = self._ordered(ask, now)
            indices = (*order.usable, *order.spare)
            # Where one is broken no hedge may start at all, and is to be told so, not that nobody is left to hedge to.
            hedgeable = None if order.broken else len(order.usable) or None
            candidates = tuple(candidates[index] for index in indices)
        arm = self._experiment.arm(ask, candidates[0], self._backups) if self._experiment.runs and not refusal else None
        if arm is _HOLDOUT:
            refusal = self._experiment.held_out
            judge.held_out(ask, now)
        else:
            judge.arrived(ask, now)
        choice = judge.choose(ask, candidates, now)
        plan = self._plans.of(choice.delay, ask, now)
        may = partial(self._may, choice, candidates, order, refusal)
        return (plan, candidates, may, hedgeable, arm), indices

    def _ordered(self, ask: Ask, now: float) -> Order:
        health, lineup = self.health, self._lineup
        order = health.order(self._candidates, now, ask.model) if lineup is None else lineup.order(ask, now)
        for event in order.changed:
            self.emit(event)
        return order if order.usable else health.least_bad(order, self._candidates, now)

    def begins_alone(self) -> tuple[Basis, Sequence[int]]:
        """The same for one attempt, at the first place, whatever happens; the budget knows nothing of it."""
        first = next((index for index, each in enumerate(self._candidates) if each.leads), 0)
        return (self._plans.alone, self._candidates[first : first + 1], None, None, None), (first,)

    def launched(self, place: Place, ask: Ask, role: Role, now: float) -> Probe | None:
        """An attempt starts at this place; what it probes, if it does."""
        if place.own_key and (quota := self._judge.quota).reported:
            quota.spent(place.candidate, ask, now, hedge=role not in (_PRIMARY, _FAILOVER))
        health = self.health
        return health.launched(place.candidate, now, ask.model) if health.unwell else None

    def failed(
        self,
        place: Place,
        ask: Ask,
        failure: Failure,
        launched_at: float,
        now: float,
        *,
        had_all_its_time: bool = False,
    ) -> None:
        """Let the health of targets learn from an attempt that failed; `had_all_its_time` as in `Health.failed`."""
        own = place.own_model if failure.kind is FailureClass.UPSTREAM_MISSING_MODEL else place.own_key
        if (failure.kind in TAKES_OUT and not own) or (failure.kind is FailureClass.GATE and not self._gates_blame):
            return
        if failure.kind is FailureClass.RATE_LIMITED:
            self._judge.quota.limited(place.candidate, failure.retry_after, now)
        event = self.health.failed(
            place.candidate,
            failure,
            now,
            launched_at,
            ask.model,
            stream=ask.stream,
            had_all_its_time=had_all_its_time,
        )
        if event is not None:
            self.emit(event)

    def reported(self, place: Place, headers: Headers, launched_at: float, now: float) -> None:
        """An answer's head is here, which may say what is left of a rate limit."""
        # A client's own key says nothing of the next client's.
        if place.own_key and (quota := self._judge.quota).due(place.candidate, now, launched_at):
            limits = rate_limits(headers)
            if limits is not None:
                quota.learn(place.candidate, limits, now)

    def answered(self, place: Place, ask: Ask, launched_at: float, now: float) -> None:
        """The place gave a good answer: it is healthy."""
        event = self.health.answered(place.candidate, now, launched_at, ask.model, stream=ask.stream)
        if event is not None:
            self.emit(event)

    def first_token(self, ask: Ask, attempt: int, target: str, role: Role, launched_at: float, at: float) -> None:
        """An attempt has won: let the route learn from it, and tell of it where somebody listens."""
        if self.watched:
            self.emit(FirstToken(ask.request_id, attempt, target, role, launched_at, at, ask.stream, ask.input_tokens))
            return
        try:
            self._won(ask, attempt, target, role, launched_at, at)
        except Exception:  # as `Audience.tell`
            log.exception("route %s: hedgerow itself failed to learn; please report it", self.name)

    def over(self, probe: Probe) -> None:
        """An attempt that was a probe is over."""
        self.health.ended(probe)

    def settled(self, session: str, place: Place | None, now: float) -> None:
        """A request of this session is over: its first attempt answered it, alone, from `place`; None: it did not."""
        if (sessions := self._judge.sessions) is not None:
            sessions.settle(session, None if place is None else place.candidate.target, now)

    def unhedged_at(self, place: Place, ask: Ask, launched_at: float, now: float) -> float | None:
        """When a first attempt, at this place, would have had its first token; silent so far, it is now cancelled."""
        longest, target = self._plans.longest(place.candidate, ask), place.candidate.target
        seconds = self._experiment.unhedged(ask, target, now - launched_at, longest, now)
        return None if seconds is None else launched_at + seconds

    def _may(
        self,
        choice: Choice,
        candidates: Sequence[Candidate],
        order: Order,
        refusal: Refusal | None,
        ask: Ask,
        role: Role,
        attempt: int,
        candidate: int,
        now: float,
    ) -> Refusal | None:
        if role is not _FAILOVER:
            if refusal is not None:  # it costs the budget nothing
                return refusal
            if order.broken or self.health.allows(candidates[candidate], now, ask.model) == "no":
                return _BROKEN
        try:
            return self._judge.may(ask, choice, role, attempt, candidates[0], candidates[candidate], now)
        except Exception:  # the attempts that run must go on, and one that nobody paid for must not start
            log.exception("route %s: hedgerow itself failed to judge a %s; please report it", self.name, role)
            return _FAULTY
