"""How many hedges a route may afford: a hard cap on their share of its requests."""

from __future__ import annotations

from hedgerow.events import Reason
from hedgerow.policy.plan import Refusal

_HEDGE = 1_000_000
"""What a hedge costs. Balances are whole numbers of millionths of a hedge, so that nothing drifts."""

BURST = 10.0
"""Hedges that a route may launch in a row before it must have earned them, unless said otherwise."""


class Budget:
    """A balance of hedges: every request earns `share` of one, every hedge costs one.

    It starts at `burst` hedges and is never more than that. So over any stretch of time

        hedges <= burst + share * requests

    holds, where requests are those that came in that stretch. With a burst of 2 or more the bound is reached, in whole
    hedges, when a full balance is spent and a hedge asked for after every request. The share counts to the millionth.
    """

    __slots__ = ("_balance", "_earns", "_full", "_over", "_room")

    def __init__(self, share: float, burst: float = BURST) -> None:
        """`share` in (0, 1], as hedges per request; `burst` at least 1. Raises `ValueError` for others."""
        self._earns = round(share * _HEDGE)
        self._full = self._balance = round(burst * _HEDGE)
        self._room = self._full - self._earns  # the highest balance that a request still raises by all it earns
        if not 0 < self._earns <= _HEDGE:
            raise ValueError("share must be above 0 and at most 1")
        if self._full < _HEDGE:
            raise ValueError("burst must be at least 1")
        self._over = Refusal(Reason.BUDGET, f"hedge.budget: {self._earns * 100 / _HEDGE:.6g}% of requests")

    def earn(self) -> None:
        """A request has come."""
        if self._balance <= self._room:
            self._balance += self._earns
        else:
            self._balance = self._full

    def take(self, _now: float = 0.0) -> Refusal | None:
        """Pay for a hedge that starts now, or say why it may not. A `Whether`, to be asked last: a yes is paid for."""
        if self._balance < _HEDGE:
            return self._over
        self._balance -= _HEDGE
        return None
