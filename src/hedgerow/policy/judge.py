"""The judgement of one route: when a hedge is due, whether it may start, and what both learn from.

It composes the small objects of this package and keeps their one order: what costs nothing to ask is asked first, the
budget, whose yes is paid for, last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from copy import copy
from math import inf
from typing import Any

import msgspec

from hedgerow.events import AttemptEnded, FirstToken, Reason, Role
from hedgerow.policy.account import Limits
from hedgerow.policy.ask import Ask
from hedgerow.policy.budget import Share
from hedgerow.policy.cancelling import raises_delay, stoppable
from hedgerow.policy.controls import Controls
from hedgerow.policy.correlation import assumed
from hedgerow.policy.delay import Fixed, Off, Spec, is_early, parse_delay, show
from hedgerow.policy.experiment import Experiment
from hedgerow.policy.guards import Background, Deadline, Guard, KillSwitch, OnlyIf, Rollout, TooLarge, first_refusal
from hedgerow.policy.health import Health
from hedgerow.policy.hedge_cost import HedgeCost
from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.lessons import Lessons
from hedgerow.policy.lineup import Lineup, lineup_of, where_of
from hedgerow.policy.notices import Notices
from hedgerow.policy.order import Fastest
from hedgerow.policy.outage import Throttle
from hedgerow.policy.payments import Payments
from hedgerow.policy.plan import Candidate, Refusal
from hedgerow.policy.quota import Quota, QuotaGuard
from hedgerow.policy.rules import WARMUP, Choice, Rules
from hedgerow.policy.settings import Policy
from hedgerow.policy.spend import Funds, Spend
from hedgerow.policy.sticky import Sessions, changed
from hedgerow.policy.terms import UNKNOWN, Terms
from hedgerow.policy.when import When
from hedgerow.policy.where import Where
from hedgerow.units import parse_duration

_PRIMARY = Role.PRIMARY
_RACE = Choice(inf, 1.0, "race")


class Shared:
    """What the routes of a process have in common. `draw` gives numbers in [0, 1)."""

    __slots__ = ("controls", "draw", "funds", "kill_switch", "quota", "spend", "terms")

    def __init__(
        self, draw: Callable[[], float], *, funds: Funds | None = None, terms: Mapping[str, Terms] | None = None
    ) -> None:
        self.draw = draw
        self.funds = Funds() if funds is None else funds
        self.spend: Spend | None = None
        """Of the one route, where each of several threads has a judge of its own for it."""
        self.terms = dict(terms or {})
        """Of each target."""
        self.quota = Quota()
        self.kill_switch = KillSwitch("all routes")
        self.controls = Controls()


class Judge:
    """See the module. Made once for a route; a reload changes its policy and keeps what it knows."""

    def __init__(self, name: str, policy: Policy, shared: Shared | None = None, *, sealed: bool = False) -> None:
        self._sealed = sealed  # see `Hedger`
        self._shared = shared = Shared(lambda: 0.0) if shared is None else shared
        self.controls = Controls()
        self._policy = policy
        self._latency = LatencyModel(policy.learning)
        self._throttle = Throttle()
        self.quota = shared.quota
        """What is left of the rate limits of targets with a key of ours."""
        self.spend = shared.spend or Spend(name, self._limits(), shared.funds)
        self._payments = Payments(self.spend, self.terms)
        self.billed = self._payments.billed
        """What the attempts of a request came to."""
        self.arrived, self.held_out = self.spend.earn, self.spend.earn_failovers
        """A request has come: it earns its share of the budgets; held out, nothing for the hedges of others."""
        self._kill_switch = KillSwitch(f"route {name}")
        self._lessons = Lessons(self._latency, self._throttle, self._pair)
        self.learn, self.won = self._lessons.answered, self._lessons.won
        """From an attempt that won."""
        self._accounts: dict[str, str] = {}
        self._cost = HedgeCost(self.terms)
        self._run_on = False
        self.when = When(self._latency, self._rules(), cost=self._cost, correlation=self._correlation)
        self.notices = Notices(name, self.when, self._lessons).new
        """What an operator should hear of the delays, and of hedges held back, since this was asked last."""
        self.where = self._where()
        """None: as the targets are listed."""
        self.sessions = None if policy.sticky is None else Sessions(policy.sticky)
        """Where sessions are; None where that does not matter."""
        self.experiment = Experiment(self._latency)
        self._set_guards()

    def change(self, policy: Policy, now: float) -> None:
        """Go on with another policy; statistics and balances stay."""
        before, self._policy = self._policy, policy
        if (policy.order, policy.width > 1) != (before.order, before.width > 1):
            self.where = self._where()
        self.sessions = changed(self.sessions, policy.sticky)
        self._latency.resize(policy.learning)
        self.apply(now)

    def beside(self, policy: Policy) -> Judge:
        """Another for requests of this route with other delays and limits of time: they learn and spend together."""
        one = copy(self)
        one._policy = policy
        one.when = self.when.beside(one._rules())
        told = self._lessons.throttle
        one._set_guards()
        self._lessons.throttle = told or one._asked
        return one

    def apply(self, now: float) -> None:
        """The controls have changed: from now on they hold."""
        self.spend.resize(self._limits(), now)
        self.when.change(self._rules())
        self._set_guards()

    def choose(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> Choice:
        """When this request is to be hedged."""
        when = self.when
        if self._compares_costs and ask.model != self._cost.model:
            self._cost.asked(ask.model, self._accounts)
        if (choice := when.always) is None:
            backup = candidates[1].target if len(candidates) > 1 else None
            choice = when.choose(ask, candidates[0].target, backup, now)
        return when.raised(choice) if self._run_on and raises_delay(candidates[:2], stream=ask.stream) else choice

    def may(
        self, ask: Ask, choice: Choice, role: Role, attempt: int, primary: Candidate, backup: Candidate, now: float
    ) -> Refusal | None:
        """Whether this further attempt may start now; a yes is paid for."""
        if role is not Role.FAILOVER:
            if role is Role.RACER:
                choice = _RACE
            elif attempt == 1 and choice.delay > 0.0:
                self.late(ask, now)
            if (refusal := self._refuses(ask, choice, primary, backup, now)) is not None:
                return refusal
        refusal = self._payments.reserve(ask, role, attempt, backup.target, now)
        if refusal is None and role is Role.HEDGE and self._policy.shadow:
            self.spend.settle(ask.request_id, attempt, 0, 0, now)  # its number counts, its money was never spent
            return Refusal(Reason.SHADOW, f"to {backup.target} after {choice.delay:.3g} s ({choice.source})")
        if refusal is None:
            self._lessons.further(ask.request_id, attempt, choice.delay, now)
        return refusal

    def late(self, ask: Ask, now: float) -> None:
        """The request's first attempt has run alone for the delay, whether or not another may start."""
        self._lessons.late(ask.request_id, now)

    def over(self, event: AttemptEnded) -> None:
        """An attempt has ended: learn from it, and see what it came to."""
        self._lessons.over(event)
        self._payments.over(event)

    def terms(self, target: str) -> Terms:
        """What its attempts cost."""
        return self._shared.terms.get(target, UNKNOWN)

    def finished(self, request_id: str, attempts: int, now: float) -> None:
        """A request of more than one attempt is over: nothing of it is kept, whatever has happened to it."""
        self._lessons.finished(request_id)
        for attempt in range(1, attempts):
            self.spend.settle(request_id, attempt, None, None, now)

    def knows(self, candidates: Sequence[Candidate]) -> None:
        """These are the targets: those of one account are taken to be slow together."""
        self._accounts.update({each.target: each.account for each in candidates})
        self._run_on = self._run_on or any(each.runs_on is not None for each in candidates)
        if self.where is not None:
            self.where.knows([each.target for each in candidates])

    def lineup(self, candidates: Sequence[Candidate], health: Health) -> Lineup | None:
        """In which order these are asked; None: as they are listed."""
        return lineup_of(candidates, health, self.where, self.sessions, self.quota)

    def refreshing(self, now: float) -> Iterator[None]:
        """Choose delays and compare targets anew from what is known by now; in steps, every few seconds."""
        yield from self.when.refreshing(now, self.spend.pace(now))
        if self.where is not None:
            yield from self.where.refreshing(now)

    def sweep(self, targets: Collection[str], now: float) -> None:
        """Give back the memory of all but these targets."""
        self._latency.sweep(now, targets)
        self.when.sweep(targets)
        if self.where is not None:
            self.where.sweep(targets)

    def state(self, now: float) -> dict[str, Any]:
        """What holds now, for people."""
        return {
            "order": {"rule": "fixed"} if self.where is None else self.where.view(),
            "sessions": None if self.sessions is None else len(self.sessions),
            "delay": show(self._rules().spec),
            "delays": self.when.view(),
            "spend": self.spend.state(now),
            "throttle": self._throttle.view(now),
        }

    def _refuses(self, ask: Ask, choice: Choice, primary: Candidate, backup: Candidate, now: float) -> Refusal | None:
        chosen = choice.probability >= 1.0 or self._shared.draw() < choice.probability
        if (refusal := first_refusal(self._guards, ask, backup, now)) is not None:
            return refusal
        if choice.source == WARMUP and not self.spend.may_guess(now):
            return Refusal(Reason.BUDGET, "half of the burst is kept until a delay is learned")
        if not chosen:
            return Refusal(Reason.PROBABILITY, f"hedged with a probability of {choice.probability:.3g}")
        # A racer has all the time that the primary has, which nobody refuses for it.
        if choice is not _RACE and (refusal := self._deadline(ask, backup, now)) is not None:
            return refusal
        if self._asked is not None and (refusal := self._asked.refuses(now)) is not None:
            return refusal
        return self._quota_guard.refuses(ask, primary, backup, now)

    def _pair(self, won: FirstToken, lost: AttemptEnded) -> None:
        ask = Ask(won.request_id, won.stream, won.input_tokens)
        answered = lost.first_token_at is not None  # too late to win, while losers are kept
        until = lost.ended_at if lost.first_token_at is None else lost.first_token_at
        took, waited, now = won.at - won.launched_at, until - lost.launched_at, max(won.at, lost.ended_at)
        if lost.role is Role.PRIMARY:
            both, times, done = (lost.target, won.target), (waited, took), (answered, True)
        else:
            both, times, done = (won.target, lost.target), (took, waited), (True, answered)
        self.when.hedged(ask, *both, *times, now, done=done[0], hedge_done=done[1])

    def _where(self) -> Where | None:
        return where_of(self._policy.order, self._latency, self._cost.of_all, races=self._policy.width > 1)

    def _rules(self) -> Rules:
        policy, delays = self._policy, (self.controls.delay, self._shared.controls.delay)
        spec = _spec(next((delay for delay in delays if delay is not None), policy.delay))
        share = self._limits().hedges
        budget = None if share is None else share.share
        fixed = isinstance(spec, Fixed)
        low, high = (0.0, inf) if fixed else (policy.min_delay, policy.max_delay)
        return Rules(spec, low, high, budget or None, policy.target, policy.warmup_delay)

    def _limits(self) -> Limits:
        limits = self._policy.limits.beside(self._policy.holdout)
        shares = (self.controls.budget, self._shared.controls.budget)
        if (share := next((share for share in shares if share is not None), None)) is None:
            return limits
        given = limits.hedges or Share(share)
        return msgspec.structs.replace(limits, hedges=Share(share, given.burst, given.per_minute))

    def _set_guards(self) -> None:
        policy, controls, conditions = self._policy, self.controls, self._policy.conditions
        everywhere = self._shared.controls
        self._shared.kill_switch.thrown = everywhere.kill_switch
        self._kill_switch.thrown = policy.kill_switch or controls.kill_switch
        guards: list[Guard] = [self._shared.kill_switch, self._kill_switch]
        rollout = policy.rollout if controls.rollout is None else controls.rollout
        rollout = min(rollout, 1.0 if everywhere.rollout is None else everywhere.rollout)
        if rollout < 1.0:
            guards.append(Rollout(rollout))
        guards.append(Background(route=conditions.background))
        if conditions.streaming is not None or conditions.max_tokens_below is not None or conditions.traits:
            below = conditions.max_tokens_below
            guards.append(OnlyIf(streaming=conditions.streaming, max_tokens_below=below, traits=conditions.traits))
        if conditions.max_input_tokens is not None:
            guards.append(TooLarge(conditions.max_input_tokens))
        self._guards = (*guards, stoppable)
        self._compares_costs = isinstance(policy.order, Fastest) and policy.order.within is not None
        hedges = policy.width > 1 or (policy.max_hedges > 0 and self._rules().spec != Off())
        self.experiment.go_by(policy.holdout, self._guards, hedges=hedges and policy.max_attempts > 1)
        self._deadline = Deadline(self._mostly)
        self._quota_guard = QuotaGuard(self.quota, keep=policy.quota_keep, share=policy.quota_share)
        if policy.throttle is not None:
            self._throttle.reconfigure(policy.throttle)
        early = is_early(self._rules().spec)
        self._asked = self._lessons.throttle = None if policy.throttle is None or early else self._throttle
        self._payments.by_number = self._sealed and not self.spend.capped
        if self._sealed and self.where is None and self.when.always is not None:
            self._lessons.observe = None

    def _mostly(self, ask: Ask, backup: Candidate) -> float | None:
        law = self._latency.first_token(backup.target, ask.stream, ask.input_tokens, ask.started_at)
        return None if law is None else law.mostly

    def _correlation(self, primary: str, backup: str) -> float:
        return assumed(same_provider=self._accounts.get(primary) == self._accounts.get(backup))


def _spec(delay: float | str) -> Spec:
    return parse_delay("off" if delay == inf else delay, parse_duration)
