"""What a plan of the first half of a log says of a way to hedge, beside what comes of that in the second half."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from bench.eval_report import percent
from bench.streams_logs import FIRST, Subject
from hedgerow.demo.report import seconds
from hedgerow.planner.config import policy_of, watches_of
from hedgerow.planner.log import Floats
from hedgerow.planner.plan import Budget, Choice, Option, Source
from hedgerow.planner.scene import Scene, scene_of
from hedgerow.planner.search import Options, plan
from hedgerow.planner.trial import Flown, Trial, at_share, fly, outcome_of
from hedgerow.planner.verdict import value_at

TARGET = 0.99
NEAR = 0.1
"""How far a forecast may be off, as a share of what came."""
NOTHING = 0.001
"""Extra attempts per request that are as good as none: so little a forecast of them may be off in any case."""
SLOW = 100
"""Requests slower than a quantile that it takes to know it."""
_WHOLE = (0.5, 0.9, 0.95, TARGET)
"""Quantiles of times without hedges by which it is told whether a log has changed."""
_TIMES = 300
_BLOCKS = 10
"""Few, so that they are long: what a delay is learned from reaches back for up to 4,000 attempts."""
_SURE = (0.025, 0.975)
NO_SOURCE = Source(
    files=(),
    format="",
    columns=(),
    read=0,
    used=0,
    bad=(),
    notes=(),
    started_at=None,
    seconds=0.0,
    of_first_token=True,
)


class Figure(msgspec.Struct, frozen=True):
    """What was said and what came. `low`, `high`: between which values that is in 95 % of the resamples of what came;
    `by_chance`: whether the two are no further apart than two such stretches of one log may be.
    """

    said: float
    came: float
    low: float
    high: float
    by_chance: bool

    @property
    def ratio(self) -> float:
        """What was said by what came."""
        return self.said / self.came if self.came else float("inf") if self.said else 1.0

    def verdict(self, nothing: float = 0.0) -> str:
        """`kept`: within `NEAR`; `chance`: further away, as chance may have it; else `off`."""
        if abs(self.said - self.came) <= max(NEAR * self.came, nothing) + 1e-12:
            return "kept"
        return "chance" if self.by_chance else "off"


class Forecast(msgspec.Struct, frozen=True, kw_only=True):
    """Of one budget. `pays`: the plan's word. `independent`: the p99 that arithmetic on independent draws promises;
    `near_by`: the one that comes if any of the ten nearest records of the same length may stand for a hedge.

    `alone`: the p99 without hedges where the plan judged, and after that; `differs`: by which share a quantile of the
    two (`_WHOLE`) differs at most. `judged_on`, `requests`: how many requests each figure is of.
    """

    group: str
    stream: str
    records: int
    at_length: bool
    budget: float
    backup: str
    delay: str
    probability: float
    pays: bool
    judged_on: int
    requests: int
    alone: tuple[float, float]
    differs: float
    p99: Figure
    extra: Figure
    independent: float
    near_by: float | None

    @property
    def changed(self) -> bool:
        """Whether the log itself is another one in its second half, so that nobody could have known."""
        return self.differs > NEAR

    @property
    def known(self) -> bool:
        """Whether enough requests are slower than the p99 for anybody to know it."""
        return min(self.judged_on, self.requests) * (1.0 - TARGET) >= SLOW - 1e-6

    @property
    def promised(self) -> bool:
        """Whether the p99 must be as forecast."""
        return self.known and not self.changed

    @property
    def verdicts(self) -> tuple[str, str]:
        """Of p99 and extra attempts."""
        return self.p99.verdict(), self.extra.verdict(NOTHING)

    @property
    def otherwise(self) -> str:
        """What the verdict on the p99 were with other neighbours; chance is left out of it."""
        return Figure(self.p99.said, self.near_by or 0.0, 0.0, 0.0, by_chance=False).verdict()

    def faults(self) -> list[str]:
        """What was promised and not kept. Of extra attempts nothing is where the plan says that hedging does not pay:
        a delay that is learned then hedges now and then, to find out.
        """
        found = []
        if self.p99.verdict() == "off":
            found.append(
                f"its p99 is not the one forecast ({seconds(self.p99.said)}, and {seconds(self.p99.came)} came)"
            )
        if self.extra.verdict(NOTHING) == "off" and self.pays:
            said, came = percent(self.extra.said), percent(self.extra.came)
            found.append(f"its extra attempts are not those forecast ({said}, and {came} came)")
        return found if self.promised else []


def forecasts(subject: Subject, budgets: Sequence[float], seed: int) -> list[Forecast]:
    """Of all budgets; none where half of the log is too short for a plan."""
    log, near_by = subject.make()
    split = int((log.target == 0).sum()) // 2
    known = log.of(slice(int(np.flatnonzero(log.target == 0)[split])))
    options = Options(budgets=[Budget(share=each) for each in budgets], target=TARGET, seed=seed, primaries=(FIRST,))
    planned = plan(known, NO_SOURCE, options).routes[0].options
    then, later = (scene_of(each, 0, seed=seed) for each in (known, log))
    if then is None or later is None:
        return []
    scenes = [then, later] if near_by is None else [then, later, _with(later, near_by)]
    flights: dict[Choice, list[list[Flown]]] = {}
    found = []
    for option in planned:
        choice = msgspec.structs.replace(option.choice, by_size=())
        if choice not in flights:
            flights[choice] = [flown(each, choice, seed) for each in scenes]
        found.append(_forecast(subject, option, scenes, flights[choice], seed))
    return found


def _with(scene: Scene, near_by: Floats) -> Scene:
    """With these hedges instead."""
    (backup,) = scene.backups
    return replace(scene, backups=(replace(backup, near=(near_by,)),))


def flown(scene: Scene, choice: Choice, seed: int) -> list[Flown]:
    """The engine with this choice on the part of a scene that a plan judges by, after the part that it fits on."""
    backup = next(each for each in scene.backups if each.name == choice.backup)
    policy, watches = policy_of(choice), watches_of([scene.name, *(each.name for each in scene.backups)])
    at, tokens, failing = scene.primary.at, scene.primary.input_tokens, (scene.failing, backup.failing)
    drawn = [(scene.own, near) for near in backup.near]
    trials = [
        Trial(policy, scene.places(backup), taken, failing, at, tokens, seed + number, scene.pace, watches)
        for number, taken in enumerate(drawn)
    ]
    return [fly(each).part(slice(scene.split, None)) for each in trials]


def _forecast(
    subject: Subject,
    option: Option,
    scenes: Sequence[Scene],
    flights: Sequence[Sequence[Flown]],
    seed: int,
) -> Forecast:
    said, came = option.expected, outcome_of(flights[1], TARGET)
    chance = np.random.default_rng((seed, 9))
    before, after = (resampled(each, chance) for each in flights[:2])
    own = [np.sort(each.own[each.split :]) for each in scenes[:2]]
    whole = [[at_share(each, p) for each in own] for p in _WHOLE]
    return Forecast(
        group=subject.group,
        stream=subject.name,
        records=subject.records,
        at_length=subject.at_length,
        budget=option.budget.share or 0.0,
        backup=option.choice.backup,
        delay=option.choice.delay,
        probability=option.choice.probability,
        pays=option.pays,
        judged_on=said.requests,
        requests=came.requests,
        alone=(whole[-1][0], whole[-1][1]),
        differs=max(abs(then / later - 1.0) for then, later in whole),
        p99=_figure(value_at(said, TARGET), value_at(came, TARGET), before[0], after[0]),
        extra=_figure(said.extra, came.extra, before[1], after[1]),
        independent=value_at(option.independent, TARGET),
        near_by=value_at(outcome_of(flights[2], TARGET), TARGET) if len(flights) > 2 else None,
    )


def _figure(said: float, came: float, before: Floats, after: Floats) -> Figure:
    low, high = np.quantile(after, _SURE).tolist()
    least, most = np.quantile(before - after, _SURE).tolist()
    return Figure(said, came, low, high, by_chance=least <= 0.0 <= most)


def resampled(flights: Sequence[Flown], chance: np.random.Generator) -> tuple[Floats, Floats]:
    """p99 and extra attempts of as many requests, again and again: blocks in a row, each of any of the flights."""
    took = np.stack([each.took for each in flights])
    hedges = np.stack([each.hedges for each in flights])
    count = took.shape[1]
    length = max(count // _BLOCKS, 1)
    blocks = -(-count // length)
    found = []
    for _ in range(_TIMES):
        starts = chance.integers(0, count - length + 1, blocks)
        rows = np.repeat(chance.integers(0, len(flights), blocks), length)[:count]
        places = (starts[:, None] + np.arange(length)).ravel()[:count]
        some = took[rows, places]
        answered = some[~np.isnan(some)]
        at = max(int(np.ceil(len(answered) * TARGET)) - 1, 0)
        found.append((np.partition(answered, at)[at], hedges[rows, places].mean()))
    p99, extra = np.array(found).T
    return p99, extra
