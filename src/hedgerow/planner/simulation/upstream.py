"""Simulated targets up to their first token: the lab's laws, faults and draws, without the lab's bytes.

Beside what the lab has there are rate limits (`Wall`) and a fleet that all targets share (`fleet`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from math import ceil, log
from typing import Protocol

from hedgerow.events import Failure, Headers
from hedgerow.lab.latency import LatencyModel, bits, uniform
from hedgerow.lab.script import FaultMix
from hedgerow.planner.clock import Clock
from hedgerow.planner.flight import BreakOff
from hedgerow.planner.simulation.fleet import Fleet
from hedgerow.wire.failures import classify

REFUSES_AFTER = 0.1
"""Seconds to an error status."""

Done = Callable[[Failure | None], None]
"""Told of a first token or failure, later and once, unless the attempt is broken off before."""
Head = Callable[[Headers], None]
"""Told what an answer's head says."""


class Weather:
    """What holds for a target at some time: how many times as long everything takes, and what goes wrong."""

    __slots__ = ("faults", "slower")

    def __init__(self, slower: float, faults: str) -> None:
        self.slower = slower
        self.faults = FaultMix(faults) if faults else None


class Work(Protocol):
    """What makes a first token, once a request is let in."""

    def send(self, key: str, seen: int, slower: float, done: Callable[[], object]) -> BreakOff:
        """`done` is told of the first token, later, unless what is returned is called before."""


class Drawn:
    """It takes as long as the lab draws for the target of this name."""

    def __init__(self, clock: Clock, model: LatencyModel) -> None:
        self._clock, self._model = clock, model

    def send(self, key: str, seen: int, slower: float, done: Callable[[], object]) -> BreakOff:
        """As `Work`."""
        now = self._clock.now
        seconds = self._model.ttft(key, seen, prompt_tokens=0, nth=0, elapsed=now) * slower
        return self._clock.call_at(now + seconds, done).cancel


class Queued:
    """It waits in the queue of one server, drawn by chance, which then works on it; times are exponential."""

    def __init__(self, fleet: Fleet, servers: int, mean: float, seed: int, target: str) -> None:
        self._fleet, self._servers, self._mean, self._names = fleet, servers, mean, (seed, target)

    def send(self, key: str, seen: int, slower: float, done: Callable[[], object]) -> BreakOff:
        """As `Work`."""
        server = bits(*self._names, "server", key, seen) % self._servers
        seconds = -log(uniform(*self._names, "work", key, seen)) * self._mean * slower
        return self._fleet.send(server, seconds, done)


class Wall:
    """A rate limit on requests, as OpenAI counts: a bucket that is used up by requests and comes back evenly."""

    def __init__(self, limit: int, window: float, *, late: bool) -> None:
        """`limit` requests in `window` seconds. `late`: heads come with the first token, and say what was left when the
        request came; else they come at once, as the lab's do.
        """
        self.limit, self.late = limit, late
        self._rate, self._used, self._at = limit / window, 0.0, 0.0
        self.refused = 0

    def left(self, now: float) -> float:
        """Requests that would be taken now."""
        self._used, self._at = max(self._used - self._rate * (now - self._at), 0.0), now
        return self.limit - self._used

    def ask(self, now: float) -> tuple[int, Headers]:
        """A request comes: the status, 200 or 429, and what the answer's head says."""
        taken = self.left(now) >= 1.0
        if taken:
            self._used += 1.0
        else:
            self.refused += 1
        headers = [
            (b"x-ratelimit-limit-requests", b"%d" % self.limit),
            (b"x-ratelimit-remaining-requests", b"%d" % (self.limit - self._used)),
            (b"x-ratelimit-reset-requests", b"%dms" % ceil(self._used / self._rate * 1_000.0)),
        ]
        if not taken:
            headers.append((b"retry-after-ms", b"%d" % ceil((self._used + 1.0 - self.limit) / self._rate * 1_000.0)))
        return (200 if taken else 429), headers


class Upstream:
    """One target. `key` names a request: with the same seed it meets the same fate in every run."""

    def __init__(self, name: str, seed: int, clock: Clock, work: Work, weather: Callable[[float], Weather]) -> None:
        self._fates = seed, "fault", name
        self._clock, self._work, self._weather = clock, work, weather
        self._seen: Counter[str] = Counter()

    def send(self, key: str, wall: Wall | None, head: Head, done: Done) -> BreakOff:
        """Start an attempt."""
        now, seen = self._clock.now, self._seen[key]
        self._seen[key] += 1
        if wall is not None:
            status, headers = wall.ask(now)
            if wall.late:
                done = partial(_both, head, headers, done)
            else:
                head(headers)
            if status != 200:
                return self._refuse(status, headers, done)
        weather = self._weather(now)
        if weather.faults is not None:
            script = weather.faults.pick(uniform(*self._fates, key, seen))
            if script is not None:
                return int if script.status is None else self._refuse(script.status, [], done)
        return self._work.send(key, seen, weather.slower, partial(done, None))

    def _refuse(self, status: int, headers: Headers, done: Done) -> BreakOff:
        failure = classify(status, headers, b"")
        return self._clock.call_at(self._clock.now + REFUSES_AFTER, done, failure).cancel


def _both(head: Head, headers: Headers, done: Done, failure: Failure | None) -> None:
    head(headers)
    done(failure)
