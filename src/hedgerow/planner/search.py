"""What hedging would buy on a log: for each budget the best way, found on its first part and judged on the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hedgerow import __version__
from hedgerow.errors import ConfigError
from hedgerow.planner.log import Log
from hedgerow.planner.plan import Budget, Finding, Outcome, Plan, Route, Source
from hedgerow.planner.route_search import RouteSearch, too_short
from hedgerow.planner.scene import Scene, scene_of
from hedgerow.planner.statistics import pairings, statistics_of
from hedgerow.planner.trial import Crew, Progress, Trial, outcome_of
from hedgerow.policy.health import Watch
from hedgerow.policy.plan import Place
from hedgerow.policy.price import Price
from hedgerow.policy.settings import Policy

BUDGETS = tuple(Budget(share=share) for share in (0.02, 0.05, 0.1, 0.2))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What is asked. `primaries`: none names the target with most attempts; `every`: all that have enough.

    `backups`: none are named: the primary itself, and all others that are not known to be another model. `target`: the
    quantile to be made short. `fit`: the share of the log that is fitted on. `prices`: by target. `min_delay`,
    `max_delay`: as in a config, None for its defaults. `jobs`: processes.
    """

    budgets: Sequence[Budget] = BUDGETS
    target: float = 0.99
    seed: int = 1
    jobs: int = 1
    primaries: Sequence[str] = ()
    every: bool = False
    backups: Sequence[str] = ()
    prices: Mapping[str, Price] = field(default_factory=dict)
    min_delay: float | None = None
    max_delay: float | None = None
    fit: float = 0.5

    def __post_init__(self) -> None:
        """Raises `ConfigError`."""
        wrong = []
        if not 0.5 <= self.target < 1.0:
            wrong.append(f"the target quantile must be from 0.5 to below 1, not {self.target:g}")
        if not 0.1 <= self.fit <= 0.9:
            wrong.append(f"the share of the log that is fitted on must be from 10% to 90%, not {self.fit:.0%}")
        for budget in self.budgets:
            if budget.share is not None and not 0.001 <= budget.share <= 1.0:
                wrong.append(f"a budget must be from 0.1% to 100% of requests, not {budget.share:.4g}")
            if budget.usd_per_1000 is not None and not budget.usd_per_1000 > 0.0:
                wrong.append("a budget in money must be more than 0 dollars per 1,000 requests")
        if wrong or not self.budgets:
            raise ConfigError(wrong or ["no budget is given"])


def _quiet(_done: int, _planned: int, _words: str) -> None:
    pass


def plan(log: Log, source: Source, options: Options, progress: Progress = _quiet) -> Plan:
    """All of it. Raises `ConfigError` for names that are not in the log, and for money without prices."""
    progress(0, 1, "what the log says of its targets")
    known, pairs = statistics_of(log), pairings(log)
    searches: list[RouteSearch | Route] = []
    for target in _primaries(log, options):
        scene = scene_of(log, target, seed=options.seed, fit=options.fit, only=options.backups)
        if scene is None:
            searches.append(too_short(log, target))
            continue
        searches.append(RouteSearch(scene, options, known, pairs))
    crew = Crew(options.jobs, progress)
    crew.planned = sum(each.work for each in searches if isinstance(each, RouteSearch))
    findings: tuple[Finding, ...] = ()
    return Plan(
        version=__version__,
        seed=options.seed,
        target_quantile=options.target,
        source=source,
        targets=tuple(known),
        pairings=tuple(pairs),
        findings=findings,
        routes=tuple(each.run(crew) if isinstance(each, RouteSearch) else each for each in searches),
    )


def judge(
    log: Log,
    primary: str,
    places: Sequence[Place],
    policy: Policy,
    options: Options,
    *,
    watches: Mapping[str, Watch] | None = None,
    progress: Progress = _quiet,
) -> Outcome:
    """What comes of a policy that somebody has: on the rest of the log, as `plan` judges.

    `places` are those of its route, named as in the log, the primary first.
    """
    names = [place.candidate.target for place in places]
    scene = scene_of(
        log, _index(log, primary), seed=options.seed, fit=options.fit, only=[name for name in names if name != primary]
    )
    if scene is None:
        raise ConfigError([f"{primary}: too few requests in this log to judge anything by"])
    taken = _taken(scene, names)
    crew = Crew(options.jobs, progress)
    at, tokens = scene.primary.at, scene.primary.input_tokens
    trials = [
        Trial(policy, places, each, at, tokens, options.seed + number, watches or {})
        for number, each in enumerate(taken)
    ]
    flown = crew.fly(trials, "judging")
    return outcome_of([each.part(slice(scene.split, None)) for each in flown], options.target)


def _taken(scene: Scene, names: Sequence[str]) -> list[list[np.ndarray]]:
    """What requests take at each place, again and again."""
    of_name = {backup.name: backup for backup in scene.backups}
    if missing := [name for name in names if name not in of_name]:
        raise ConfigError([f"{name}: too few attempts in this log to judge anything by" for name in missing])
    if names.count(scene.name) > 2:
        raise ConfigError([f"{scene.name}: a route may name it twice"])
    rounds = len(scene.backups[0].near)
    return [[scene.own, *(of_name[name].near[number] for name in names[1:])] for number in range(rounds)]


def _primaries(log: Log, options: Options) -> list[int]:
    counts = np.bincount(log.target, minlength=len(log.targets))
    for name in options.backups:
        _index(log, name)
    if options.primaries:
        return [_index(log, name) for name in options.primaries]
    order = [int(each) for each in np.argsort(-counts, kind="stable") if counts[each]]
    return order if options.every else order[:1]


def _index(log: Log, name: str) -> int:
    if name not in log.targets:
        there = ", ".join(sorted(log.targets))
        raise ConfigError([f"{name}: the log has no such target; it has {there}"])
    return list(log.targets).index(name)
