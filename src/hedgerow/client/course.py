"""What stays from call to call: a policy, and what is learned by it; and what is the call's own."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import msgspec

from hedgerow import hedger
from hedgerow.alarm import Alarm
from hedgerow.client.failing import Classify
from hedgerow.client.gates import Check
from hedgerow.client.settings import Policy
from hedgerow.client.target import Target
from hedgerow.events import Listener
from hedgerow.policy.ask import Ask
from hedgerow.policy.health import Health, Watch
from hedgerow.policy.judge import Shared
from hedgerow.policy.plan import Place

REFRESH = 5.0
"""Seconds between two looks at what delays should be, while calls come."""
_DONE = object()
_NO_LOOP = (
    "hedging needs a running asyncio loop (uvloop's, or anyio's on asyncio, is one). Sync code has hedge_sync; "
    "under trio, call that in a thread"
)


class Call(msgspec.Struct, frozen=True, gc=False):
    """What may be other callables each time: where to go, and what is asked of answers."""

    targets: Sequence[Target[Any]]
    checks: Sequence[Check[Any]]
    first_token: Callable[[Any], bool] | None = None
    classify: Classify | None = None
    size: Callable[..., int] | None = None


class PatientAlarm(Alarm):
    """Wakes nobody before what has happened by then is known: from a timer or a socket to the end of a coroutine it is
    some turns of the loop, and a hedge that is launched meanwhile is wasted.
    """

    __slots__ = ()

    def _ring(self) -> None:
        self._loop.call_soon(self._loop.call_soon, super()._ring)


class Home:
    """What a course has in one event loop. A new loop of the same thread goes on with what was learned in the last."""

    __slots__ = ("_last", "_refresher", "alarm", "loop", "route", "tasks", "time")

    def __init__(self, loop: asyncio.AbstractEventLoop, route: hedger.Hedger) -> None:
        self.alarm = PatientAlarm(loop)
        self.loop = loop
        self.time = loop.time
        self.route = route
        self.tasks: set[asyncio.Task[None]] = set()
        """Of attempts that have not ended: losers close what they have opened after the call has returned."""
        self._refresher: asyncio.Handle | None = None
        self._last = 0.0

    def called(self) -> float:
        """A call comes, now: before long delays are to be learned anew."""
        if self._refresher is None:
            self._refresher = self.loop.call_later(REFRESH, self._refresh, None)
        now = self._last = self.time()
        return now

    def knows_better_than(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Whether what was learned here is of that loop's future: its clock is another one."""
        return self._last > loop.time()

    def _refresh(self, steps: Iterator[None] | None) -> None:
        steps = self.route.refreshing(self.time()) if steps is None else steps
        self._refresher = None
        if next(steps, _DONE) is not _DONE:
            self._refresher = self.loop.call_soon(self._refresh, steps)


class Course:
    """Of a hedger, or of the calls from one place in the code. Each thread has what it has learned for itself."""

    def __init__(
        self,
        name: str,
        places: Sequence[Place],
        policy: Policy,
        *,
        listeners: Sequence[Listener] = (),
        draw: Callable[[], float] | None = None,
        grace: float = 1.0,
        streams: bool = False,
    ) -> None:
        """`streams`: the targets are known to give streams."""
        self.name = name
        self.grace = grace
        self.kept_for = policy.kept_for
        self._places = places
        self._breaker = policy.breaker_settings
        self._policy = policy.for_targets(len(places), streams=streams)
        self._total = self._policy.total
        self._listeners = listeners
        self._draw = random.Random().random if draw is None else draw  # noqa: S311  # who is hedged is no secret
        self._prefix, self._numbers = f"hr-{os.urandom(5).hex()}-", count(1)
        self._here = threading.local()
        self._last: Home | None = None

    def home(self) -> Home:
        """That of the running loop. Raises `RuntimeError` where none runs."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(_NO_LOOP) from None
        home = self._last
        if home is None or home.loop is not loop:  # the first of this loop, or of a thread that takes turns with others
            home = getattr(self._here, "home", None)
            if home is None or home.loop is not loop:
                home = self._here.home = self._settle(loop, home)
            self._last = home
        return home

    def _settle(self, loop: asyncio.AbstractEventLoop, last: Home | None) -> Home:
        if last is not None and not last.knows_better_than(loop):
            return Home(loop, last.route)
        health = Health()
        if (breaker := self._breaker) is not None:
            health.watch({place.candidate.target: Watch(breaker, per_model=False) for place in self._places})
        route = hedger.Hedger(
            self.name,
            self._places,
            self._policy,
            listeners=self._listeners,
            health=health,
            shared=Shared(self._draw),
        )
        return Home(loop, route)

    def ask(self, call: Call, args: Sequence[Any], kwargs: Mapping[str, Any], now: float) -> Ask:
        """The call as the policy sees it."""
        size = 0 if call.size is None else max(call.size(*args, **kwargs), 0)
        return Ask(self._prefix + str(next(self._numbers)), True, size, None, now, now + self._total)

    async def aclose(self, within: float) -> None:
        """Let what runs in this loop end by itself for so many seconds, then cancel it and wait for that."""
        tasks = self.home().tasks
        running = {task for task in tasks if not task.done()}
        if running:
            _, late = await asyncio.wait(running, timeout=within)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=self.grace)
