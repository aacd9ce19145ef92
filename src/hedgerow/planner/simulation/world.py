"""The targets of a route under a scenario: a world for `run.Simulator`, new for every run, the same in each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import log
from random import Random

from hedgerow.lab.latency import LatencyModel, bits
from hedgerow.planner.clock import Clock
from hedgerow.planner.flight import BreakOff
from hedgerow.planner.simulation.fleet import Fleet
from hedgerow.planner.simulation.scenario import Phase, Queue, Scenario
from hedgerow.planner.simulation.staging import Staged
from hedgerow.planner.simulation.upstream import Done, Drawn, Head, Queued, Upstream, Wall, Weather, Work
from hedgerow.policy.correlation import assumed


class Times:
    """When requests come, and when phases begin: `rate` a second on average where a phase does not say otherwise."""

    def __init__(self, phases: Sequence[Phase], requests: int, rate: float, seed: int) -> None:
        self.total = requests / rate * _sum(phases) / sum(phase.rate * phase.lasts for phase in phases)
        """Seconds."""
        unit = self.total / _sum(phases)
        self.starts = [0.0, *accumulate(phase.lasts * unit for phase in phases[:-1])]
        self.arrivals = self._arrivals([phase.rate * rate for phase in phases], requests, seed)

    def _arrivals(self, rates: Sequence[float], requests: int, seed: int) -> list[float]:
        chance, at, phase, found = Random(bits(seed, "arrivals")), 0.0, 0, []  # noqa: S311  # a simulation, not a secret
        for _ in range(requests):
            wait = -log(1.0 - chance.random())
            while phase + 1 < len(rates) and at + wait / rates[phase] > self.starts[phase + 1]:
                wait -= (self.starts[phase + 1] - at) * rates[phase]
                phase += 1
                at = self.starts[phase]
            at += wait / rates[phase]
            found.append(at)
        return found


def _sum(phases: Sequence[Phase]) -> float:
    return sum(phase.lasts for phase in phases)


class Targets:
    """Every target of the route."""

    def __init__(self, staged: Staged, scenario: Scenario, times: Times, rate: float, seed: int) -> None:
        self.clock = Clock()
        self._fleet, self._queue, self._rate = None, scenario.queue, rate
        if scenario.queue is not None:
            self._fleet = Fleet(self.clock, scenario.queue.servers, cancels=scenario.queue.cancels)
        rho = rho_of(scenario, staged)
        upstreams = {}
        for name in staged.targets:
            primary = name == staged.primary
            law = scenario.law if primary else scenario.backups_law or scenario.law
            model = LatencyModel(provider=name, seed=seed, shape=law.shape, rho=rho)
            weather = [_weather(phase, primary=primary) for phase in scenario.phases]
            upstreams[name] = Upstream(name, seed, self.clock, self._work(model), _Forecast(times.starts, weather))
        candidates = [place.candidate for place in staged.places]
        self.walls = {(each.target, each.account): _wall(scenario, staged, each.target, rate) for each in candidates}
        """By target and account."""
        self._places = [(upstreams[each.target], self.walls[each.target, each.account]) for each in candidates]

    def send(self, which: int, key: str, head: Head, done: Done) -> BreakOff:
        """As `run.World`."""
        upstream, wall = self._places[which]
        return upstream.send(key, wall, head, done)

    @property
    def busy(self) -> float | None:
        """As `run.World`."""
        return None if self._fleet is None else self._fleet.busy

    def _work(self, model: LatencyModel) -> Work:
        if self._fleet is None or self._queue is None:
            return Drawn(self.clock, model)
        servers = self._queue.servers
        return Queued(self._fleet, servers, work_of(self._queue, self._rate), model.seed, model.provider)


class _Forecast:
    """The weather of one target at any time."""

    def __init__(self, starts: Sequence[float], weather: Sequence[Weather]) -> None:
        self._starts, self._weather = starts, weather

    def __call__(self, now: float) -> Weather:
        return self._weather[bisect_right(self._starts, now) - 1]


def _weather(phase: Phase, *, primary: bool) -> Weather:
    own = phase.primary if primary else phase.backups
    return Weather(phase.slower * own.slower, own.faults)


def _wall(scenario: Scenario, staged: Staged, target: str, rate: float) -> Wall | None:
    limits = scenario.limits
    if limits is None:
        return None
    times = limits.primary if target == staged.primary else limits.backups
    return Wall(max(round(times * rate * limits.window), 1), limits.window, late=limits.late)


def work_of(queue: Queue, rate: float) -> float:
    """Seconds that a server works on a request on average, so that its load is what it is to be."""
    return queue.load * queue.servers / rate


def rho_of(scenario: Scenario, staged: Staged) -> float:
    """How much the times of a request's attempts go together."""
    return assumed(same_provider=staged.one_account) if scenario.rho is None else scenario.rho
