"""Whether slowness is general: then a further attempt would be slow too, and add to the load that made it so.

The tokens are those of gRPC's retry throttling (gRFC A6, "Throttling Retry Attempts and Hedged RPCs"): a request whose
first attempt fails or is late costs one, any other gives `token_ratio` back, and with half of `max_tokens` or fewer no
hedge starts. Other than there it takes `resume` of them to go on, so that hedging does not flutter at the half.

A share of late requests of `token_ratio / (1 + token_ratio)` is what the balance bears: half at 1. It must be well
above the share that is late in good times, which is 10 % where the delay is the 90th percentile.

Other than there, too few tokens stop no hedge while many of the further attempts win: then the first target is in
trouble alone, hedges are what helps, and the budget bounds them. Where all are slow, most lose to the first attempt,
which began sooner. While hedges are held back, one is let through now and then to find out.
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from math import inf

import msgspec

from hedgerow.events import Reason
from hedgerow.policy.plan import Refusal

HELP = 0.4
"""With fewer of the other attempts winning it is not the first target alone that is slow."""
_TOKEN = 1_000_000
"""Balances are whole millionths of a token, so that nothing drifts."""


class ThrottleSettings(msgspec.Struct, frozen=True, gc=False):
    """When hedges stop in an outage; shares are in (0, 1], times in seconds.

    They stop with `max_tokens` / 2 or fewer and go on with `resume` x `max_tokens`; `token_ratio` is what a request in
    time gives back. But not while `HELP` or more of the last `minimum` other attempts won, of those that have ended or
    are late; and after a `window` without any, one may start.
    They stop as well while more than `both_slow` of the first attempts *and* of the others were late or failed,
    and go on when either is at half of that. None: what others do does not count, neither way. Raises `ValueError` for
    what cannot work.
    """

    max_tokens: float = 20.0
    token_ratio: float = 1.0
    resume: float = 0.75
    both_slow: float | None = 0.5
    minimum: int = 10
    count: int = 100
    window: float = 60.0

    def __post_init__(self) -> None:
        if not 1.0 <= self.max_tokens <= 1_000.0 or not 0.001 <= self.token_ratio <= self.max_tokens:
            raise ValueError("max_tokens must be from 1 to 1000, token_ratio from 0.001 to max_tokens")
        if not 0.5 < self.resume <= 1.0:
            raise ValueError("resume must be above 0.5, where hedges stop, and at most 1")
        if self.both_slow is not None and not 0.0 < self.both_slow < 1.0:
            raise ValueError("both_slow must be above 0 and below 1")
        if not 1 <= self.minimum <= self.count or not self.window > 0.0:
            raise ValueError("minimum must be at least 1 and at most count, window more than 0 seconds")


class Try:
    """A hedge or failover under way; whether it helps is to be told here."""

    __slots__ = ("_known_at", "helped")

    def __init__(self, late_at: float) -> None:
        self._known_at = late_at
        self.helped = False

    def ended(self, *, helped: bool) -> None:
        """It has won (`helped`), or never will."""
        self.helped, self._known_at = helped, -inf

    def left(self) -> None:
        """Its caller left before it was late: nobody will know."""
        self._known_at = inf

    def is_known(self, now: float) -> bool:
        """Whether it has ended, or is late: then it counts as one that has not helped, unless it wins after all."""
        return now >= self._known_at


class ThrottleView(msgspec.Struct, frozen=True, gc=False):
    """What a throttle is up to; the shares are of first attempts and of others that were late, None without any."""

    throttled: bool
    both_slow: bool
    tokens: float
    first_late: float | None
    others_late: float | None


class Throttle:
    """Of one route. A guard of hedges only: first attempts are never asked about, and failovers need not be.

    An attempt is late when it has run for the delay without a first token; that is known at the delay, before it ends.
    With a delay of 0 there is no late, and nothing must be told. `now` is in seconds and must not go back.
    """

    __slots__ = (
        "_back",
        "_balance",
        "_both_slow",
        "_first",
        "_full",
        "_half",
        "_others",
        "_resume",
        "_settings",
        "_shut",
        "_tried_at",
        "_tries",
    )

    def __init__(self, settings: ThrottleSettings = ThrottleSettings()) -> None:  # noqa: B008  # frozen
        self._shut = False  # hysteresis of the tokens
        self._both_slow = False  # and of the shares
        self._tried_at = -inf
        self._first, self._others = _Late(settings.count), _Late(settings.count)
        self._tries: deque[Try] = deque(maxlen=settings.count)
        self._set(settings)
        self._balance = self._full

    def first(self, late: bool, now: float) -> None:
        """Of each request once: its first attempt had its first token within the delay, or was late, or failed.

        Only a failure that blames the target counts as late; after one that does not, nothing is told, nor when the
        client left before the delay.
        """
        self._first.add(late, now)
        if not late:
            if self._balance < self._full:
                self._balance = min(self._balance + self._back, self._full)
                if self._shut and self._balance >= self._resume:
                    self._shut = False
        else:
            self._balance = max(self._balance - _TOKEN, 0)
            if self._balance <= self._half:
                self._shut = True

    def other(self, late: bool, now: float) -> None:
        """A hedge or failover had its first token within the delay after its own launch, or was late, or failed.

        One that was superseded sooner says nothing and is not told.
        """
        self._others.add(late, now)

    def launched(self, now: float, delay: float) -> Try:
        """A hedge or failover starts, and is late after `delay` seconds; its end is to be told to what is returned."""
        self._tried_at = now
        one = Try(now + delay)
        self._tries.append(one)
        return one

    def refuses(self, now: float) -> Refusal | None:
        """Why no hedge may start now, if so. Now and then one may though the tokens hold them back, to find out."""
        refusal = self.holds(now)
        return None if refusal is not None and self._shut and self._may_try(now) else refusal

    def holds(self, now: float) -> Refusal | None:
        """Why hedges are held back, if they are."""
        if self._are_both_slow(now):
            return Refusal(Reason.OUTAGE, "first attempts and others alike are late or fail")
        if self._shut and not self._do_others_help(now):
            tokens = f"{self._balance / _TOKEN:.3g} of {self._settings.max_tokens:g} tokens"
            return Refusal(Reason.OUTAGE, f"too many requests are late or fail: {tokens} left")
        return None

    def _do_others_help(self, now: float) -> bool:
        """Whether many of the other attempts win: then the first target is in trouble alone."""
        settings = self._settings
        if settings.both_slow is None:
            return False
        known = list(islice((one.helped for one in reversed(self._tries) if one.is_known(now)), settings.minimum))
        return 2 * len(known) >= settings.minimum and sum(known) >= HELP * len(known)

    def _may_try(self, now: float) -> bool:
        settings = self._settings
        return settings.both_slow is not None and not self._both_slow and now - self._tried_at >= settings.window

    def reconfigure(self, settings: ThrottleSettings) -> None:
        """Go by other settings from now on, with the same share of the tokens left."""
        left, full = self._balance, self._full
        self._set(settings)
        self._first, self._others = self._first.of(settings.count), self._others.of(settings.count)
        self._tries = deque(self._tries, settings.count)
        self._balance = self._full * left // full
        self._shut = self._balance <= self._half or (self._shut and self._balance < self._resume)

    def view(self, now: float) -> ThrottleView:
        """What it is up to."""
        both_slow, holds = self._are_both_slow(now), self.holds(now) is not None
        for late in (self._first, self._others):
            late.forget(now - self._settings.window)
        shares = [late.share if late else None for late in (self._first, self._others)]
        return ThrottleView(holds, both_slow, self._balance / _TOKEN, *shares)

    def _set(self, settings: ThrottleSettings) -> None:
        self._settings = settings
        self._full = round(settings.max_tokens * _TOKEN)
        self._half = self._full // 2
        self._resume = round(settings.max_tokens * settings.resume * _TOKEN)
        self._back = round(settings.token_ratio * _TOKEN)

    def _are_both_slow(self, now: float) -> bool:
        settings = self._settings
        limit = settings.both_slow
        if limit is None:
            return False
        if self._both_slow:
            limit /= 2.0
        first, others = self._first, self._others
        self._both_slow = others.above(limit, now, settings) and first.above(limit, now, settings)
        return self._both_slow


class _Late:
    """How many of the last attempts were late."""

    __slots__ = ("_late", "_results")

    def __init__(self, count: int) -> None:
        self._results: deque[tuple[float, bool]] = deque(maxlen=count)
        self._late = 0

    def of(self, count: int) -> _Late:
        """The last `count` of them."""
        other = _Late(count)
        other._results.extend(self._results)
        other._late = sum(late for _, late in other._results)
        return other

    def add(self, late: bool, now: float) -> None:
        results = self._results
        if self._late and len(results) == results.maxlen and results[0][1]:
            self._late -= 1
        results.append((now, late))
        if late:
            self._late += 1

    def __len__(self) -> int:
        return len(self._results)

    @property
    def share(self) -> float:
        """How many of them were late."""
        return self._late / len(self._results)

    def above(self, limit: float, now: float, settings: ThrottleSettings) -> bool:
        """Whether enough are known, and more than this share were late."""
        self.forget(now - settings.window)
        return len(self._results) >= settings.minimum and self._late > limit * len(self._results)

    def forget(self, oldest: float) -> None:
        """Those of then or before."""
        results = self._results
        while results and results[0][0] <= oldest:
            self._late -= results.popleft()[1]
