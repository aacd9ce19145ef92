"""The judgement of one route: when a hedge is due, whether it may start, and what both learn from.

It composes the small objects of this package and keeps their one order: what costs nothing to ask is asked first, the
budget, whose yes is paid for, last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import Any

import msgspec

from hedgerow.events import AttemptEnded, DelayRuleChanged, Event, FirstToken, Outcome, Reason, Role
from hedgerow.policy.account import Limits
from hedgerow.policy.ask import Ask
from hedgerow.policy.auto import PROMPTS
from hedgerow.policy.budget import Share
from hedgerow.policy.controls import Controls
from hedgerow.policy.correlation import assumed
from hedgerow.policy.delay import Fixed, Spec, parse_delay, show
from hedgerow.policy.failures import blames_target
from hedgerow.policy.guards import Background, Deadline, Guard, KillSwitch, OnlyIf, Rollout, TooLarge, first_refusal
from hedgerow.policy.latency.cells import LatencyModel
from hedgerow.policy.latency.samples import sample_of, whole_sample_of
from hedgerow.policy.outage import Throttle
from hedgerow.policy.plan import Candidate, Refusal
from hedgerow.policy.price import Price
from hedgerow.policy.quota import Quota, QuotaGuard
from hedgerow.policy.settings import Policy
from hedgerow.policy.spend import Funds, Spend
from hedgerow.policy.when import Choice, Rules, When
from hedgerow.room import RateLimits

EXPECTED_OUTPUT = 500
"""Tokens that an answer is expected to have where the client set no limit; corrected when the attempt is over."""
_FREE = Price()


class Shared:
    """What the routes of a process have in common. `draw` gives numbers in [0, 1)."""

    __slots__ = ("controls", "draw", "funds", "kill_switch", "prices", "quota")

    def __init__(
        self, draw: Callable[[], float], *, funds: Funds | None = None, prices: Mapping[str, Price] | None = None
    ) -> None:
        self.draw = draw
        self.funds = Funds() if funds is None else funds
        self.prices = dict(prices or {})
        self.quota = Quota()
        self.kill_switch = KillSwitch("all routes")
        self.controls = Controls()


def _no_chance() -> float:
    return 0.0


class Judge:
    """See the module. Made once for a route; a reload changes its policy and keeps what it knows."""

    def __init__(self, name: str, policy: Policy, shared: Shared | None = None) -> None:
        self._shared = shared = Shared(_no_chance) if shared is None else shared
        self._name = name
        self.controls = Controls()
        self._latency = LatencyModel(policy.learning)
        self._throttle = Throttle()
        self.spend = Spend(name, policy.limits, shared.funds)
        self._kill_switch = KillSwitch(f"route {name}")
        self._lost: dict[str, AttemptEnded] = {}  # superseded, until their winner's first token is told
        self._due: dict[str, float] = {}  # requests past their delay, and the delay
        self._accounts: dict[str, str] = {}
        self._policy = policy
        self.when = When(self._latency, self._rules(), cost=self._hedge_cost, correlation=self._correlation)
        self._set_guards()

    def change(self, policy: Policy, now: float) -> None:
        """Go on with another policy; statistics and balances stay."""
        self._policy = policy
        self._latency.resize(policy.learning)
        self.apply(now)

    def apply(self, now: float) -> None:
        """The controls have changed: from now on they hold."""
        self.spend.resize(self._limits(), now)
        self.when.change(self._rules())
        self._set_guards()

    def arrived(self, ask: Ask, now: float) -> None:
        """A request has come: it earns its share of the budgets."""
        self.spend.earn(ask, now)

    def choose(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> Choice:
        """When this request is to be hedged."""
        backups = (candidates[1].target,) if len(candidates) > 1 else ()
        return self.when.choose(ask, candidates[0].target, backups, now)

    def may(
        self, ask: Ask, choice: Choice, role: Role, attempt: int, primary: Candidate, backup: Candidate, now: float
    ) -> Refusal | None:
        """Whether this further attempt may start now; a yes is paid for."""
        if role is Role.HEDGE and (refusal := self._refuses(ask, choice, primary, backup, now)) is not None:
            return refusal
        output = EXPECTED_OUTPUT if ask.max_output_tokens is None else ask.max_output_tokens
        cost = self._shared.prices.get(backup.target, _FREE).cost(ask.input_tokens, output)
        refusal = self.spend.reserve(ask, role, attempt, cost, ask.input_tokens + output, now)
        if refusal is None and role is Role.HEDGE and self._policy.shadow:
            self.spend.settle(ask.request_id, attempt, None, None, now)
            return Refusal(Reason.SHADOW, f"to {backup.target} after {choice.delay:.3g} s ({choice.source})")
        return refusal

    def launched(self, ask: Ask, candidate: Candidate, role: Role, now: float) -> None:
        """An attempt is on its way: it uses up what its target has left of its rate limit."""
        self._shared.quota.spent(candidate, ask, now, hedge=role is Role.HEDGE)

    def limited(self, candidate: Candidate, retry_after: float | None, now: float) -> None:
        """A target turned an attempt away by its rate limit."""
        self._shared.quota.limited(candidate, retry_after, now)

    def wants_report(self, candidate: Candidate, now: float) -> bool:
        """Whether it is worth the time to look for a report in this target's answer."""
        return self._shared.quota.due(candidate, now)

    def reported(self, candidate: Candidate, limits: RateLimits, now: float) -> None:
        """A target said what is left of its rate limit."""
        self._shared.quota.learn(candidate, limits, now)

    def notices(self) -> Iterator[DelayRuleChanged]:
        """What an operator should hear of the delays."""
        for notice in self.when.notices():
            yield DelayRuleChanged(self._name, notice.target, notice.stream, notice.straggles, notice.detail, notice.at)

    def hear(self, event: Event) -> None:
        """Learn from what happened."""
        if isinstance(event, FirstToken):
            self._answered(event)
        elif isinstance(event, AttemptEnded):
            self._over(event)

    def knows(self, candidates: Sequence[Candidate]) -> None:
        """These are the targets: those of one account are taken to be slow together."""
        self._accounts.update({each.target: each.account for each in candidates})

    def state(self, now: float) -> dict[str, Any]:
        """What holds now, for people."""
        return {
            "delay": show(self._rules().spec),
            "spend": self.spend.state(now),
            "throttle": self._throttle.view(now),
            "correction": self.when.factor,
        }

    def _refuses(self, ask: Ask, choice: Choice, primary: Candidate, backup: Candidate, now: float) -> Refusal | None:
        if ask.request_id not in self._due:
            self._due[ask.request_id] = choice.delay
            self._throttle.first(True, now)
        if (refusal := first_refusal(self._guards, ask, backup, now)) is not None:
            return refusal
        if choice.probability < 1.0 and self._shared.draw() >= choice.probability:
            return Refusal(Reason.PROBABILITY, f"hedged with a probability of {choice.probability:.3g}")
        self.when.due(choice)
        if (refusal := self._deadline(ask, backup, now)) is not None:
            return refusal
        if self._policy.throttle is not None and (refusal := self._throttle.refuses(now)) is not None:
            return refusal
        return self._quota.refuses(ask, primary, backup, now)

    def _answered(self, event: FirstToken) -> None:
        took, late_after = event.at - event.launched_at, self._due.pop(event.request_id, None)
        self._latency.observe(event.target, event.stream, event.input_tokens, took, False, event.at)
        if event.role is not Role.PRIMARY:
            self._throttle.other(late_after is not None and took > late_after, event.at)
        elif late_after is None:
            self._throttle.first(False, event.at)
        lost = self._lost.pop(event.request_id, None)
        if lost is not None and Role.FAILOVER not in (lost.role, event.role):
            self._pair(event, lost, took)

    def _pair(self, won: FirstToken, lost: AttemptEnded, took: float) -> None:
        ask = Ask(won.request_id, won.stream, won.input_tokens)
        waited = lost.ended_at - lost.launched_at
        if lost.role is Role.PRIMARY:
            both, times, done = (lost.target, won.target), (waited, took), (False, True)
        else:
            both, times, done = (won.target, lost.target), (took, waited), (True, False)
        self.when.hedged(ask, *both, *times, won.at, done=done[0], hedge_done=done[1])

    def _over(self, event: AttemptEnded) -> None:
        failure = None if event.failure is None else event.failure.kind
        key = (event.target, event.stream, event.input_tokens)
        times = (event.launched_at, event.ended_at)
        if event.first_token_at is None and (sample := sample_of(event.outcome, failure, None, *times)) is not None:
            self._latency.observe(*key, *sample, event.ended_at)
        if event.stream and (whole := whole_sample_of(event.outcome, failure, *times)) is not None:
            self._latency.observe_whole(*key, *whole, event.ended_at)
        blamed = event.failure is not None and blames_target(event.failure)
        if event.role is Role.PRIMARY and event.outcome is not Outcome.SUPERSEDED:
            was_late = self._due.pop(event.request_id, None) is not None
            if blamed and not was_late and event.first_token_at is None:
                self._throttle.first(True, event.ended_at)
        elif blamed and event.role is not Role.PRIMARY and event.first_token_at is None:
            self._throttle.other(True, event.ended_at)
        if event.outcome is Outcome.SUPERSEDED:
            self._lost[event.request_id] = event
        if event.role is not Role.PRIMARY:
            self._settle(event)

    def _settle(self, event: AttemptEnded) -> None:
        if event.failure is not None and event.failure.unsent:
            self.spend.give_back(event.request_id, event.attempt, event.ended_at)
            return
        usage = event.usage
        made = None if usage is None else usage.output_tokens
        read = event.input_tokens if usage is None or usage.input_tokens is None else usage.input_tokens
        if made is None and event.outcome not in (Outcome.SUPERSEDED, Outcome.FAILED):
            self.spend.settle(event.request_id, event.attempt, None, None, event.ended_at)
            return
        price = self._shared.prices.get(event.target, _FREE)
        cost = price.cost(read, made or 0)
        self.spend.settle(event.request_id, event.attempt, cost, read + (made or 0), event.ended_at)

    def _rules(self) -> Rules:
        policy, controls = self._policy, self.controls
        spec = _spec(policy.delay if controls.delay is None else controls.delay)
        share = self._limits().hedges
        budget = None if share is None else share.share
        fixed = isinstance(spec, Fixed)
        low, high = (0.0, inf) if fixed else (policy.min_delay, policy.max_delay)
        return Rules(spec, low, high, budget or None, policy.target, policy.warmup_delay)

    def _limits(self) -> Limits:
        limits, share = self._policy.limits, self.controls.budget
        if share is None:
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
            guards.append(
                OnlyIf(
                    streaming=conditions.streaming,
                    max_tokens_below=conditions.max_tokens_below,
                    traits=conditions.traits,
                )
            )
        if conditions.max_input_tokens is not None:
            guards.append(TooLarge(conditions.max_input_tokens))
        self._guards = tuple(guards)
        self._deadline = Deadline(self._expected)
        self._quota = QuotaGuard(self._shared.quota, keep=policy.quota_keep, share=policy.quota_share)
        if policy.throttle is not None:
            self._throttle.reconfigure(policy.throttle)

    def _expected(self, ask: Ask, backup: Candidate) -> float | None:
        law = self._latency.first_token(backup.target, ask.stream, ask.input_tokens, ask.started_at)
        return None if law is None else law.quantile(0.5)

    def _hedge_cost(self, target: str, size: int) -> float:
        price = self._shared.prices.get(target)
        return float(PROMPTS[size]) if price is None else max(float(price.cost(PROMPTS[size], EXPECTED_OUTPUT)), 1.0)

    def _correlation(self, primary: str, backup: str) -> float:
        return assumed(same_provider=self._accounts.get(primary) == self._accounts.get(backup))


def _spec(delay: float | str) -> Spec:
    return parse_delay("off" if delay == inf else delay, _seconds)


def _seconds(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    text = str(value)
    for unit, factor in (("ms", 0.001), ("s", 1.0), ("", 1.0)):
        if text.endswith(unit):
            try:
                return float(text.removesuffix(unit)) * factor
            except ValueError:
                continue
    return None
