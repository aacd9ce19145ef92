"""What hedging would buy on a log: for each budget the best way, found on its first part and judged on the rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hedgerow import __version__
from hedgerow.errors import ConfigError
from hedgerow.planner.findings import findings_of
from hedgerow.planner.log import Log
from hedgerow.planner.money import money_of
from hedgerow.planner.plan import Budget, Finding, Outcome, Plan, Route, Source
from hedgerow.planner.route_search import RouteSearch, too_short
from hedgerow.planner.scene import scene_of
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
            wrong.append(f"the share of the log that is fitted on must be from 10 % to 90 %, not {self.fit:.0%}")
        for budget in self.budgets:
            if (budget.share is None) is (budget.usd_per_1000 is None):
                wrong.append("a budget is a share of requests or money, one of them")
            if budget.share is not None and not 0.001 <= budget.share <= 1.0:
                wrong.append(f"a budget must be from 0.1 % to 100 % of requests, not {budget.share:.4g}")
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
            searches.append(too_short(log, target, options.target))
            continue
        if not scene.backups:
            raise ConfigError([f"{scene.name}: too few attempts at {', '.join(options.backups)} to hedge to"])
        searches.append(RouteSearch(scene, options, known))
    work = sum(each.work for each in searches if isinstance(each, RouteSearch))
    with Crew(options.jobs, progress, work) as crew:
        routes = tuple(each.run(crew) if isinstance(each, RouteSearch) else each for each in searches)
    return Plan(
        version=__version__,
        seed=options.seed,
        target_quantile=options.target,
        source=source,
        targets=tuple(known),
        pairings=tuple(pairs),
        findings=findings_of(log, known, pairs, options.target, _drawn(searches, routes)),
        routes=routes,
    )


def _drawn(searches: Sequence[RouteSearch | Route], routes: Sequence[Route]) -> Iterator[Finding]:
    for search, route in zip(searches, routes, strict=True):
        if isinstance(search, RouteSearch):
            yield from search.findings({option.choice.backup for option in route.options})


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
    if len(set(names[1:])) < len(names) - 1:
        raise ConfigError(["a route that is judged may name each target once, and the primary twice"])
    scene = scene_of(log, _index(log, primary), seed=options.seed, fit=options.fit, only=names[1:])
    found = {} if scene is None else {backup.name: backup for backup in scene.backups}
    if scene is None or (missing := [name for name in names[1:] if name not in found]):
        short = primary if scene is None else ", ".join(missing)
        raise ConfigError([f"{short}: too few attempts in this log to judge anything by"])
    trials = [
        Trial(
            policy,
            places,
            [scene.own, *(found[name].near[number] for name in names[1:])],
            [scene.failing, *(found[name].failing for name in names[1:])],
            scene.primary.at,
            scene.primary.input_tokens,
            options.seed + number,
            scene.pace,
            watches or {},
        )
        for number in range(scene.rounds)
    ]
    with Crew(options.jobs, progress, scene.rounds * len(scene)) as crew:
        flown = crew.fly(trials, "judging")
    rest = slice(scene.split, None)
    money = money_of(scene, found[names[1]], options.prices) if len(names) == 2 else None
    usd = [] if money is None else [money.of(each, rest) for each in flown]
    return outcome_of([each.part(rest) for each in flown], options.target, usd)


def _primaries(log: Log, options: Options) -> list[int]:
    counts = np.bincount(log.target, minlength=len(log.targets))
    for name in (*options.backups, *options.prices):
        _index(log, name)
    if options.primaries:
        return [_index(log, name) for name in dict.fromkeys(options.primaries)]
    order = [int(each) for each in np.argsort(-counts, kind="stable") if counts[each]]
    return order if options.every else order[:1]


def _index(log: Log, name: str) -> int:
    if name not in log.targets:
        there = ", ".join(sorted(log.targets))
        raise ConfigError([f"{name}: the log has no such target; it has {there}"])
    return list(log.targets).index(name)
