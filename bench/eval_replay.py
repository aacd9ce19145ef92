"""A route in virtual time: the gateway's own objects, with a clock that jumps and upstreams that are numbers.

Everything that decides is what the gateway decides with: a `Hedger` with its race, latency model, delays, budgets,
breakers and throttle, on an event loop whose clock jumps. Only the network is replaced: a `World` says when attempts
end.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from random import Random
from typing import Any, Protocol

from bench.eval_told import Told
from bench.streams import Stream
from hedgerow.alarm import Alarm
from hedgerow.events import Failure, Listener, Reason, Role
from hedgerow.hedger import Hedger
from hedgerow.planner.flight import BreakOff, Flight
from hedgerow.planner.simulation.cap import Cap
from hedgerow.policy.account import Limits
from hedgerow.policy.ask import Ask
from hedgerow.policy.budget import FAILOVERS, HEDGES, Share
from hedgerow.policy.health import Health
from hedgerow.policy.judge import Shared
from hedgerow.policy.outage import ThrottleSettings
from hedgerow.policy.plan import Candidate, Place
from hedgerow.policy.settings import Policy
from hedgerow.testing import VirtualLoop, run_virtual

RATE = 20.0
"""Requests per second, unless said otherwise; they come at random."""
REFRESH = 5.0
"""Seconds between two looks at what was learned."""

Done = Callable[[Failure | None], None]


class World(Protocol):
    """What answers attempts."""

    def send(self, request: int, place: int, done: Done) -> Callable[[], object]:
        """Start an attempt. `done` is told of its first token (None) or its failure, later and once.

        Unless what is returned is called before: that breaks the attempt off.
        """


class Recorded:
    """Attempts that take as long as is written down: seconds by place, for each request; `inf` never ends."""

    def __init__(self, loop: VirtualLoop, *seconds: Sequence[float]) -> None:
        self._loop, self._seconds = loop, seconds

    def send(self, request: int, place: int, done: Done) -> Callable[[], object]:
        seconds = self._seconds[place][request]
        return self._loop.call_later(seconds, done, None).cancel if seconds < inf else _nothing


def _nothing() -> None:
    pass


def policy(budget: float | None, **changes: object) -> Policy:
    """What a route of the gateway does unless it is told otherwise, within this budget (None: no cap)."""
    share = None if budget is None else Share(budget, HEDGES.burst, HEDGES.per_minute)
    settings: dict[str, object] = {
        "delay": "auto",
        "min_delay": 0.05,
        "max_delay": 30.0,
        "warmup_delay": 2.0,
        "limits": Limits(hedges=share, failovers=FAILOVERS),
        "throttle": ThrottleSettings(),
    }
    return Policy(**(settings | changes))  # type: ignore[arg-type]


def places(count: int = 2, *, same_provider: bool = True) -> list[Place]:
    """The targets `a`, `b`, ...; those of one provider share an account."""
    return [Place(Candidate(name, "account" if same_provider else f"account of {name}")) for name in "abcdefgh"[:count]]


class Replay:
    """One route and the requests that come to it."""

    def __init__(
        self,
        loop: VirtualLoop,
        world: World,
        policy: Policy,
        random: Random,
        *,
        at: Sequence[Place],
        health: Health | None = None,
        listeners: Sequence[Listener] = (),
        rate: float = RATE,
        name: str = "",
    ) -> None:
        self.name = name
        """What the requests' names begin with."""
        self.loop, self.world, self.random, self.places, self._rate = loop, world, random, at, rate
        self.alarm = Alarm(loop)
        self.hedger = Hedger("replay", at, policy, health=health, shared=Shared(random.random), listeners=listeners)
        self.tell: Listener = self.hedger.emit
        self._hedges = Cap(policy.limits.hedges or Share(1.0))
        self._failovers = Cap(policy.limits.failovers or Share(1.0))
        self._all_over: Future[None] = loop.create_future()
        loop.set_exception_handler(self._broke)

    async def run(self, tokens: Sequence[int]) -> Told:
        """Let requests with so many prompt tokens come, until all of them are over."""
        count = len(tokens)
        self.told = Told([0.0] * count, [inf] * count, [0] * count, [0] * count, [0] * count)
        self.tokens, self.left = tokens, count
        self._timer = self.loop.call_later(REFRESH, self._refresh)
        self._arrive(0)
        await self._all_over
        self._timer.cancel()
        self.told.most, self.told.most_failovers = self._hedges.most, self._failovers.most
        return self.told

    def _arrive(self, index: int) -> None:
        now = self.loop.time()
        self._hedges.request(now)
        self._failovers.request(now)
        _Flight(self, index).start()
        if index + 1 < len(self.tokens):
            self.loop.call_later(self.random.expovariate(self._rate), self._arrive, index + 1)

    def _refresh(self) -> None:
        for _ in self.hedger.refreshing(self.loop.time()):
            pass
        self._timer = self.loop.call_later(REFRESH, self._refresh)

    def hedged(self, index: int, waited: float, now: float) -> None:
        """A hedge is launched."""
        self.told.hedges[index] += 1
        self.told.delays.append(waited)
        self.told.hedged_at.append(now)
        self._hedges.attempt(now)

    def failed_over(self, index: int, now: float) -> None:
        """An attempt is launched after a failure."""
        self.told.failovers[index] += 1
        self._failovers.attempt(now)

    def _broke(self, _loop: AbstractEventLoop, context: dict[str, Any]) -> None:
        if not self._all_over.done():
            self._all_over.set_exception(context.get("exception") or RuntimeError(context["message"]))

    def over(self) -> None:
        """A request is over."""
        self.left -= 1
        if not self.left:
            self._all_over.set_result(None)


class _Flight(Flight):
    """One request, of which is told what comes of it."""

    __slots__ = ("_index", "_replay")

    def __init__(self, replay: Replay, index: int) -> None:
        now = replay.loop.time()
        ask = Ask(f"{replay.name}{index}", stream=True, input_tokens=replay.tokens[index], started_at=now)
        Flight.__init__(self, replay.hedger, ask, replay.alarm, replay.loop.time, replay.tell)
        self._replay, self._index = replay, index
        replay.told.came_at[index] = now
        replay.told.first_place[index] = self.order[0]
        replay.told.arms.append(self.run.arm)

    def send(self, attempt: int, which: int, role: Role, now: float) -> BreakOff:
        if role is Role.HEDGE:
            self._replay.hedged(self._index, now - self.ask.started_at, now)
        elif role is Role.FAILOVER:
            self._replay.failed_over(self._index, now)
        return self._replay.world.send(self._index, which, partial(self.heard, attempt))

    def won(self, attempt: int, now: float) -> None:
        self._replay.told.took[self._index] = now - self.ask.started_at

    def skip(self, reason: Reason, detail: str, role: Role) -> None:
        self._replay.told.skipped[reason] += 1
        self.late(role)

    def over(self) -> None:
        self._replay.over()


def replay_stream(stream: Stream, policy: Policy, *, rate: float = RATE, seed: int = 1) -> Told:
    """What the gateway does with the requests of a stream."""

    async def main(loop: VirtualLoop) -> Told:
        world = Recorded(loop, stream.primary, stream.backup)
        at = places(same_provider=stream.same_provider)
        return await Replay(loop, world, policy, Random(seed), at=at, rate=rate).run(stream.tokens)

    return run_virtual(main)
