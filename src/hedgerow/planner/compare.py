"""Configurations that somebody has, judged on a log: what would have come of its requests under each route."""

from __future__ import annotations

import os
from collections import UserDict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from hedgerow import __version__
from hedgerow.config import Settings, load
from hedgerow.errors import ConfigError
from hedgerow.gateway.blueprint import Blueprint
from hedgerow.gateway.build import places_of
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.planner.log import Log
from hedgerow.planner.plan import Outcome, Source
from hedgerow.planner.search import Options, judge
from hedgerow.planner.trial import Progress
from hedgerow.policy.health import Watch
from hedgerow.policy.settings import Policy


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """A route of a configuration. `targets` are named as in the log, in the order in which they are asked.

    `without`: the same route with its hedges stopped. `delay` and `budget` as the configuration says them; a budget
    of None is no cap.
    """

    config: str
    route: str
    targets: tuple[str, ...]
    delay: str
    budget: float | None
    without: Outcome
    expected: Outcome


class Comparison(msgspec.Struct, frozen=True, kw_only=True, tag_field="schema", tag="hedgerow.comparison/1"):
    """What was judged: by first target, the best first (see `served`). `notes`: what was left out, and why."""

    version: str
    seed: int
    target_quantile: float
    source: Source
    judged: tuple[Judged, ...]
    notes: tuple[str, ...]


class _AnyKey(UserDict[str, str]):
    """The environment, in which every variable has a value: who judges needs no keys."""

    def __contains__(self, name: object) -> bool:
        return True

    def __missing__(self, name: str) -> str:
        return "none"


def compare(
    log: Log, source: Source, files: Sequence[Path], names: Mapping[str, str], options: Options, progress: Progress
) -> Comparison:
    """Of all routes whose first target is in the log. `names`: of targets in the log the configurations' names.

    Raises `ConfigError` where nothing can be judged.
    """
    judged: list[Judged] = []
    notes: list[str] = []
    every = [(file, load(file, _AnyKey(os.environ))) for file in files]
    _check(names, options, log, [settings for _, settings in every])
    for file, settings in every:
        found = _Config(str(file), settings, _by_config(log, settings, names))
        for route in settings.routes:
            if (why := found.missing(route)) is not None:
                notes.append(f"{file}: route {route} is left out: {why}")
                continue
            try:
                judged.append(found.judged(route, log, options, progress))
            except ConfigError as error:
                notes.append(f"{file}: route {route} is left out: {'; '.join(error.problems)}")
    if not judged:
        raise ConfigError(
            [*notes, f"the log has {', '.join(sorted(log.targets))}; --as NAME=TARGET says which is which"]
        )
    judged.sort(key=lambda each: (each.targets[0], served(each.expected)))
    return Comparison(
        version=__version__,
        seed=options.seed,
        target_quantile=options.target,
        source=source,
        judged=tuple(judged),
        notes=tuple(notes),
    )


def served(expected: Outcome) -> tuple[float, float]:
    """How well requests are served, smaller is better: by the quantile of all, in which a failure is the slowest.

    Where it falls on one, by how many there are.
    """
    return expected.of_all, expected.failed


def _check(names: Mapping[str, str], options: Options, log: Log, every: Sequence[Settings]) -> None:
    """Raises `ConfigError` for names that neither side has."""
    there = {target for settings in every for target in settings.targets}
    asked = {f"--as {name}={other}": name for name, other in names.items()}
    asked |= {f"--price {name}=...": name for name in options.prices}
    problems = [
        f"{option}: the log has no such target; it has {', '.join(sorted(log.targets))}"
        for option, name in asked.items()
        if name not in log.targets
    ]
    problems += [
        f"--as {name}={other}: no configuration has such a target; there are {', '.join(sorted(there))}"
        for name, other in names.items()
        if other not in there
    ]
    if problems:
        raise ConfigError(problems)


def _by_config(log: Log, settings: Settings, names: Mapping[str, str]) -> dict[str, str]:
    """Of the configuration's targets the log's names."""
    found = {name: name for name in log.targets if name in settings.targets}
    return found | {other: name for name, other in names.items() if other in settings.targets}


def _delay(policy: Policy) -> str:
    if policy.width > 1:
        return f"0 (a race of {policy.width})"
    return "never (a chain)" if policy.chain else str(policy.delay)


class _Config:
    """One file; `known`: its targets that are in the log, with their names there."""

    def __init__(self, file: str, settings: Settings, known: Mapping[str, str]) -> None:
        self._file, self._settings, self._known = file, settings, known
        self._blueprint: Blueprint = blueprint_of(settings, environ={})

    def missing(self, route: str) -> str | None:
        """Why a route cannot be judged; None where it can."""
        absent = [each for each in self._settings.routes[route].targets if each not in self._known]
        return f"the log knows nothing of {', '.join(dict.fromkeys(absent))}" if absent else None

    def judged(self, route: str, log: Log, options: Options, progress: Progress) -> Judged:
        """What comes of it, without and with hedges."""
        settings, policy = self._settings.routes[route], self._blueprint.routes[route].policy
        asked = settings.in_order(self._settings.targets)
        names = tuple(self._known[each] for each in asked)
        places = [place for each in asked for place in places_of(self._known[each], self._blueprint.targets[each])]
        watches = dict(self._watches(asked))
        without, expected = (
            judge(log, names[0], places, each, options, watches=watches, progress=progress)
            for each in (msgspec.structs.replace(policy, kill_switch=True), policy)
        )
        return Judged(
            config=self._file,
            route=route,
            targets=names,
            delay=_delay(policy),
            budget=settings.hedge.cap,
            without=without,
            expected=expected,
        )

    def _watches(self, asked: Sequence[str]) -> Iterator[tuple[str, Watch]]:
        for each in asked:
            target = self._blueprint.targets[each]
            yield self._known[each], Watch(target.breaker, per_model=target.model is None)
