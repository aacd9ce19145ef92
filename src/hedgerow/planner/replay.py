"""A route in virtual time: the objects that decide in the gateway, with numbers for upstreams.

A request whose first attempt answers before anything is due for it decides nothing: its hedger is told of the answer,
and that is all. Every other request has a `Run` of its own, as in the gateway.
"""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from math import inf, nan
from typing import Protocol, cast

from hedgerow.alarm import Alarm
from hedgerow.engine import Basis, quiet
from hedgerow.events import Failure, Listener, Reason, Role
from hedgerow.hedger import Hedger
from hedgerow.planner.clock import Clock
from hedgerow.planner.flight import BreakOff, Flight
from hedgerow.policy.ask import Ask
from hedgerow.policy.health import Health
from hedgerow.policy.judge import Shared
from hedgerow.policy.plan import Place
from hedgerow.policy.settings import Policy

REFRESH = 5.0
"""Seconds between two looks at what was learned, as in the gateway."""
_PRIMARY = Role.PRIMARY


class World(Protocol):
    """How long attempts take."""

    def attempt(self, request: int, place: int, number: int, now: float) -> tuple[float, Failure | None]:
        """Seconds until this attempt (of this number within its request) has its first token, or fails."""


class Told:
    """What came of the requests, by their index: seconds to the first token (nan: none), hedges, failovers."""

    def __init__(self, count: int) -> None:
        self.took = array("d", [nan]) * count
        self.hedges = array("B", bytes(count))
        self.failovers = array("B", bytes(count))
        self.winner = array("b", [-1]) * count
        self.hedged_at = array("d", [nan]) * count
        """Seconds after its start at which the first hedge was launched."""
        self.skipped: Counter[Reason] = Counter()


class Replay:
    """One route, and the requests that come to it."""

    def __init__(
        self,
        world: World,
        policy: Policy,
        places: Sequence[Place],
        draw: Callable[[], float],
        *,
        health: Health | None = None,
        listeners: Sequence[Listener] = (),
        refresh: float = REFRESH,
    ) -> None:
        """`refresh`: seconds between two looks at what was learned; where requests are rare, more change little."""
        self.world = world
        self._every = refresh
        self.places = places
        self.clock = Clock()
        self.alarm = Alarm(cast("asyncio.AbstractEventLoop", self.clock))
        self.policy = policy
        self._health = health = health or Health()
        self._watched = health.watches
        shared = Shared(draw)
        self.hedger = Hedger("plan", places, policy, listeners=listeners, health=health, shared=shared, sealed=True)

    def run(self, arrivals: Sequence[float], tokens: Sequence[int]) -> Told:
        """Let requests come at these times (seconds, not decreasing), with so many tokens of prompt."""
        self.told = Told(len(arrivals))
        clock, places, attempt = self.clock, self.places, self.world.attempt
        begins, run_until, surely_at, answered = self.hedger.begins, clock.run_until, clock.surely_at, self._answered
        unwell = self._health.unwell
        refresh_at = (arrivals[0] if len(arrivals) else 0.0) + self._every
        for index, at in enumerate(arrivals):
            while at >= refresh_at:
                self._refresh(refresh_at)
                refresh_at += self._every
            run_until(at)
            ask = Ask(str(index), True, tokens[index], None, at)
            begun = begins(ask, at)
            which = begun[1][0]
            seconds, failure = attempt(index, which, 0, at)
            if failure is None and seconds < quiet(begun[0]) and not unwell:  # else it may be a probe
                surely_at(at + seconds, answered, index, places[which], ask)
            else:
                _Flight(self, index, ask, begun).fly(seconds, failure)
        clock.run()
        return self.told

    def _answered(self, index: int, place: Place, ask: Ask) -> None:
        """A request's first attempt has answered, and nothing was due before."""
        now, at, told, hedger = self.clock.now, ask.started_at, self.told, self.hedger
        told.took[index] = now - at
        told.winner[index] = 0
        if self._watched or self._health.out:
            hedger.answered(place, ask, at, now)
        hedger.first_token(ask, 0, place.candidate.target, _PRIMARY, at, now)

    def _refresh(self, now: float) -> None:
        self.clock.run_until(now)
        for _ in self.hedger.refreshing(now):
            pass


class _Flight(Flight):
    """One request, of which is counted what comes of it."""

    __slots__ = ("_first", "_index", "_replay")

    def __init__(self, replay: Replay, index: int, ask: Ask, begun: tuple[Basis, Sequence[int]]) -> None:
        hedger = replay.hedger
        Flight.__init__(self, hedger, ask, replay.alarm, replay.clock.time, hedger.emit, begun)
        self._replay, self._index = replay, index

    def fly(self, seconds: float, failure: Failure | None) -> None:
        """Run the race; the first attempt takes so long, or fails."""
        self._first = seconds, failure
        self.start()

    def send(self, attempt: int, which: int, role: Role, now: float) -> BreakOff:
        replay, told, index = self._replay, self._replay.told, self._index
        if role is Role.FAILOVER:
            told.failovers[index] += 1
        elif role is not _PRIMARY:
            if not told.hedges[index]:
                told.hedged_at[index] = now - self.ask.started_at
            told.hedges[index] += 1
        seconds, failure = replay.world.attempt(index, which, attempt, now) if attempt else self._first
        return int if seconds == inf else replay.clock.call_at(now + seconds, self.heard, attempt, failure).cancel

    def won(self, attempt: int, now: float) -> None:
        self._replay.told.took[self._index] = now - self.ask.started_at
        self._replay.told.winner[self._index] = attempt

    def skip(self, reason: Reason, detail: str, role: Role) -> None:
        self._replay.told.skipped[reason] += 1
        self.late(role)

    def over(self) -> None: ...
