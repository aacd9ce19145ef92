"""One scope's limits on extra attempts, and what was spent of them: a route's, a tenant's, or everybody's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from hedgerow.events import Reason, Role
from hedgerow.policy.budget import Budget, Share
from hedgerow.policy.plan import Refusal
from hedgerow.policy.price import show_dollars
from hedgerow.policy.window_sum import WindowSum

_SECOND = 1_000_000
PACE = 0.05
"""How far plans may aim beside the budget itself. Twice as much loses more in slow spells than it wins elsewhere."""
HOUR, DAY, MONTH, MINUTE = 3_600 * _SECOND, 86_400 * _SECOND, 31 * 86_400 * _SECOND, 60 * _SECOND
"""Lengths of windows in microseconds. A month is 31 days, so that no month of the calendar passes its limit."""


class Limits(msgspec.Struct, frozen=True, gc=False):
    """What a scope may spend on extra attempts; None sets no limit.

    `hedges` also holds for racers, `failovers` for attempts after a failure. Money (in nano-dollars) and tokens are
    those of all extra attempts, and hold for any window of that length. Raises `ValueError` for negative ones.
    """

    hedges: Share | None = None
    failovers: Share | None = None
    nanousd_per_hour: int | None = None
    nanousd_per_day: int | None = None
    nanousd_per_month: int | None = None
    tokens_per_minute: int | None = None

    def __post_init__(self) -> None:
        for name in ("nanousd_per_hour", "nanousd_per_day", "nanousd_per_month", "tokens_per_minute"):
            if (getattr(self, name) or 0) < 0:
                raise ValueError(f"{name} must be at least 0")

    def beside(self, holdout: float) -> Limits:
        """The same where this share of requests is held out: the others have no more hedges a minute than without."""
        hedges = self.hedges
        if hedges is None or not holdout or not hedges.per_minute:
            return self
        per_minute = max(hedges.per_minute * (1.0 - holdout), 1e-6)  # at least one of the millionths it counts in
        return msgspec.structs.replace(self, hedges=msgspec.structs.replace(hedges, per_minute=per_minute))

    @property
    def caps(self) -> Sequence[int | None]:
        """By hour, day, month and minute."""
        return (self.nanousd_per_hour, self.nanousd_per_day, self.nanousd_per_month, self.tokens_per_minute)


UNLIMITED = Limits()


class Claim(NamedTuple):
    """What an attempt takes out of every account: estimated at first, then what it came to."""

    failover: bool
    nanousd: int
    tokens: int
    at: int
    """When it was launched, in microseconds."""

    @classmethod
    def of(cls, role: Role, nanousd: int, tokens: int, at: int) -> Claim:
        return cls(role is Role.FAILOVER, max(nanousd, 0), max(tokens, 0), at)


class Account:
    """Ask `lacks` first, then `take`; a claim that was taken is corrected when its attempt is over.

    Money and tokens are counted whether or not they have a limit, so that one that a reload brings holds at once. Times
    are whole microseconds and must not decrease.
    """

    __slots__ = (
        "_caps",
        "_failovers",
        "_hedges",
        "_holding",
        "_money",
        "_tokens",
        "capped",
        "earning",
        "limits",
        "name",
        "over",
    )

    def __init__(self, name: str, limits: Limits) -> None:
        """`name` is what refusals call it."""
        self.name = name
        self._hedges: Budget | None = None
        self._failovers: Budget | None = None
        self._money = (WindowSum(HOUR), WindowSum(DAY), WindowSum(MONTH))
        self._tokens = WindowSum(MINUTE)
        self.over = {"attempts": 0, "nanousd": 0, "tokens": 0}
        """Attempts that came to more than was reserved for them, and by how much in all."""
        self.resize(limits, 0)

    def resize(self, limits: Limits, at: int) -> None:
        """Other limits from now on. Balances and what was spent stay; a share without a limit keeps its balance."""
        self.limits = limits
        self._hedges = _resized(self._hedges, limits.hedges, at)
        self._failovers = _resized(self._failovers, limits.failovers, at)
        self._hold()
        self._caps = limits.caps
        self.capped = any(cap is not None for cap in self._caps)
        """Whether it limits money or tokens."""

    def _hold(self) -> None:
        """By whether an attempt is a failover: the budget that holds for it."""
        self._holding = (
            None if self.limits.hedges is None else self._hedges,
            None if self.limits.failovers is None else self._failovers,
        )
        self.earning = tuple(budget for budget in (self._hedges, self._failovers) if budget is not None)
        """The budgets that every request earns for."""

    def earn(self) -> None:
        """A request has come."""
        for budget in self.earning:
            budget.requests += 1

    def earn_failovers(self) -> None:
        """A request has come that is hedged in no case."""
        if self._failovers is not None:
            self._failovers.requests += 1

    def lacks(self, claim: Claim) -> Refusal | None:
        """The limit that this claim would pass, None where there is none."""
        budget = self._holding[claim.failover]
        if budget is not None and not budget.affords(claim.at):
            return self._refuse(f"failovers, {budget.settings}" if claim.failover else str(budget.settings))
        return self._lacks_funds(claim) if self.capped else None

    def _lacks_funds(self, claim: Claim) -> Refusal | None:
        *money, tokens = self._caps
        for cap, window, length in zip(money, self._money, ("an hour", "a day", "a month"), strict=True):
            if cap is not None and window.sum(claim.at) + claim.nanousd > cap:
                return self._refuse(f"{show_dollars(cap)} {length}")
        if tokens is not None and self._tokens.sum(claim.at) + claim.tokens > tokens:
            return self._refuse(f"{tokens} tokens a minute")
        return None

    def _refuse(self, limit: str) -> Refusal:
        return Refusal(Reason.BUDGET, f"{self.name}: {limit}")

    def take(self, claim: Claim) -> bool:
        """Spend what `lacks` has just allowed; whether its number counts, too."""
        budget = self._holding[claim.failover]
        if budget is not None:
            budget.pay()
        self.hold(claim)
        return budget is not None

    def hold(self, claim: Claim) -> None:
        """Put its money and tokens by, whatever the limits."""
        if claim.nanousd:
            for window in self._money:
                window.add(claim.nanousd, claim.at)
        if claim.tokens:
            self._tokens.add(claim.tokens, claim.at)

    def release(self, claim: Claim, at: int) -> None:
        """Give back all that was put by for it."""
        if claim.nanousd:
            for window in self._money:
                window.give_back(claim.nanousd, claim.at, at)
        if claim.tokens:
            self._tokens.give_back(claim.tokens, claim.at, at)

    def correct(self, claim: Claim, nanousd: int, tokens: int, at: int) -> None:
        """The attempt came to this: less is refunded where it was taken, more is spent now and counted in `over`."""
        money, extra = nanousd - claim.nanousd, tokens - claim.tokens
        if money:
            for window in self._money:
                _correct(window, money, claim.at, at)
        if extra:
            _correct(self._tokens, extra, claim.at, at)
        if money > 0 or extra > 0:
            self.over["attempts"] += 1
            self.over["nanousd"] += max(money, 0)
            self.over["tokens"] += max(extra, 0)

    def give_back(self, claim: Claim, counted: bool, at: int) -> None:
        """The attempt was never sent: all of it is refunded. `counted` is what `take` said."""
        budget = self._failovers if claim.failover else self._hedges
        if counted and budget is not None:
            budget.give_back()
        self.correct(claim, 0, 0, at)

    def copy(self, name: str) -> Account:
        """Another of this name in the same state, with nothing counted as over."""
        other = Account(name, self.limits)
        other._hedges = self._hedges and self._hedges.copy()
        other._failovers = self._failovers and self._failovers.copy()
        hour, day, month = self._money
        other._money = (hour.copy(), day.copy(), month.copy())
        other._tokens = self._tokens.copy()
        other._hold()
        return other

    def worsen(self, other: Account, at: int) -> None:
        """Be as poor as both this one and `other`, limit by limit. Both must have the same limits."""
        for mine, its in ((self._hedges, other._hedges), (self._failovers, other._failovers)):
            if mine is not None and its is not None:
                mine.worsen(its, at)
        for window, of_other in zip((*self._money, self._tokens), (*other._money, other._tokens), strict=True):
            window.worsen(of_other, at)

    def may_guess(self, at: int) -> bool:
        """Whether half of the burst of hedges or more is left: the other half is for when delays are learned."""
        budget = self._holding[0]
        if budget is None:
            return True
        state = budget.state(at)
        return 2.0 * state["balance"] >= state["burst"]

    def pace(self, at: int) -> float:
        """What part of the budget of hedges to plan with: 1 with half of the burst left, `PACE` more with all of it.

        So a plan neither leaves the budget unspent nor runs it dry, which would refuse hedges by chance.
        """
        budget = self._holding[0]
        if budget is None:
            return 1.0
        state = budget.state(at)
        return round(1.0 + PACE * (2.0 * state["balance"] / state["burst"] - 1.0), 2)

    def state(self, at: int) -> Mapping[str, Any]:
        """Balances, what was spent, and the limits, as plain data."""
        hedges, failovers = self._holding
        *money, tokens = (
            {"spent": window.sum(at), "limit": cap}
            for window, cap in zip((*self._money, self._tokens), self._caps, strict=True)
        )
        return {
            "hedges": hedges and hedges.state(at),
            "failovers": failovers and failovers.state(at),
            "nanousd": dict(zip(("hour", "day", "month"), money, strict=True)),
            "tokens": {"minute": tokens},
            "over": dict(self.over),
        }


def _resized(budget: Budget | None, share: Share | None, at: int) -> Budget | None:
    if share is None:
        return budget
    if budget is None:
        return Budget.of(share)
    budget.resize(share, at)
    return budget


def _correct(window: WindowSum, difference: int, added_at: int, at: int) -> None:
    if difference > 0:
        window.add(difference, at)
    else:
        window.give_back(-difference, added_at, at)
