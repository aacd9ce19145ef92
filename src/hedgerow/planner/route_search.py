"""The search for one primary: arithmetic proposes, the engine disposes.

Every way to hedge is tried on the end of the part that is fitted on. The best of each budget is then flown over the
whole log, and judged by what it does to the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from hedgerow.errors import ConfigError
from hedgerow.planner.choices import Aims, candidates, cheaper, off
from hedgerow.planner.config import policy_from, watches_of
from hedgerow.planner.findings_targets import far_away, unknown_costs
from hedgerow.planner.judging import Judging
from hedgerow.planner.log import Log
from hedgerow.planner.money import money_of
from hedgerow.planner.pictures import curves_of, heat_of, timeline_of
from hedgerow.planner.plan import Budget, Choice, Finding, Option, Outcome, Route
from hedgerow.planner.scene import Backup, Scene
from hedgerow.planner.statistics import TargetStatistics
from hedgerow.planner.trial import Crew, Flown, Trial, outcome_of
from hedgerow.planner.verdict import recommended, value_at
from hedgerow.report.words import counted

if TYPE_CHECKING:
    from hedgerow.planner.search import Options

TRIED = 20_000
"""Requests that every way is tried on, the last of those that are fitted on."""
_SETTLED = 0.25
"""Of these the share that does not count, as rules that learn know nothing yet."""
_LEARNS = 0.05
"""A rule that learns is left only for one with a quantile so much shorter: it goes on fitting when times change."""
_APART = 0.02
"""And so much is the chance worth that another target is well when the primary is not, which no log can promise."""
_AMPLE = 0.2
"""What this pays for is tried for larger budgets, too: who hedges most requests is taken for one in an outage."""
_ALIKE = 0.01
"""Of ways whose quantiles differ by no more than this, the one that hedges least is taken."""
_OVER = 1.2
"""How far beyond its budget a way may be in a trial, which begins with as many hedges as may start at once."""

_LEAST = 0.001
"""The smallest share that a configuration may say."""
_AGAIN, _BELOW = 4, 0.95
"""How often a way that costs more than a budget in money is tried with fewer hedges, and how much further down than
arithmetic says.
"""


def too_short(log: Log, target: int, quantile: float) -> Route:
    """Of a primary with too few attempts to look at any further."""
    own = log.of(log.target == target)
    none = np.zeros(len(own), dtype=np.int64)
    return Route(
        primary=log.targets[target],
        requests=len(own),
        fitted_on=0,
        judged_on=0,
        without=outcome_of([Flown(own.ttft, none, none, none, ())], quantile),
        options=(),
        recommended=None,
        verdict=f"Not known whether hedging pays: this log holds {counted(len(own), 'request')} of "
        f"{log.targets[target]}, too few to fit anything on one part of them and judge it on the rest. "
        "Do not hedge on its word.",
        heat=(),
        timeline=(),
        curves=(),
    )


class RouteSearch:
    """Of one scene."""

    def __init__(self, scene: Scene, options: Options, known: Sequence[TargetStatistics]) -> None:
        self.scene, self._options = scene, options
        self._aims = Aims(options.target, options.min_delay, options.max_delay)
        self._backups = {backup.name: backup for backup in scene.backups}
        self._watches = watches_of([scene.name, *self._backups])
        self._money = {name: money_of(scene, backup, options.prices) for name, backup in self._backups.items()}
        statistics = next(each for each in known if each.target == scene.name)
        self._judging = Judging(scene, statistics, self._money, options.target, options.seed)
        self._tried = slice(max(scene.split - TRIED, 0), scene.split)
        self._shares = [{name: self._share(budget, name) for name in self._backups} for budget in options.budgets]
        ample = [dict.fromkeys(self._backups, _AMPLE)] * any(max(each.values()) > _AMPLE for each in self._shares)
        self._offers = [*self._shares, *ample]
        self._choices = [candidates(scene, shares, self._aims) for shares in self._offers]

    def _share(self, budget: Budget, backup: str) -> float:
        """Hedges per request that a budget is for, where they go to this backup."""
        if budget.usd_per_1000 is None:
            return budget.share or 0.0
        money = self._money[backup]
        if money is None:
            both = " and ".join(dict.fromkeys((self.scene.name, backup)))
            raise ConfigError([f"a budget in money needs prices of {both}"])
        return max(money.share(budget.usd_per_1000, self.scene, self._backups[backup]), _LEAST)

    @property
    def work(self) -> int:
        """Requests that are to be flown in all."""
        tried = sum(map(len, self._choices)) * (self._tried.stop - self._tried.start)
        whole = (len(self._shares) + len(self._backups)) * len(self.scene)
        return self.scene.rounds * (tried + whole)

    def run(self, crew: Crew) -> Route:
        """Do it."""
        name = self.scene.name
        chosen = self._chosen(crew)
        without = [(off(self.scene, each), each) for each in self._backups.values()]
        plain = dict(zip(self._backups, self._flown(crew, without, f"{name} without hedging"), strict=True))
        flown = self._fly(crew, chosen)
        self._afford(crew, chosen, flown)
        before = [plain[choice.backup] for choice in chosen]
        judged = [
            self._judging.option(budget, shares[choice.backup], choice, *flights)
            for budget, shares, choice, *flights in zip(
                self._options.budgets, self._shares, chosen, before, flown, strict=True
            )
        ]
        index, verdict = recommended(self._judging.about, judged)
        main = 0 if index is None else index
        options = [each.option for each in judged]
        return self._route(options, index, verdict, before[main], None if index is None else flown[main])

    def findings(self, used: set[str]) -> Iterator[Finding]:
        """What is to be known of what stands for hedges at these backups, and of what they cost."""
        for backup in self.scene.backups:
            money = self._money[backup.name]
            if backup.name in used and self.scene.log.timed:
                yield from far_away(self.scene.name, backup.name, backup.apart)
            if backup.name in used and money is not None:
                yield from unknown_costs(self.scene.name, backup.name, *money.unknown)

    def _fly(self, crew: Crew, ways: Sequence[Choice]) -> list[list[Flown]]:
        configs = [(dict(choice.config), self._backups[choice.backup]) for choice in ways]
        return self._flown(crew, configs, f"judging the best way of each budget for {self.scene.name}")

    def _afford(self, crew: Crew, chosen: list[Choice], flown: list[list[Flown]]) -> None:
        """Fly those again, with a smaller share, whose hedges cost more than a budget in money, as judged."""
        for _ in range(_AGAIN):
            less = [(place, self._less(place, chosen[place], flown[place])) for place in range(len(chosen))]
            dear = {place: share for place, share in less if share is not None}
            if not dear:
                return
            for place, share in dear.items():
                self._shares[place][chosen[place].backup] = share
                chosen[place] = cheaper(self.scene, chosen[place], share)
            again = self._fly(crew, [chosen[place] for place in dear])
            for place, flights in zip(dear, again, strict=True):
                flown[place] = flights

    def _less(self, place: int, choice: Choice, flown: Sequence[Flown]) -> float | None:
        """Hedges per request that a budget in money is for, where these cost more; None where they do not."""
        usd, money = self._options.budgets[place].usd_per_1000, self._money[choice.backup]
        if usd is None or money is None:
            return None
        rest = slice(self.scene.split, None)
        cost = money.per_1000(flown, rest)
        if cost <= usd:
            return None
        before = self._shares[place][choice.backup]
        extra = float(np.mean([each.hedges[rest] for each in flown]))
        share = max(min(before, extra) * usd / cost * _BELOW, _LEAST)
        return share if share < before else None

    def _chosen(self, crew: Crew) -> list[Choice]:
        """Of each budget the way that does best where all are tried."""
        ways = [choice for choices in self._choices for choice in choices]
        configs = [(dict(choice.config), self._backups[choice.backup]) for choice in ways]
        words = f"trying {len(ways)} ways to hedge {self.scene.name}"
        flown = self._flown(crew, configs, words, self._tried)
        settled = slice(int((self._tried.stop - self._tried.start) * _SETTLED), None)
        tried = [outcome_of([each.part(settled) for each in some], self._options.target) for some in flown]
        own = [
            shares[choice.backup]
            for shares, choices in zip(self._offers, self._choices, strict=True)
            for choice in choices
        ]
        chosen = []
        for shares in self._shares:  # what a smaller budget pays for, a larger one does
            paid = [place for place, choice in enumerate(ways) if own[place] <= shares[choice.backup]]
            chosen.append(self._best([ways[place] for place in paid], [tried[place] for place in paid], shares))
        return chosen

    def _best(self, choices: Sequence[Choice], tried: Sequence[Outcome], shares: Mapping[str, float]) -> Choice:
        def within(place: int) -> bool:
            return tried[place].extra <= shares[choices[place].backup] * _OVER + 2.0 / tried[place].requests

        def value(place: int) -> float:
            choice, found = choices[place], value_at(tried[place], self._options.target)
            found *= 1.0 - _LEARNS if choice.delay == "auto" else 1.0
            return found * (1.0 - _APART if choice.relation == "other target" else 1.0)

        allowed = [place for place in range(len(choices)) if within(place)]
        shortest = min(map(value, allowed), default=inf)
        alike = [place for place in allowed if value(place) <= shortest * (1.0 + _ALIKE)]
        return choices[min(alike or range(len(choices)), key=lambda place: tried[place].extra)]

    def _flown(
        self, crew: Crew, configs: Sequence[tuple[Mapping[str, str], Backup]], words: str, part: slice = slice(None)
    ) -> list[list[Flown]]:
        """Of each config, as often as there are draws of what its backup takes."""
        scene, rounds = self.scene, range(self.scene.rounds)
        at, tokens = scene.primary.at[part], scene.primary.input_tokens[part]
        trials = []
        for config, backup in configs:
            policy, places = policy_from(config), scene.places(backup)
            for number in rounds:
                taken = (scene.own[part], backup.near[number][part])
                failing = (scene.failing[part], backup.failing)
                seed = self._options.seed + number
                trials.append(Trial(policy, places, taken, failing, at, tokens, seed, scene.pace, self._watches))
        flown = iter(crew.fly(trials, words))
        return [[next(flown) for _ in rounds] for _ in configs]

    def _route(
        self, options: Sequence[Option], index: int | None, verdict: str, before: Sequence[Flown],
        after: Sequence[Flown] | None,
    ) -> Route:  # fmt: skip
        scene, target = self.scene, self._options.target
        main = self._backups[options[0 if index is None else index].choice.backup]
        rest = slice(scene.split, None)
        took = {scene.name: scene.own[rest]}
        for backup in scene.backups:
            if backup.name != scene.name:
                took[backup.name] = backup.far[rest]
        if after is not None:
            took["hedged"] = after[0].took[rest]
        return Route(
            primary=scene.name,
            requests=scene.requests,
            fitted_on=scene.split,
            judged_on=len(scene) - scene.split,
            without=outcome_of([each.part(rest) for each in before], target),
            options=tuple(options),
            recommended=index,
            verdict=verdict,
            heat=heat_of(scene, main, target),
            timeline=timeline_of(scene, before[0], (after or before)[0], target),
            curves=curves_of(took),
        )
