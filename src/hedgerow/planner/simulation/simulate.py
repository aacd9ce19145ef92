"""A route of a configuration through a scenario, twice: without hedging and with it, on the same draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, isnan

import hedgerow
from hedgerow.config import Settings
from hedgerow.planner.simulation.cap import Cap
from hedgerow.planner.simulation.result import BreakerChange, Capped, Numbers, Phase, Simulation
from hedgerow.planner.simulation.run import Simulator, Tally, Told
from hedgerow.planner.simulation.scenario import Scenario
from hedgerow.planner.simulation.staging import Staged, stage, without_hedging
from hedgerow.planner.simulation.verdict import hedging_of, law_of, notes_of, verdict_of
from hedgerow.planner.simulation.world import Targets, Times
from hedgerow.policy.settings import Policy

REQUESTS, RATE = 20_000, 20.0

Progress = Callable[[int, int], None]
"""Told how many requests have come, of how many, in both runs together."""


@dataclass(frozen=True, slots=True)
class Options:
    """`route` None: the only one. `rate`: requests a second where the scenario does not change it."""

    requests: int = REQUESTS
    rate: float = RATE
    seed: int = 1
    route: str | None = None


def simulate(
    settings: Settings,
    scenario: Scenario,
    options: Options = Options(),  # frozen
    *,
    name: str = "own",
    source: str = "the configuration",
    progress: Progress = lambda done, of: None,
) -> Simulation:
    """`name` and `source` are what scenario and configuration are called. Raises `ConfigError`."""
    staged = stage(settings, options.route, source=source)
    times = Times(scenario.phases, options.requests, options.rate, options.seed)
    runs = _Runs(staged, scenario, times, options, progress)
    without, hedged = runs.told(without_hedging(staged.policy)), runs.told(staged.policy)
    phases = runs.phases(without, hedged)
    total = runs.phase("all", range(len(times.starts)), without, hedged)
    hedges, failovers = _capped(hedged.hedges), _capped(hedged.failovers)
    return Simulation(
        version=hedgerow.__version__,
        seed=options.seed,
        scenario=name,
        about=scenario.about,
        route=staged.name,
        targets=tuple(staged.targets),
        hedging=hedging_of(staged.policy),
        law=law_of(scenario, staged, options.rate),
        rate=options.rate,
        phases=phases,
        total=total,
        hedges=hedges,
        failovers=failovers,
        breakers=tuple(BreakerChange(each.target, each.state, each.at, each.why) for each in hedged.breakers),
        verdict=verdict_of(staged.policy, total, phases, runs.trouble(without, hedged), hedges, failovers),
        notes=notes_of(staged, scenario, total.without),
    )


class _Runs:
    def __init__(self, staged: Staged, scenario: Scenario, times: Times, options: Options, progress: Progress) -> None:
        self._staged, self._scenario, self._times, self._options = staged, scenario, times, options
        self._progress = progress
        self._done = 0

    def told(self, policy: Policy) -> Told:
        """What comes of one run."""
        options, times, before = self._options, self._times, self._done
        world = Targets(self._staged, self._scenario, times, options.rate, options.seed)
        simulator = Simulator(self._staged, policy, world, len(times.starts), options.seed)
        count = len(times.arrivals)
        self._done += count
        return simulator.run(times.arrivals, times.starts, lambda done: self._progress(before + done, 2 * count))

    def phases(self, without: Told, hedged: Told) -> tuple[Phase, ...]:
        """Those of one name together."""
        names = [phase.name for phase in self._scenario.phases]
        return tuple(
            self.phase(name, [index for index, each in enumerate(names) if each == name], without, hedged)
            for name in dict.fromkeys(names)
        )

    def trouble(self, without: Told, hedged: Told) -> Phase | None:
        """All that is unlike the first phase, if that is a usual one; None where nothing is, or everything."""
        phases = self._scenario.phases
        which = [index for index, each in enumerate(phases) if not each.usual]
        if not which or not phases[0].usual:
            return None
        name = "' and '".join(dict.fromkeys(phases[index].name for index in which))
        return self.phase(name, which, without, hedged)

    def phase(self, name: str, which: Sequence[int], without: Told, hedged: Told) -> Phase:
        """Those of the scenario's phases with these indices, together."""
        times = self._times
        ends = [*times.starts[1:], times.total]
        seconds = sum(ends[index] - times.starts[index] for index in which)
        plain, raced = (self.numbers([told.tallies[index] for index in which], seconds) for told in (without, hedged))
        return Phase(name=name, since=times.starts[which[0]], seconds=seconds, without=plain, hedged=raced)

    def numbers(self, tallies: Sequence[Tally], seconds: float) -> Numbers:
        """Of several phases together, which lasted so long."""
        took = [each for tally in tallies for each in tally.took]
        answered = sorted(each for each in took if not isnan(each))
        at = [_at(answered, len(took), p) for p in (0.5, 0.95, 0.99, 0.999)]
        queue = self._scenario.queue
        busy = sum(tally.busy for tally in tallies)
        return Numbers(
            requests=len(took),
            failed=len(took) - len(answered),
            p50=at[0],
            p95=at[1],
            p99=at[2],
            p999=at[3],
            hedges=sum(tally.hedges for tally in tallies),
            failovers=sum(tally.failovers for tally in tallies),
            skipped=_sum(tally.skipped.items() for tally in tallies),
            held=_sum(tally.held.items() for tally in tallies),
            limited=_sum(tally.limited.items() for tally in tallies),
            opened=sum(tally.opened for tally in tallies),
            first=_sum(tally.first.items() for tally in tallies),
            answered=_sum(tally.answered.items() for tally in tallies),
            load=None if queue is None else busy / seconds / queue.servers,
        )


def _sum(counts: Iterable[Iterable[tuple[str, int]]]) -> Mapping[str, int]:
    """By name; the largest first."""
    total: Counter[str] = Counter()
    for each in counts:
        total.update({str(name): count for name, count in each})
    return dict(sorted(total.items(), key=lambda item: (-item[1], item[0])))


def _at(answered: Sequence[float], requests: int, p: float) -> float | None:
    """The smallest time within which the share `p` of the requests was answered; None where fewer ever were."""
    rank = max(ceil(requests * p), 1)
    return answered[rank - 1] if rank <= len(answered) else None


def _capped(cap: Cap | None) -> Capped | None:
    if cap is None:
        return None
    share = cap.share
    return Capped(words=share.bound, share=share.share, burst=share.burst, launched=cap.launched, most_at_once=cap.most)
