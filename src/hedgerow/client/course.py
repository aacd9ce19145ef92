"""What stays from call to call: a policy, and what is learned by it; and what is the call's own."""

from __future__ import annotations

import asyncio
import os
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import msgspec

from hedgerow import hedger
from hedgerow.client import purse
from hedgerow.client.checking import warn_once
from hedgerow.client.failing import Classify
from hedgerow.client.gates import Check
from hedgerow.client.home import Home, keeps_real_time
from hedgerow.client.records import Loud
from hedgerow.client.settings import Policy
from hedgerow.events import Listener
from hedgerow.policy.ask import Ask
from hedgerow.policy.health import Health, Watch
from hedgerow.policy.judge import Shared
from hedgerow.policy.plan import Place
from hedgerow.policy.spend import Spend
from hedgerow.policy.terms import Terms

_NO_LOOP = (
    "hedging needs a running asyncio loop (uvloop's, or anyio's on asyncio, is one). Sync code has hedge_sync; "
    "under trio, call that in a thread"
)


class Call(msgspec.Struct, frozen=True, gc=False):
    """What may be another each time: what is asked of answers."""

    checks: Sequence[Check[Any]]
    first_token: Callable[[Any], bool] | None = None
    classify: Classify | None = None
    size: Callable[..., int] | None = None


Setup = tuple["Course", Call, float | None, Sequence[Callable[..., Any]]]
"""What a call is made of, beside its arguments: the third says how many seconds it may take, where that is not the
policy's to say, the last what its targets call.
"""


class Course:
    """Of a hedger, or of the calls from one place in the code. Threads share its budgets. What it has learned each
    thread has for itself, until it ends: then another goes on with that.
    """

    def __init__(
        self,
        name: str,
        places: Sequence[Place],
        policy: Policy,
        *,
        trunk: Course | None = None,
        listeners: Sequence[Listener] = (),
        draw: Callable[[], float] | None = None,
        grace: float = 1.0,
        streams: bool = False,
        terms: Mapping[str, Terms] | None = None,
    ) -> None:
        """`trunk` is that of the same calls with other delays and limits of time: it is what learns and pays.
        `streams`: the targets are known to give streams. `terms`: what they cost.
        """
        self._terms = terms
        if (why := policy.idle_with(len(places))) is not None:
            warn_once(f"hedger {name}: {why}")
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
        self._trunk = trunk
        self._purse = purse.Purse(name, self._policy.limits)
        self._homes: list[Home] = []
        """The last of each thread, in loops that keep real time."""

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
        if self._trunk is not None:
            return self._trunk.home().beside(self._policy)
        if not keeps_real_time(loop):
            known = last is not None and not last.knows_better_than(loop)
            return Home(loop, last.route if known and last is not None else self._route(None))
        with purse.lock:
            homes = self._homes
            old = last if last in homes else next((each for each in homes if each.forsaken), None)
            if old is not None:
                homes.remove(old)
            home = Home(loop, self._route(self._purse) if old is None else old.route)
            homes.append(home)
        return home

    def _route(self, spend: Spend | None) -> hedger.Hedger:
        shared, health = Shared(self._draw, terms=self._terms), Health()
        shared.spend = spend
        listeners: Sequence[Listener] = (Loud(self.name), *self._listeners)
        if (breaker := self._breaker) is not None:
            health.watch({place.candidate.target: Watch(breaker, per_model=False) for place in self._places})
        return hedger.Hedger(self.name, self._places, self._policy, listeners=listeners, health=health, shared=shared)

    def ask(self, call: Call, total: float | None, args: Sequence[Any], kwargs: Mapping[str, Any], now: float) -> Ask:
        """The call as the policy sees it; `total` as in `Setup`."""
        size = 0 if call.size is None else max(call.size(*args, **kwargs), 0)
        return Ask(
            self._prefix + str(next(self._numbers)),
            True,
            size,
            None,
            now,
            now + (self._total if total is None else total),
        )

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
