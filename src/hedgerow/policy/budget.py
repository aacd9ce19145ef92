"""How many extra attempts may be launched: a hard cap on their number, earned by requests and by time."""

from __future__ import annotations

import msgspec

from hedgerow.events import Reason
from hedgerow.policy.plan import Refusal

_MILLION = 1_000_000
_MINUTE = 60 * _MILLION
"""In microseconds."""
_ATTEMPT = _MILLION * _MINUTE
"""What an attempt costs. Balances are whole numbers of this unit, so that nothing drifts: a microsecond earns
`per_minute` in millionths, a request `share` in millionths times the microseconds of a minute."""

BURST = 10.0
"""Attempts that may be launched in a row before they must have been earned, unless said otherwise."""


class Share(msgspec.Struct, frozen=True, gc=False):
    """The most extra attempts: `share` of one per request, `per_minute` more however few the requests, `burst` at once.

    All three count to the millionth. Raises `ValueError` for a share outside [0, 1], a burst below 1, a negative
    `per_minute`, and for a share and `per_minute` that are both 0.
    """

    share: float
    burst: float = BURST
    per_minute: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.share <= 1.0:
            raise ValueError("share must be at least 0 and at most 1")
        if not 1.0 <= self.burst <= 1e9:
            raise ValueError("burst must be at least 1 and at most a billion")
        if not 0.0 <= self.per_minute <= 1e9:
            raise ValueError("per_minute must be at least 0 and at most a billion")
        if not round(self.share * _MILLION) and not round(self.per_minute * _MILLION):
            raise ValueError("share must be above 0 where nothing is earned per minute")

    def __str__(self) -> str:
        share = f"{round(self.share * _MILLION) * 100 / _MILLION:.6g}% of requests"
        return f"{share} and {self.per_minute:.6g} a minute" if self.per_minute else share

    @property
    def bound(self) -> str:
        """All of it in words: what is earned, and how many may start at once before they are."""
        return f"{self}, {self.burst:.6g} at once"


HEDGES = Share(0.1, 50.0, per_minute=1.0)
FAILOVERS = Share(0.2, 50.0, per_minute=1.0)
"""Defaults for hedges and for attempts after a failure: an outage adds a fifth to the load, not a multiple of it."""


class Budget:
    """A balance of attempts: it starts at `burst` and is never more than that. Over any stretch of time

        attempts <= burst + share * requests + per_minute * minutes

    holds, where requests are those that came in that stretch and minutes are counted to the microsecond. With a burst
    of 2 or more the bound is reached, in whole attempts, when a full balance is spent and an attempt asked for after
    every request. An attempt that is given back counts nowhere, and allows for one more where a stretch began after it
    was paid for; counted from the start on, the bound has no exception.

    What was earned is added up when it is asked for. That changes nothing: between two attempts balances only rise.
    """

    __slots__ = ("_at", "_balance", "_full", "_per_microsecond", "_per_request", "_seen", "requests", "settings")

    def __init__(self, share: float, burst: float = BURST, per_minute: float = 0.0) -> None:
        """See `Share`."""
        self.requests = 0
        """How many have come. Whoever counts them may raise it directly."""
        self._seen = 0
        self._at = 0
        self._set(Share(share, burst, per_minute))
        self._balance = self._full

    @classmethod
    def of(cls, settings: Share) -> Budget:
        return cls(settings.share, settings.burst, settings.per_minute)

    def _set(self, settings: Share) -> None:
        self.settings = settings
        self._per_request = round(settings.share * _MILLION) * _MINUTE
        self._per_microsecond = round(settings.per_minute * _MILLION)
        self._full = round(settings.burst * _MILLION) * _MINUTE

    def earn(self) -> None:
        """A request has come."""
        self.requests += 1

    def take(self, now: float = 0.0) -> Refusal | None:
        """Pay for a hedge that starts now, or say why it may not. A `Whether`, to be asked last: a yes is paid for."""
        if not self.affords(int(now * _MILLION)):
            return Refusal(Reason.BUDGET, f"hedge.budget: {self.settings}")
        self.pay()
        return None

    def affords(self, at: int) -> bool:
        """Whether one more attempt may be launched. `at` is the time in microseconds; going back earns nothing."""
        self._balance = self._worth(at)
        self._seen = self.requests
        self._at = max(self._at, at)
        return self._balance >= _ATTEMPT

    def _worth(self, at: int) -> int:
        earned = (self.requests - self._seen) * self._per_request
        earned += max(at - self._at, 0) * self._per_microsecond
        return min(self._balance + earned, self._full)

    def pay(self) -> None:
        """Pay for an attempt that `affords` has just allowed."""
        self._balance -= _ATTEMPT

    def give_back(self) -> None:
        """An attempt that was paid for was never sent."""
        self._balance += _ATTEMPT

    def resize(self, settings: Share, at: int) -> None:
        """Other settings from now on. The balance stays what it is, or falls to the new burst: none is given away.

        So from the start on, attempts are at most the first burst and what each setting granted while it held.
        """
        self.affords(at)
        self._set(settings)
        self._balance = min(self._balance, self._full)

    def copy(self) -> Budget:
        """Another with the same balance."""
        other = Budget.of(self.settings)
        other._balance, other._at = self._balance, self._at
        other._balance = min(other._balance + (self.requests - self._seen) * self._per_request, self._full)
        return other

    def worsen(self, other: Budget, at: int) -> None:
        """Fall to the balance of `other`, where that is less."""
        other.affords(at)
        self.affords(at)
        self._balance = min(self._balance, other._balance, self._full)

    def state(self, at: int) -> dict[str, float]:
        """Attempts that may be launched now, rounded down to the millionth, and the settings; nothing changes."""
        settings = self.settings
        balance = self._worth(at) // _MINUTE / _MILLION
        return {
            "balance": balance,
            "burst": settings.burst,
            "share": settings.share,
            "per_minute": settings.per_minute,
        }
