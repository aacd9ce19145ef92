"""The accounts of tenants, a bounded number of them, so that forgetting one is no way around its limits."""

from __future__ import annotations

from collections import OrderedDict
from zlib import crc32

from hedgerow.policy.account import UNLIMITED, Account, Limits

KEPT = 1_000
"""Tenants whose accounts are kept, unless said otherwise."""

_HEIRS = 256


class Tenants:
    """One account for each tenant, made when it first comes; the one not heard of for longest makes room.

    A tenant that is forgotten leaves what it has spent to its *heir*, one of 256 that tenants are dealt to by their
    name: an account as poor as each of those forgotten. Whoever comes new starts with a copy of its heir. So a tenant
    that comes back has never more than it would have, had it stayed, however many came between, and each tenant's
    limits hold for any `kept`. The price is that a newcomer may start poorer than it should, until what its heir took
    over is earned or old enough; with a `kept` that is not reached this never happens.

    An account takes 1.5 KB until something is spent, then 4 KB, and 13 KB at most, with amounts in every part of every
    window.
    """

    __slots__ = ("_accounts", "_heirs", "_limits", "kept", "limited")

    def __init__(self, limits: Limits = UNLIMITED, kept: int = KEPT) -> None:
        """`limits` are those of each tenant. Raises `ValueError` unless one may be kept."""
        self._accounts: OrderedDict[str, Account] = OrderedDict()
        self._heirs: dict[int, Account] = {}
        self._set(limits, kept)

    def _set(self, limits: Limits, kept: int) -> None:
        if kept < 1:
            raise ValueError("at least one tenant must be kept")
        self._limits = limits
        self.kept = kept
        self.limited = limits != UNLIMITED
        """Whether tenants have any limit; else nobody need ask for their accounts."""

    def __len__(self) -> int:
        return len(self._accounts)

    def of(self, tenant: str, at: int) -> Account:
        """The tenant's account, which is from now on the one last heard of."""
        account = self._accounts.get(tenant)
        if account is None:
            heir = self._heirs.get(_heir(tenant))
            account = Account(_name(tenant), self._limits) if heir is None else heir.copy(_name(tenant))
            self._accounts[tenant] = account
            self._shrink(at)
        else:
            self._accounts.move_to_end(tenant)
        return account

    def get(self, tenant: str) -> Account | None:
        """The tenant's account, if it is kept."""
        return self._accounts.get(tenant)

    def _shrink(self, at: int) -> None:
        while len(self._accounts) > self.kept:
            tenant, account = self._accounts.popitem(last=False)
            heir = self._heirs.setdefault(_heir(tenant), account)
            if heir is not account:
                heir.worsen(account, at)

    def resize(self, limits: Limits, kept: int, at: int) -> None:
        """Other limits, and another number of tenants, from now on; takes some 20 us for each tenant kept."""
        self._set(limits, kept)
        for account in (*self._accounts.values(), *self._heirs.values()):
            account.resize(limits, at)
        self._shrink(at)


def _heir(tenant: str) -> int:
    return crc32(tenant.encode("utf-8", "surrogatepass")) % _HEIRS


def _name(tenant: str) -> str:
    return f"tenant {tenant}" if tenant else "tenants without a key"
