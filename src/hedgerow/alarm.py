"""One timer of the loop for any number of sleepers, most of whom are never woken.

A request's hedge, first-token and total limits are nearly always far away when it is answered. A timer of the loop for
each would cost more than all else in the engine; here going to sleep is a push on a heap, and not wanting to be woken
any more leaves a stale entry there.
"""

from __future__ import annotations

import asyncio
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final, Protocol

_SPARE: Final = 32
"""Stale entries that may stay in the heap; beyond them, at most half of it."""


class Sleeper(Protocol):
    """Somebody to be woken."""

    wake_at: float
    """When; inf: not at all. Kept by the alarm, inf at first."""

    def wake(self, now: float) -> None:
        """Called at `wake_at` (`now` is never earlier), which is inf by then. Must not raise."""


class Alarm:
    """The sleepers of one loop, woken as exactly as by its timers; at one time, in the order of their setting."""

    __slots__ = ("_armed_for", "_heap", "_loop", "_number", "_stale", "_timer", "time")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.time = loop.time
        self._loop = loop
        self._heap: list[tuple[float, int, Sleeper]] = []  # an entry is stale unless its sleeper still waits for it
        self._stale = 0
        self._number = 0
        self._timer: asyncio.TimerHandle | None = None
        self._armed_for = inf

    def __len__(self) -> int:
        """Entries held."""
        return len(self._heap)

    def set(self, sleeper: Sleeper, when: float) -> None:
        """Wake `sleeper` at `when` (loop time) and not at what was set before; inf: never."""
        if sleeper.wake_at < inf:
            self.forget(sleeper)
        if when < inf:
            sleeper.wake_at = when
            self._number += 1
            heappush(self._heap, (when, self._number, sleeper))
            if when < self._armed_for:
                self._arm(when)

    def forget(self, sleeper: Sleeper) -> None:
        """Do not wake `sleeper`."""
        if sleeper.wake_at < inf:
            sleeper.wake_at = inf
            self._stale += 1
            if self._stale > _SPARE and self._stale * 2 > len(self._heap):
                self._heap = [entry for entry in self._heap if entry[2].wake_at == entry[0]]
                heapify(self._heap)
                self._stale = 0

    def _arm(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._armed_for = when
        self._timer = self._loop.call_at(when, self._ring)

    def _ring(self) -> None:
        # A loop may fire a timer up to one clock resolution early; what was armed for is due all the same.
        now = max(self.time(), self._armed_for)
        self._timer = None
        self._armed_for = -inf  # those woken may set themselves anew: arm once, at the end
        while self._heap:
            when, _, sleeper = self._heap[0]
            stale = sleeper.wake_at != when
            if when > now and not stale:  # for one that is stale nobody need be woken again
                break
            heappop(self._heap)
            if stale:
                self._stale -= 1
            else:
                sleeper.wake_at = inf
                self._wake(sleeper, now)
        self._armed_for = inf
        if self._heap:
            self._arm(self._heap[0][0])

    def _wake(self, sleeper: Sleeper, now: float) -> None:
        try:
            sleeper.wake(now)
        except Exception as error:
            self._loop.call_exception_handler({"message": "a sleeper failed when it was woken", "exception": error})
