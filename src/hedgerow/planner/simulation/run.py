"""A route in virtual time against simulated targets: the objects that decide in the gateway, and what they are told."""

from __future__ import annotations

import asyncio
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import nan
from random import Random
from typing import Protocol, cast

from hedgerow.alarm import Alarm
from hedgerow.events import BreakerChanged, BreakerState, Event, Failure, Headers, Reason, Role
from hedgerow.hedger import Hedger
from hedgerow.lab.latency import bits
from hedgerow.planner.clock import Clock
from hedgerow.planner.flight import BreakOff, Flight
from hedgerow.planner.replay import REFRESH
from hedgerow.planner.simulation.cap import Cap
from hedgerow.planner.simulation.staging import Staged
from hedgerow.planner.simulation.upstream import Done, Head
from hedgerow.policy.ask import Ask
from hedgerow.policy.settings import Policy

TOKENS = 500
"""Of every prompt."""
_STEP = 500
"""Requests between two signs of life."""

Progress = Callable[[int], None]
"""Told how many requests have come."""


class World(Protocol):
    """The targets."""

    clock: Clock

    def send(self, which: int, key: str, head: Head, done: Done) -> BreakOff:
        """Start an attempt at the route's place `which`."""

    @property
    def busy(self) -> float | None:
        """Seconds of work that servers have done; None where there are no servers."""


class Tally:
    """What came of the requests of one phase."""

    def __init__(self) -> None:
        self.took = array("d")
        """Seconds to the first token; nan: none came."""
        self.hedges = self.failovers = self.opened = 0
        self.skipped: Counter[Reason] = Counter()
        """Hedges that were due and not launched."""
        self.held: Counter[Reason] = Counter()
        """Attempts after a failure that were not."""
        self.first: Counter[str] = Counter()
        """Targets that were asked first."""
        self.answered: Counter[str] = Counter()
        """Targets whose answers won."""
        self.limited: Counter[Role] = Counter()
        """Attempts that were turned away by a rate limit."""
        self.busy = 0.0
        """Seconds of work that servers did while it lasted."""


class Told:
    """What came of a run, by phase."""

    def __init__(self, policy: Policy, phases: int) -> None:
        self.tallies = [Tally() for _ in range(phases)]
        self.breakers: list[BreakerChanged] = []
        limits = policy.limits
        self.hedges = None if limits.hedges is None else Cap(limits.hedges)
        self.failovers = None if limits.failovers is None else Cap(limits.failovers)
        self.caps = [cap for cap in (self.hedges, self.failovers) if cap is not None]


class Simulator:
    """One route, once, from nothing known to the last request."""

    kinds = (BreakerChanged,)

    def __init__(self, staged: Staged, policy: Policy, world: World, phases: int, seed: int) -> None:
        self.world, self.clock = world, world.clock
        self.alarm = Alarm(cast("asyncio.AbstractEventLoop", self.clock))
        self.told = Told(policy, phases)
        self.tally = self.told.tallies[0]
        shared = staged.shared(Random(bits(seed, "policy")).random)  # noqa: S311  # a simulation, not a secret
        self.hedger = Hedger(
            staged.name, staged.places, policy, listeners=[self], health=staged.health(), shared=shared
        )

    def __call__(self, event: Event) -> None:
        """A listener: a breaker has changed."""
        if isinstance(event, BreakerChanged):
            self.told.breakers.append(event)
            self.tally.opened += event.state is BreakerState.OPEN

    def run(self, arrivals: Sequence[float], starts: Sequence[float], progress: Progress) -> Told:
        """Let requests come at these times; phase after phase begins at `starts`, the first of which is 0."""
        self._until, self._busy = arrivals[-1], 0.0
        for phase, start in enumerate(starts[1:], 1):
            self.clock.call_at(start, self._turn, phase)
        self.clock.call_at(REFRESH, self._refresh)
        for index, at in enumerate(arrivals):
            self.clock.run_until(at)
            for cap in self.told.caps:
                cap.request(at)
            _Flight(self, index, at).start()
            if index % _STEP == 0:
                progress(index)
        self._count_work()
        self.clock.run()
        progress(len(arrivals))
        return self.told

    def _turn(self, phase: int) -> None:
        """A phase begins."""
        self._count_work()
        self.tally = self.told.tallies[phase]

    def _count_work(self) -> None:
        if (busy := self.world.busy) is not None:
            self.tally.busy += busy - self._busy
            self._busy = busy

    def _refresh(self) -> None:
        now = self.clock.now
        for _ in self.hedger.refreshing(now):
            pass
        if now < self._until:
            self.clock.call_at(now + REFRESH, self._refresh)


class _Flight(Flight):
    """One request, of which is counted what comes of it, in the phase in which it came."""

    __slots__ = ("_index", "_simulator", "_tally")

    def __init__(self, simulator: Simulator, index: int, at: float) -> None:
        hedger = simulator.hedger
        ask = Ask(str(index), True, TOKENS, None, at)
        super().__init__(hedger, ask, simulator.alarm, simulator.clock.time, hedger.emit)
        self._simulator, self._tally = simulator, simulator.tally
        self._index = len(self._tally.took)
        self._tally.took.append(nan)
        self._tally.first[hedger.places[self.order[0]].candidate.target] += 1

    def send(self, attempt: int, which: int, role: Role, now: float) -> BreakOff:
        told = self._simulator.told
        if role is Role.FAILOVER:
            self._tally.failovers += 1
            if told.failovers is not None:
                told.failovers.attempt(now)
        elif role is not Role.PRIMARY:
            self._tally.hedges += 1
            if told.hedges is not None:
                told.hedges.attempt(now)
        head, done = partial(self._head, which, now), partial(self._done, attempt, role)
        return self._simulator.world.send(which, self.ask.request_id, head, done)

    def _head(self, which: int, launched_at: float, headers: Headers) -> None:
        hedger = self._simulator.hedger
        hedger.reported(hedger.places[which], headers, launched_at, self._simulator.clock.now)

    def _done(self, attempt: int, role: Role, failure: Failure | None) -> None:
        if failure is not None and failure.status == 429:
            self._tally.limited[role] += 1
        self.heard(attempt, failure)

    def won(self, attempt: int, now: float) -> None:
        self._tally.took[self._index] = now - self.ask.started_at
        self._tally.answered[self._attempts[attempt].place.candidate.target] += 1

    def skip(self, reason: Reason, detail: str, role: Role) -> None:
        (self._tally.held if role is Role.FAILOVER else self._tally.skipped)[reason] += 1
        self.late(role)

    def over(self) -> None: ...
