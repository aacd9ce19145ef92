"""Whatever happens, in whatever order: no limit is passed, by number or by money, and nobody pays alone."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.events import Role
from hedgerow.policy.account import Limits
from hedgerow.policy.ask import Ask
from hedgerow.policy.budget import Share
from hedgerow.policy.spend import Funds, Spend

SECONDS = {"hour": 3_600, "day": 86_400, "month": 31 * 86_400, "minute": 60}
ROUTES = ("one", "other")
TENANTS = ("t", "u", "v")

shares = st.builds(
    Share, st.sampled_from([0.1, 1 / 3, 0.5, 1.0]), st.sampled_from([1, 1.5, 2, 3]), st.sampled_from([0, 0.5, 1 / 3, 2])
)
caps = st.sampled_from([9, 10, 25])
columns = st.sampled_from(["nanousd_per_hour", "nanousd_per_day", "nanousd_per_month", "tokens_per_minute"])
limits = st.one_of(  # few at a time, or everything is refused by one of them
    st.just(Limits()),
    st.builds(Limits, shares, shares),
    st.builds(lambda column, cap: msgspec.convert({column: cap}, Limits), columns, caps),
    st.builds(Limits, shares, st.none(), caps, st.none(), st.none(), caps),
)

routes, tenants = st.sampled_from(ROUTES), st.sampled_from(TENANTS)
roles = st.sampled_from([Role.HEDGE, Role.HEDGE, Role.FAILOVER, Role.FAILOVER, Role.RACER, Role.PRIMARY])
costs = st.sampled_from([0, 1, 4, 5])
amounts = st.sampled_from([None, 0, 1, 4, 5, 6])


class Request(msgspec.Struct, frozen=True):
    route: str
    tenant: str


class Reserve(msgspec.Struct, frozen=True):
    route: str
    tenant: str
    role: Role
    cost: int
    tokens: int


class End(msgspec.Struct, frozen=True):
    """Some attempt that runs is over; `sent` False gives it back."""

    which: int
    cost: int | None
    tokens: int | None
    sent: bool


class Wait(msgspec.Struct, frozen=True):
    seconds: int


class Reload(msgspec.Struct, frozen=True):
    scope: str
    limits: Limits
    kept: int


Event = Request | Reserve | End | Wait | Reload

_reserves = st.builds(Reserve, routes, tenants, roles, costs, costs)
_waits = st.builds(Wait, st.sampled_from([1, 20, 60, 61, 1_800, 3_600, 3_661, 43_200, 86_400, 88_000, 31 * 86_400]))
_reloads_of_one = st.builds(Reload, st.sampled_from([*ROUTES, "tenant", "global"]), limits, st.integers(1, 3))
_often = st.one_of(
    st.builds(Request, routes, tenants),
    _reserves,
    _reserves,
    _reserves,
    st.builds(End, st.integers(0, 99), amounts, amounts, st.sampled_from([True, True, False])),
    st.builds(Wait, st.sampled_from([1, 20, 60])),
)
_blocks = st.one_of(
    st.lists(_often, min_size=5, max_size=40),
    st.lists(_often, min_size=5, max_size=40),
    st.lists(_waits | _reloads_of_one, min_size=1, max_size=2),
)
_events = st.lists(_blocks, min_size=1, max_size=8).map(lambda blocks: [event for block in blocks for event in block])
_reloads = st.tuples(
    *(st.builds(Reload, st.just(scope), limits, st.integers(1, 3)) for scope in (*ROUTES, "tenant", "global"))
)
everything: st.SearchStrategy[list[Event]] = st.builds(lambda first, others: [*first, *others], _reloads, _events)
"""All scopes get limits first."""


class Books:
    """One scope by the definition: every amount that was spent, and the number of attempts that were ever granted."""

    def __init__(self, limits: Limits) -> None:
        self.entries: list[list[int]] = []
        """When, money and tokens; a refund changes them."""
        self.over = [0, 0]
        self.attempts = [0, 0]  # hedges, failovers
        self.granted = [Fraction(0), Fraction(0)]
        self._earning: list[Share | None] = [None, None]
        self.reload(limits)

    def reload(self, limits: Limits) -> None:
        """A share earns from the first reload that sets it, and goes on while it is switched off."""
        self.limits = limits
        for kind, share in enumerate((limits.hedges, limits.failovers)):
            if share is not None and self._earning[kind] is None:
                self.granted[kind] = Fraction(share.burst)
            self._earning[kind] = share or self._earning[kind]

    def earn(self, requests: int, seconds: int) -> None:
        for kind, share in enumerate(self._earning):
            if share is not None:
                self.granted[kind] += _exact(share.share) * requests + _exact(share.per_minute) * seconds / 60

    def counts(self, failover: bool) -> bool:
        return (self.limits.failovers if failover else self.limits.hedges) is not None

    def caps(self) -> Mapping[str, tuple[int | None, int]]:
        """By window: the limit, and which column of the entries it is about."""
        limits = self.limits
        return {
            "hour": (limits.nanousd_per_hour, 1),
            "day": (limits.nanousd_per_day, 1),
            "month": (limits.nanousd_per_month, 1),
            "minute": (limits.tokens_per_minute, 2),
        }

    def since(self, start: Fraction | int, column: int) -> int:
        return sum(entry[column] for entry in self.entries if entry[0] >= start)

    def check(self, now: int, *, money: bool) -> None:
        for attempts, granted in zip(self.attempts, self.granted, strict=True):
            assert attempts <= granted
        for window, (cap, column) in self.caps().items():
            assert not money or cap is None or self.since(now - SECONDS[window], column) <= cap


def _exact(number: float) -> Fraction:
    return Fraction(round(number * 10**6), 10**6)


class Paid(msgspec.Struct):
    """An attempt that runs: how it was reserved, its entry in each scope's books, whether its number counts."""

    event: Reserve
    number: int
    entries: list[tuple[Books, list[int], bool]]


class Model:
    """The real thing beside its definition."""

    def __init__(self) -> None:
        self.now = self.number = 0
        self.tenant_limits = Limits()
        self.funds = Funds()
        self.spends = {route: Spend(route, Limits(), self.funds) for route in ROUTES}
        self.books = {scope: Books(Limits()) for scope in (*ROUTES, "global")}
        self.tenants: dict[str, Books] = {}
        self.running: list[Paid] = []

    def _scopes(self, route: str, tenant: str) -> list[Books]:
        """Tenants are known from their first request, and only while they have limits."""
        scopes = [self.books[route], self.books["global"]]
        if self.tenant_limits != Limits():
            scopes.append(self.tenants.setdefault(tenant, Books(self.tenant_limits)))
        return scopes

    def play(self, event: Event) -> None:
        match event:
            case Request(route, tenant):
                for books in self._scopes(route, tenant):
                    books.earn(1, 0)
                self.spends[route].earn(Ask("", stream=True, tenant=tenant), self.now)
            case Wait(seconds):
                self.now += seconds
                for books in (*self.books.values(), *self.tenants.values()):
                    books.earn(0, seconds)
            case Reserve():
                self._reserve(event)
            case End() if self.running:
                self._end(self.running.pop(event.which % len(self.running)), event)
            case Reload(scope, limits, kept):
                self._reload(scope, limits, kept)

    def _reserve(self, event: Reserve) -> None:
        self.number += 1
        ask = Ask("r", stream=True, tenant=event.tenant)
        spend, scopes = self.spends[event.route], self._scopes(event.route, event.tenant)
        before = spend.state(self.now, event.tenant)
        refusal = spend.reserve(ask, event.role, self.number, event.cost, event.tokens, self.now)
        if refusal is not None:
            after = spend.state(self.now, event.tenant)
            assert all(before[key] == after[key] for key in ("open", "route", "global"))
            assert before["tenant"] in (None, after["tenant"])
            self._check_reason(refusal.detail, event)
        elif event.role is not Role.PRIMARY:
            failover = event.role is Role.FAILOVER
            paid = [(books, [self.now, event.cost, event.tokens], books.counts(failover)) for books in scopes]
            for books, entry, counted in paid:
                books.entries.append(entry)
                books.attempts[failover] += counted
                books.check(self.now, money=True)
            self.running.append(Paid(event, self.number, paid))

    def _check_reason(self, detail: str, event: Reserve) -> None:
        """Money is refused only if the limit would be passed in a window that is a sixtieth longer."""
        scope, _, limit = detail.partition(": ")
        books = self.books.get(scope.removeprefix("route "))
        window = limit.rsplit(" ", 1)[1]
        if books is not None and window in SECONDS and "requests" not in limit:
            cap, column = books.caps()[window]
            start = self.now - Fraction(SECONDS[window] * 61, 60)
            assert cap is not None
            assert books.since(start, column) + (event.cost if column == 1 else event.tokens) > cap

    def _end(self, paid: Paid, event: End) -> None:
        spend, reserved = self.spends[paid.event.route], paid.event
        cost = reserved.cost if event.cost is None else event.cost
        tokens = reserved.tokens if event.tokens is None else event.tokens
        if event.sent:
            spend.settle("r", paid.number, event.cost, event.tokens, self.now)
        else:
            spend.give_back("r", paid.number, self.now)
            cost = tokens = 0
        spend.settle("r", paid.number, 1_000, 1_000, self.now)  # once more, which must change nothing
        for books, entry, counted in paid.entries:
            books.attempts[reserved.role is Role.FAILOVER] -= counted and not event.sent
            over = (max(cost - reserved.cost, 0), max(tokens - reserved.tokens, 0))
            entry[1:] = min(cost, reserved.cost), min(tokens, reserved.tokens)
            books.entries.append([self.now, *over])
            books.over = [books.over[0] + over[0], books.over[1] + over[1]]

    def _reload(self, scope: str, limits: Limits, kept: int) -> None:
        if scope == "tenant":
            self.tenant_limits = limits
            for books in self.tenants.values():
                books.reload(limits)
        else:
            self.books[scope].reload(limits)
        if scope in ROUTES:
            self.spends[scope].resize(limits, self.now)
        else:
            self.funds.resize(self.books["global"].limits, self.tenant_limits, self.now, kept)

    def check(self) -> None:
        for books in (*self.books.values(), *self.tenants.values()):
            books.check(self.now, money=False)
        for route, spend in self.spends.items():
            state: Mapping[str, Any] = spend.state(self.now)
            for account, books in ((state["route"], self.books[route]), (state["global"], self.books["global"])):
                assert [account["over"]["nanousd"], account["over"]["tokens"]] == books.over


@settings(max_examples=300)
@given(everything)
def test_no_limit_is_ever_passed_and_all_scopes_pay_or_none(happened: list[Event]) -> None:
    model = Model()
    for event in happened:
        model.play(event)
        model.check()
    for spend in model.spends.values():
        assert spend.state(model.now)["open"] == sum(model.spends[paid.event.route] is spend for paid in model.running)
