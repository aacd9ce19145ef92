"""Where the calls of one event loop meet: the alarm that wakes them, the route that judges them, their tasks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

from hedgerow import hedger
from hedgerow.alarm import Alarm
from hedgerow.policy.settings import Policy

REFRESH = 5.0
"""Seconds between two looks at what delays should be, while calls come."""
_DONE = object()


class PatientAlarm(Alarm):
    """Wakes nobody before what has happened by then is known: from a timer or a socket to the end of a coroutine it is
    some turns of the loop, and a hedge that is launched meanwhile is wasted.
    """

    __slots__ = ()

    def _ring(self) -> None:
        self._loop.call_soon(self._loop.call_soon, super()._ring)


class Home:
    """What a course has in one event loop."""

    __slots__ = ("_last", "_refresher", "_thread", "alarm", "loop", "route", "tasks", "time")

    def __init__(self, loop: asyncio.AbstractEventLoop, route: hedger.Hedger) -> None:
        self.alarm = PatientAlarm(loop)
        self.loop = loop
        self.time = loop.time
        self.route = route
        self.tasks: set[asyncio.Task[None]] = set()
        """Of attempts that have not ended: losers close what they have opened after the call has returned."""
        self._thread = threading.current_thread()
        self._refresher: asyncio.Handle | None = None
        self._last = 0.0

    def beside(self, policy: Policy) -> Home:
        """For calls of the same targets by other delays and limits of time."""
        return _Beside(self, policy)

    def called(self) -> float:
        """A call comes, now: before long delays are to be learned anew."""
        if self._refresher is None:
            self._refresher = self.loop.call_later(REFRESH, self._refresh, None)
        now = self._last = self.time()
        return now

    def hold(self, task: asyncio.Task[None]) -> None:
        """Keep hold of a task that nobody waits for, until it has ended."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    @property
    def forsaken(self) -> bool:
        """Whether nothing can run here any more: another thread may go on with what was learned."""
        return self.loop.is_closed() or not self._thread.is_alive()

    def knows_better_than(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether what was learned here is of that loop's future: its clock is another one."""
        return self._last > loop.time()

    def _refresh(self, steps: Iterator[None] | None) -> None:
        steps = self.route.refreshing(self.time()) if steps is None else steps
        self._refresher = None
        if next(steps, _DONE) is not _DONE:
            self._refresher = self.loop.call_soon(self._refresh, steps)


class _Beside(Home):
    """Has its own delays, and all else of another."""

    __slots__ = ("_other",)

    def __init__(self, other: Home, policy: Policy) -> None:
        super().__init__(other.loop, other.route.beside(policy))
        self.alarm, self.tasks, self._other = other.alarm, other.tasks, other

    def called(self) -> float:
        now = self._other._last = super().called()
        return now


def keeps_real_time(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether its clock is that of all such loops of the process; that of a loop in virtual time is its own."""
    kind = type(loop)
    return kind.time is asyncio.BaseEventLoop.time or kind.__module__.partition(".")[0] in ("uvloop", "winloop")
