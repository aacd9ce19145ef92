"""The one gate that all extra attempts of a route pass: hedges, racers and failovers alike.

Three accounts must agree to an attempt: the route's, its tenant's (over all routes) and everybody's. Either all of them
pay or none. What is paid at launch is an estimate. When the attempt is over more is put by if it seems to have come to
more, and when its bill is known what was paid is corrected to that. Calls do not wait for anything, so on one loop each
is atomic.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from hedgerow.events import Role
from hedgerow.policy.account import UNLIMITED, Account, Claim, Limits
from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Refusal
from hedgerow.policy.tenants import KEPT, Tenants

_SECOND = 1_000_000


class Funds:
    """What the routes of a process share: everybody's account and those of the tenants. It outlives reloads."""

    __slots__ = ("_at", "everybody", "tenants")

    def __init__(self, everybody: Limits = UNLIMITED, tenant: Limits = UNLIMITED, kept: int = KEPT) -> None:
        """`everybody` limits all routes together, `tenant` each tenant; see `Tenants` for `kept`.

        While tenants have no limits at all, nothing is remembered of them.
        """
        self.everybody = Account("global", everybody)
        self.tenants = Tenants(tenant, kept)
        self._at = 0

    def at(self, now: float) -> int:
        """The time in whole microseconds, which never goes back."""
        at = self._at = max(self._at, int(now * _SECOND))
        return at

    def resize(self, everybody: Limits, tenant: Limits, now: float, kept: int = KEPT) -> None:
        """Other limits from now on; balances and what was spent stay (see `Budget.resize`)."""
        at = self.at(now)
        self.tenants.resize(tenant, kept, at)
        self.everybody.resize(everybody, at)


class _Open(NamedTuple):
    """An attempt that was paid for and is not billed: by account, whether its number counted.

    `more` was put by besides when it was over, and `seems` is what it seemed to have come to then.
    """

    claim: Claim
    tenant: str | None
    route_counted: bool
    everybody_counted: bool
    tenant_counted: bool
    more: Claim | None = None
    seems: tuple[int, int] | None = None


class Spend:
    """The budgets of one route. One object for the route's whole life: a reload resizes it.

    It remembers each attempt that was reserved until it is settled or given back, so every `reserve` that allowed one
    must be followed by one or the other.
    """

    __slots__ = ("_funds", "_open", "_route")

    def __init__(self, route: str, limits: Limits, funds: Funds | None = None) -> None:
        """`funds` are shared with the other routes; left out, nothing else limits this one."""
        self._route = Account(f"route {route}", limits)
        self._funds = Funds() if funds is None else funds
        self._open: dict[tuple[str, int], _Open] = {}

    @property
    def capped(self) -> bool:
        """Whether money or tokens are limited, or may be: tenants come with limits of their own."""
        funds = self._funds
        return self._route.capped or funds.everybody.capped or funds.tenants.limited

    def earn(self, ask: Ask, now: float) -> None:
        """A request has come."""
        funds = self._funds
        for budget in self._route.earning:  # as `Account.earn` does: this is on every request's path
            budget.requests += 1
        for budget in funds.everybody.earning:
            budget.requests += 1
        if funds.tenants.limited:
            funds.tenants.of(ask.tenant, funds.at(now)).earn()

    def earn_failovers(self, ask: Ask, now: float) -> None:
        """A request has come that is held out: the others would be hedged more for it than without an experiment."""
        funds = self._funds
        self._route.earn_failovers()
        funds.everybody.earn_failovers()
        if funds.tenants.limited:
            funds.tenants.of(ask.tenant, funds.at(now)).earn_failovers()

    def reserve(self, ask: Ask, role: Role, attempt: int, cost_nanousd: int, tokens: int, now: float) -> Refusal | None:
        """Pay for an attempt that starts now, or say whose limit it would pass; a primary is no extra attempt.

        Cost and tokens are what the attempt is expected to come to. To be asked last: a yes is paid for. Reserved twice
        without an end between, an attempt is paid for twice, and the first payment stands.
        """
        if role is Role.PRIMARY:
            return None
        funds = self._funds
        claim = Claim.of(role, cost_nanousd, tokens, funds.at(now))
        tenant = ask.tenant if funds.tenants.limited else None
        theirs = None if tenant is None else funds.tenants.of(tenant, claim.at)
        refusal = self._route.lacks(claim) or (theirs and theirs.lacks(claim)) or funds.everybody.lacks(claim)
        if refusal is not None:
            return refusal
        self._open[ask.request_id, attempt] = _Open(
            claim,
            tenant,
            self._route.take(claim),
            funds.everybody.take(claim),
            theirs is not None and theirs.take(claim),
        )
        return None

    def over(
        self, request_id: str, attempt: int, cost_nanousd: int, tokens: int, now: float, *, guessed: bool = False
    ) -> None:
        """The attempt is over and seems to have come to this. To be told once; unknown ones change nothing.

        Until it is settled the larger of this and of what was reserved is put by, whatever the limits. `guessed` as
        in `settle`.
        """
        paid = self._open.get((request_id, attempt))
        if paid is None:
            return
        claim, at = paid.claim, self._funds.at(now)
        more = Claim(claim.failover, max(cost_nanousd - claim.nanousd, 0), max(tokens - claim.tokens, 0), at)
        for account in self._accounts(paid, at):
            account.hold(more)
        seems = (claim.nanousd + more.nanousd, claim.tokens + more.tokens) if guessed else (cost_nanousd, tokens)
        self._open[request_id, attempt] = paid._replace(more=more, seems=seems)

    def settle(
        self,
        request_id: str,
        attempt: int,
        cost_nanousd: int | None,
        tokens: int | None,
        now: float,
        *,
        guessed: bool = False,
    ) -> None:
        """The attempt came to this; None where that is not known: then to what it seemed, else to what was reserved.

        What it came to below the estimate is refunded, unless it is but `guessed`. What it came to above is spent as of
        now, whatever the limits, and counted (`over` in `state`). Attempts that are not known, or settled already,
        change nothing.
        """
        paid = self._open.pop((request_id, attempt), None)
        if paid is None:
            return
        claim, at = paid.claim, self._funds.at(now)
        seems = paid.seems or (claim.nanousd, claim.tokens)
        cost = max(seems[0] if cost_nanousd is None else cost_nanousd, claim.nanousd if guessed else 0)
        used = max(seems[1] if tokens is None else tokens, claim.tokens if guessed else 0)
        for account in self._accounts(paid, at):
            if paid.more is not None:
                account.release(paid.more, at)
            account.correct(claim, cost, used, at)

    def give_back(self, request_id: str, attempt: int, now: float) -> None:
        """The attempt was never sent: what was paid is refunded, its number too. Unknown ones change nothing."""
        paid = self._open.pop((request_id, attempt), None)
        if paid is None:
            return
        at = self._funds.at(now)
        self._route.give_back(paid.claim, paid.route_counted, at)
        self._funds.everybody.give_back(paid.claim, paid.everybody_counted, at)
        if paid.tenant is not None:
            self._funds.tenants.of(paid.tenant, at).give_back(paid.claim, paid.tenant_counted, at)

    def _accounts(self, paid: _Open, at: int) -> Iterator[Account]:
        """That have paid for it."""
        yield self._route
        yield self._funds.everybody
        if paid.tenant is not None:
            yield self._funds.tenants.of(paid.tenant, at)

    def resize(self, limits: Limits, now: float) -> None:
        """Other limits for the route from now on; balances and what was spent stay (see `Budget.resize`)."""
        self._route.resize(limits, self._funds.at(now))

    def may_guess(self, now: float) -> bool:
        """Whether a hedge may be paid for whose delay is not learned yet, see `Account.may_guess`."""
        return self._route.may_guess(self._funds.at(now))

    def pace(self, now: float) -> float:
        """What part of the route's budget of hedges to plan with, see `Account.pace`."""
        return self._route.pace(self._funds.at(now))

    def state(self, now: float, tenant: str | None = None) -> Mapping[str, Any]:
        """What is left and what was spent, as plain data: the route, everybody, and the tenant if one is named."""
        funds = self._funds
        at = funds.at(now)
        account = None if tenant is None else funds.tenants.get(tenant)
        return {
            "open": len(self._open),
            "route": self._route.state(at),
            "global": funds.everybody.state(at),
            "tenants": {"known": len(funds.tenants), "kept": funds.tenants.kept},
            "tenant": account and account.state(at),
        }
