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

import msgspec

from hedgerow.alarm import Alarm
from hedgerow.events import AttemptEnded, Failure, FirstToken, Listener, Outcome, Reason, Role
from hedgerow.hedger import Hedger
from hedgerow.planner.clock import Clock, Timer
from hedgerow.policy.ask import Ask
from hedgerow.policy.health import Health, Probe
from hedgerow.policy.judge import Shared
from hedgerow.policy.plan import Place
from hedgerow.policy.settings import Policy

REFRESH = 5.0
"""Seconds between two looks at what was learned, as in the gateway."""
_PRIMARY, _WON = Role.PRIMARY, Outcome.WON


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
    ) -> None:
        self.world = world
        self.places = places
        self.clock = Clock()
        self.alarm = Alarm(cast("asyncio.AbstractEventLoop", self.clock))
        self.hedger = Hedger("plan", places, policy, health=health, shared=Shared(draw), listeners=listeners)
        self.policy = policy

    def run(self, arrivals: Sequence[float], tokens: Sequence[int]) -> Told:
        """Let requests come at these times (seconds, not decreasing), with so many tokens of prompt."""
        self.told = Told(len(arrivals))
        clock, attempt = self.clock, self.world.attempt
        refresh_at = (arrivals[0] if len(arrivals) else 0.0) + REFRESH
        for index, at in enumerate(arrivals):
            while at >= refresh_at:
                self._refresh(refresh_at)
                refresh_at += REFRESH
            clock.run_until(at)
            flight = _Flight(self, index, tokens[index], at)
            seconds, failure = attempt(index, flight.order[0], 0, at)
            if failure is None and seconds < flight.run.quiet:
                clock.ring_at(at + seconds, flight)
            else:
                flight.fly(seconds, failure)
        clock.run()
        return self.told

    def _refresh(self, now: float) -> None:
        self.clock.run_until(now)
        for _ in self.hedger.refreshing(now):
            pass


class _Attempt:
    __slots__ = ("launched_at", "place", "probe", "role", "timer")

    def __init__(self, place: Place, role: Role, launched_at: float, probe: Probe | None) -> None:
        self.place, self.role, self.launched_at, self.probe = place, role, launched_at, probe
        self.timer: Timer | None = None


class _Flight:
    """One request; the engine's `Driver`, which tells the hedger what the gateway tells it."""

    __slots__ = ("_ask", "_at", "_attempts", "_first", "_index", "_replay", "order", "run")

    def __init__(self, replay: Replay, index: int, tokens: int, at: float) -> None:
        self._replay, self._index, self._at = replay, index, at
        self._ask = ask = Ask(str(index), True, tokens, None, at)
        self.run, self.order = replay.hedger.run(self, ask, at, replay.alarm)

    def ring(self) -> None:
        """The first attempt has answered, and nothing was due before."""
        replay, ask, now = self._replay, self._ask, self._replay.clock.now
        place = replay.places[self.order[0]]
        replay.told.took[self._index] = now - self._at
        replay.told.winner[self._index] = 0
        replay.hedger.answered(place, ask, self._at, now)
        target = place.candidate.target
        replay.hedger.emit(FirstToken(ask.request_id, 0, target, _PRIMARY, self._at, now, True, ask.input_tokens))

    def fly(self, seconds: float, failure: Failure | None) -> None:
        """Run the race; the first attempt takes so long, or fails."""
        self._attempts: list[_Attempt] = []
        self._first = seconds, failure
        self.run.start(self._at)

    def launch(self, attempt: int, candidate: int, role: Role) -> None:
        replay, now, which = self._replay, self._replay.clock.now, self.order[candidate]
        if role is Role.FAILOVER:
            replay.told.failovers[self._index] += 1
        elif role is not _PRIMARY:
            if not replay.told.hedges[self._index]:
                replay.told.hedged_at[self._index] = now - self._at
            replay.told.hedges[self._index] += 1
        place = replay.places[which]
        one = _Attempt(place, role, now, replay.hedger.launched(place, self._ask, role, now))
        self._attempts.append(one)
        seconds, failure = replay.world.attempt(self._index, which, attempt, now) if attempt else self._first
        if seconds < inf:
            one.timer = replay.clock.call_at(now + seconds, self._heard, attempt, failure)

    def _heard(self, attempt: int, failure: Failure | None) -> None:
        if failure is None:
            self.run.accepted(attempt)
            return
        one, replay = self._attempts[attempt], self._replay
        self._ended(attempt, Outcome.FAILED, failure)
        replay.hedger.failed(one.place, self._ask, failure, one.launched_at, replay.clock.now)
        self.run.failed(attempt, failure)

    def cancel(self, attempt: int, failure: Failure | None) -> None:
        one, replay = self._attempts[attempt], self._replay
        if one.timer is not None:
            one.timer.cancel()
        if failure is not None:
            replay.hedger.failed(one.place, self._ask, failure, one.launched_at, replay.clock.now)
        self._ended(attempt, Outcome.SUPERSEDED if failure is None else Outcome.FAILED, failure)

    def commit(self, attempt: int) -> None:
        one, replay, ask, now = self._attempts[attempt], self._replay, self._ask, self._replay.clock.now
        replay.told.took[self._index] = now - self._at
        replay.told.winner[self._index] = attempt
        replay.hedger.answered(one.place, ask, one.launched_at, now)
        target = one.place.candidate.target
        first = FirstToken(ask.request_id, attempt, target, one.role, one.launched_at, now, True, ask.input_tokens)
        replay.hedger.emit(first)
        self._ended(attempt, _WON, None, now)
        self._finish()

    def skip(self, reason: Reason, detail: str, role: Role) -> None:
        self._replay.told.skipped[reason] += 1
        if role is Role.HEDGE and len(self._attempts) == 1:
            self._replay.hedger.late(self._ask, self._replay.clock.now)

    def fail(self, attempt: int, failure: Failure) -> None:
        self._finish()

    def expire(self, failure: Failure) -> None:
        raise AssertionError("answers do not go on after their first token here")

    def crashed(self) -> None:
        raise

    def last_data_at(self) -> float:
        return self._at

    def _ended(self, attempt: int, outcome: Outcome, failure: Failure | None, first: float | None = None) -> None:
        one, replay, ask = self._attempts[attempt], self._replay, self._ask
        if one.probe is not None:
            replay.hedger.over(one.probe)
        times = one.launched_at, first, first, replay.clock.now
        status = 200 if first is not None else None
        target = one.place.candidate.target
        ended = AttemptEnded(ask.request_id, attempt, target, one.role, outcome, *times, status, 0, failure)
        replay.hedger.emit(msgspec.structs.replace(ended, input_tokens=ask.input_tokens))

    def _finish(self) -> None:
        self.run.finished()
        self._replay.hedger.finished(self._ask.request_id, len(self._attempts), self._replay.clock.now)
