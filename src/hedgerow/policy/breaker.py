"""A circuit breaker: whether a target may have traffic, judged by its last results.

Closed, it counts results over a sliding window: the last `count` of them, none older than `window` seconds. It opens
when enough of them failed or were slow, or when some failed in a row. Open, it lets nothing through; after a while it
is half-open: `probes` attempts at a time find out whether the target is back. `successes` good ones close it, a bad one
opens it again, for twice as long up to a limit.

Only what says something of the target now counts. Attempts that were superseded or whose client left are never told
(a probe's slot is given back all the same), and a result whose attempt was launched before the last change is old news.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import Literal

import msgspec

from hedgerow.events import BreakerState

PATIENCE = 5.0
"""Seconds a half-open target waits for a hedge to try it, before a request of its own does.

Twice as long each time that this says nothing, up to `open_for`: who hangs is overtaken by hedges, again and again.
"""

_GOOD, _SLOW, _BAD = 0, 1, 2  # a result is a sum of these

Allows = Literal["yes", "probe", "no"]

_CLOSED, _OPEN, _HALF_OPEN = BreakerState.CLOSED, BreakerState.OPEN, BreakerState.HALF_OPEN


class BreakerSettings(msgspec.Struct, frozen=True, gc=False):
    """When a breaker opens and closes. Shares are in (0, 1], times in seconds; None switches a condition off.

    It opens when of at least `minimum` results in the window a share of `failure_ratio` failed, or one of `slow_ratio`
    had no first token within `slow_after`; or after `failures` failed ones in a row. `count` and `window` bound the
    window. It stays open for `open_for`, twice as long each time it opens again before it was closed for a `window`,
    but never for more than `open_at_most` (or `open_for`, if that is more). Then `probes` attempts at a time may try
    it, and `successes` good ones close it. Raises `ValueError` for what cannot work.
    """

    failure_ratio: float | None = 0.5
    slow_ratio: float = 1.0
    slow_after: float | None = None
    failures: int | None = None
    minimum: int = 20
    count: int = 100
    window: float = 60.0
    open_for: float = 30.0
    open_at_most: float = 45.0
    probes: int = 1
    successes: int = 3

    def __post_init__(self) -> None:
        if not all(share is None or 0.0 < share <= 1.0 for share in (self.failure_ratio, self.slow_ratio)):
            raise ValueError("failure_ratio and slow_ratio must be above 0 and at most 1")
        if not all(0.0 < seconds < inf for seconds in (self.window, self.open_for, self.open_at_most)):
            raise ValueError("window, open_for and open_at_most must be more than 0 seconds")
        if self.slow_after is not None and not 0.0 < self.slow_after < inf:
            raise ValueError("slow_after must be more than 0 seconds")
        if not 1 <= self.minimum <= self.count:
            raise ValueError("minimum must be at least 1 and at most count, or there are never enough results")
        if min(self.probes, self.successes) < 1 or (self.failures is not None and self.failures < 1):
            raise ValueError("failures, probes and successes must be at least 1")


class BreakerView(msgspec.Struct, frozen=True, gc=False):
    """What a breaker is up to. `until`: when it will be half-open; None unless it is open."""

    state: BreakerState
    results: int
    failures: int
    slow: int
    in_a_row: int
    probes: int
    until: float | None
    why: str


class Breaker:
    """One target's breaker: about 100 bytes per result it keeps. `now` is in seconds and must not go back."""

    __slots__ = (
        "_changed_at",
        "_failures",
        "_good_probes",
        "_in_a_row",
        "_leads_at",
        "_level",
        "_patience",
        "_probes",
        "_results",
        "_settings",
        "_slow",
        "_state",
        "_tickets",
        "until",
        "why",
    )

    def __init__(self, settings: BreakerSettings) -> None:
        self._settings = settings
        self._results: deque[tuple[float, int]] = deque(maxlen=settings.count)
        self._failures = self._slow = self._in_a_row = 0
        self._state = _CLOSED
        self._changed_at = -inf
        self._level = 0  # how often it has opened again in a short time
        self._good_probes = 0
        self._probes: dict[int, float] = {}  # when each was started, by ticket
        self._tickets = 0
        self._leads_at = 0.0
        self._patience = PATIENCE
        self.until = 0.0
        """When it is, or last was, half-open again."""
        self.why = ""
        """What made it change its state."""

    def state(self, now: float) -> BreakerState:
        """Closed, open, or half-open when it has been open for long enough."""
        return _HALF_OPEN if self._state is _OPEN and now >= self.until else self._state

    def allows(self, now: float) -> Allows:
        """Whether an attempt may start: always, as a probe, or not now."""
        if self._state is _CLOSED:
            return "yes"
        if now < self.until:
            return "no"
        return "probe" if self._running_probes(now) < self._settings.probes else "no"

    def leads(self, now: float) -> bool:
        """Whether a half-open target should be tried first, since no hedge has tried it for a while."""
        return now >= self._leads_at

    def wake(self, now: float) -> bool:
        """Whether it has just become half-open; asked before probes start."""
        if self._state is not _OPEN or now < self.until:
            return False
        self._state, self.why = _HALF_OPEN, f"was open for {now - self._changed_at:.0f} s"
        return True

    def probe_started(self, now: float) -> int:
        """An attempt starts as a probe. Its ticket is for `probe_ended`, which must be told however it ends."""
        self._tickets += 1
        self._probes[self._tickets] = now
        if now >= self._leads_at:
            self._leads_at = now + self._patience
            self._patience = min(2.0 * self._patience, self._settings.open_for)
        return self._tickets

    def probe_ended(self, ticket: int) -> None:
        """The probe is over; what it found out, if anything, is told by `record`."""
        self._probes.pop(ticket, None)

    def record(self, ok: bool, slow: bool, now: float, launched_at: float = inf) -> bool:
        """An attempt that was launched at `launched_at` answered, or failed by its target's fault.

        `slow`: it took longer than `slow_after`. Returns whether the state changed; `why` says what for.
        """
        if launched_at < self._changed_at:
            return False
        if self._state is not _CLOSED:
            return self._judge(ok, slow, now)
        results = self._results
        if (self._failures or self._slow) and len(results) == results.maxlen and (oldest := results[0][1]):
            self._count(oldest, -1)
        if ok and not slow:  # nearly always; what has grown too old is seen to when something is wrong
            self._in_a_row = 0
            results.append((now, _GOOD))
            return False
        self._in_a_row = 0 if ok else self._in_a_row + 1
        result = (_GOOD if ok else _BAD) + (_SLOW if slow else 0)
        results.append((now, result))
        self._count(result, 1)
        self._forget(now - self._settings.window)
        return (why := self._trouble()) is not None and self._open(why, now)

    def reconfigure(self, settings: BreakerSettings) -> None:
        """Go by other settings from now on; state and results stay, as far as they fit."""
        self._settings = settings
        self._results = deque(self._results, settings.count)
        self._failures = self._slow = 0
        for _, result in self._results:
            self._count(result, 1)

    def view(self, now: float) -> BreakerView:
        """What it is up to."""
        self._forget(now - self._settings.window)
        state = self.state(now)
        until = self.until if state is _OPEN else None
        counts = len(self._results), self._failures, self._slow, self._in_a_row, self._running_probes(now)
        return BreakerView(state, *counts, until, self.why)

    def _forget(self, oldest: float) -> None:
        """Drop results from `oldest` or before."""
        results = self._results
        while results and results[0][0] <= oldest:
            self._count(results.popleft()[1], -1)

    def _count(self, result: int, by: int) -> None:
        """A result comes (1) or goes (-1)."""
        if result >= _BAD:
            self._failures += by
        if result & _SLOW:
            self._slow += by

    def _trouble(self) -> str | None:
        """Why it must open, if it must."""
        settings, total = self._settings, len(self._results)
        if settings.failures is not None and self._in_a_row >= settings.failures:
            return f"{self._in_a_row} failures in a row"
        if total < settings.minimum:
            return None
        if settings.failure_ratio is not None and self._failures >= settings.failure_ratio * total:
            return f"{self._failures} of the last {total} attempts failed"
        if settings.slow_after is not None and self._slow >= settings.slow_ratio * total:
            return f"{self._slow} of the last {total} attempts took more than {settings.slow_after:g} s"
        return None

    def _judge(self, ok: bool, slow: bool, now: float) -> bool:
        """Learn from an attempt that was launched while open or half-open."""
        half_open = now >= self.until
        if ok and not (slow and self._settings.slow_after is not None):
            self._good_probes += 1
            self._leads_at, self._patience = now, PATIENCE
            return self._good_probes >= self._settings.successes and self._close(now)
        self._good_probes = 0
        return half_open and self._open("a probe failed" if not ok else "a probe was slow", now)

    def _open(self, why: str, now: float) -> bool:
        settings = self._settings
        again = self._state is not _CLOSED or now - self._changed_at < settings.window
        self._level = self._level + 1 if again else 0
        longest = max(settings.open_for, settings.open_at_most)
        self.until = now + min(settings.open_for * 2.0 ** min(self._level, 30), longest)
        self._leads_at, self._patience = self.until + PATIENCE, PATIENCE
        self._enter(_OPEN, why, now)
        return True

    def _close(self, now: float) -> bool:
        self._enter(_CLOSED, f"{self._good_probes} good answers", now)
        return True

    def _enter(self, state: BreakerState, why: str, now: float) -> None:
        self._state, self.why, self._changed_at = state, why, now
        self._good_probes = self._failures = self._slow = self._in_a_row = 0
        self._results.clear()

    def _running_probes(self, now: float) -> int:
        """Probes that hold a slot: one that has said nothing for as long as `open_for` holds it no longer."""
        probes = self._probes
        if probes:
            overdue = now - self._settings.open_for
            for ticket in [ticket for ticket, started_at in probes.items() if started_at <= overdue]:
                del probes[ticket]
        return len(probes)
