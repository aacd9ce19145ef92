"""One primary of a log, its requests, and what each of them would have taken at the targets that may back it up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from hedgerow.planner.findings_targets import LIMITED
from hedgerow.planner.log import Floats, Log
from hedgerow.planner.plan import Relation
from hedgerow.planner.replay import REFRESH
from hedgerow.planner.world import Drawn, failing, independent, neighbours, usual_failure
from hedgerow.policy.plan import Candidate, Place

LEAST = 40
"""Attempts that a target must have in each part of the log to be looked at; answered, where it is the primary."""
MOST = 200_000
"""Requests that are looked at: of longer logs the last."""
ENOUGH = 6_000
"""Requests of short logs are gone through again, each time with other hedges, until they are as many."""
_DRAWS = 20
_LOOKS, _FEW, _MANY = 100, 40, 250
"""Looks at what was learned over a log, and between two of them the fewest requests and the most."""
_ANOTHER = 2.0
"""How many times as long the median of another tier is, or the other way round."""


Draw = Callable[[Log, Log, int, np.random.Generator], Drawn]
"""A way to say what attempts at a target would have taken, of each request; see `world`."""


@dataclass(frozen=True, slots=True)
class Backup:
    """A target that hedges may go to. Of each request seconds, inf where the attempt fails.

    `near`: drawn from those near in time, of the same prompt size, again and again; `far`: from any in the same part.
    `failing`: seconds to a failure. `apart`: seconds in time between a request and what stands for its hedge, the
    median and the p90.
    """

    name: str
    relation: Relation
    near: tuple[Floats, ...]
    far: Floats
    failing: float
    apart: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Scene:
    """`own`: seconds of the primary's own record, inf where it failed, which took `failing`.

    The first `split` requests are fitted on.
    """

    log: Log
    primary: Log
    name: str
    requests: int
    """Of the whole log."""
    split: int
    own: Floats
    failing: Floats
    backups: tuple[Backup, ...]

    def __len__(self) -> int:
        return len(self.primary)

    @property
    def rounds(self) -> int:
        """How often what backups take was drawn."""
        return max(len(backup.near) for backup in self.backups)

    @property
    def pace(self) -> float:
        """Seconds between two looks of the route at what it has learned. In the gateway it is every few seconds; where
        that is for a handful of requests it is much work for little news, and here they are some more.
        """
        apart = min(max(len(self) / _LOOKS, _FEW), _MANY)
        return max(REFRESH, self.gap * apart)

    @property
    def gap(self) -> float:
        """Seconds between two requests on average."""
        return float(self.primary.at[-1] - self.primary.at[0]) / len(self)

    def slowest(self, backup: Backup) -> float:
        """The longest that an attempt took at the primary or this backup that did not fail."""
        asked = np.isin(self.log.target, [self.log.targets.index(name) for name in (self.name, backup.name)])
        return float(self.log.ttft[asked & ~self.log.failed].max())

    def places(self, backup: Backup) -> list[Place]:
        """Of a route from the primary to this backup."""
        return places_of([self.name, backup.name])

    def sure(self, backup: Backup) -> tuple[Floats, Floats]:
        """What primary and hedge take, for arithmetic: a failure is followed by an attempt at the backup at once."""
        return self.with_failover(backup.near[0]), backup.near[0]

    def with_failover(self, other: Floats) -> Floats:
        """What the primary takes, where those that fail are asked of the other."""
        return np.where(np.isfinite(self.own), self.own, self.failing + other)


def places_of(names: Sequence[str]) -> list[Place]:
    """Targets of a log in a route; those of one provider, the first word of their name, share an account."""
    return [Place(Candidate(name, name.split(" ")[0])) for name in names]


def scene_of(
    log: Log, target: int, *, seed: int, fit: float = 0.5, only: Sequence[str] = (), draws: int | None = None
) -> Scene | None:
    """None where the log holds too few attempts of this target. `only`: the backups that may be; none: see `_others`.

    `fit` is the share of the requests that is fitted on.
    """
    everything = np.flatnonzero(log.target == target)
    if len(everything) > MOST:
        log = log.of(slice(int(everything[-MOST]), None))
    primary = log.of(log.target == target)
    split = int(len(primary) * fit)
    if min((~part.failed).sum() for part in (primary.of(slice(split)), primary.of(slice(split, None)))) < LEAST:
        return None
    own = np.where(primary.failed, inf, primary.ttft)
    parts = _Parts(log, primary, split, seed)
    count = min(_DRAWS, max(1, ENOUGH // len(primary))) if draws is None else draws
    relations: list[tuple[int, Relation]] = [(target, "same target"), *_others(log, target, only)]
    backups = [
        parts.backup(other, relation, count) for other, relation in relations if not only or log.targets[other] in only
    ]
    there = tuple(backup for backup in backups if backup is not None)
    if not only:
        there = tuple(backup for backup in there if log.limited.get(backup.name, 0.0) < LIMITED) or there
    return Scene(log, primary, log.targets[target], len(everything), split, own, failing(primary), there)


class _Parts:
    """The part of a log that is fitted on and the rest: nothing of one is drawn for a request of the other."""

    def __init__(self, log: Log, primary: Log, split: int, seed: int) -> None:
        self._seed, self._name, self._log = seed, log.targets, log
        row = int(np.flatnonzero(log.target == primary.target[0])[split])
        self._pieces = [
            (log.of(slice(row)), primary.of(slice(split))),
            (log.of(slice(row, None)), primary.of(slice(split, None))),
        ]

    def backup(self, target: int, relation: Relation, draws: int) -> Backup | None:
        """None where there are too few attempts of it in some part."""
        if any((log.target == target).sum() < LEAST for log, _ in self._pieces):
            return None
        chances = [np.random.default_rng((self._seed, target, number)) for number in range(draws + 1)]
        near = [self._drawn(neighbours, target, chance) for chance in chances[:-1]]
        far = self._drawn(independent, target, chances[-1]).taken
        after = usual_failure(self._log.of(self._log.target == target))
        median, most = np.quantile(near[0].apart, (0.5, 0.9)).tolist()
        return Backup(self._name[target], relation, tuple(each.taken for each in near), far, after, (median, most))

    def _drawn(self, draw: Draw, target: int, chance: np.random.Generator) -> Drawn:
        parts = [draw(log, primary, target, chance) for log, primary in self._pieces]
        return Drawn(*(np.concatenate(each) for each in zip(*parts, strict=True)))


def _others(log: Log, target: int, only: Sequence[str]) -> list[tuple[int, Relation]]:
    """Other targets, and what they are to this one. Of a different model only those that are asked for by name.

    A name of several words ends with that of its model.
    """
    found: list[tuple[int, Relation]] = []
    median = _median(log, target)
    for other, name in enumerate(log.targets):
        if other == target or not (log.target == other).any():
            continue
        different = _model(name) != _model(log.targets[target])
        if different and name not in only:
            continue
        far = max(_median(log, other), 1e-9) / max(median, 1e-9)
        tier = different or not 1 / _ANOTHER <= far <= _ANOTHER
        found.append((other, "other tier" if tier else "other target"))
    return found


def _model(name: str) -> str | None:
    return name.rpartition(" ")[2] if " " in name else None


def _median(log: Log, target: int) -> float:
    good = (log.target == target) & ~log.failed
    return float(np.median(log.ttft[good])) if good.any() else inf
