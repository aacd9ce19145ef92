"""What an option comes to: the engine's runs beside arithmetic, and how sure the gain is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import floor, inf

import msgspec
import numpy as np
import numpy.typing as npt

from hedgerow.events import Reason
from hedgerow.planner.choices import burst_of, fitted
from hedgerow.planner.estimate import Estimate, best, hedged, oracle
from hedgerow.planner.findings_targets import LIMITED
from hedgerow.planner.log import Floats
from hedgerow.planner.money import Money
from hedgerow.planner.noise import cut_of
from hedgerow.planner.plan import Budget, Choice, Option, Outcome
from hedgerow.planner.scene import Backup, Scene
from hedgerow.planner.statistics import TargetStatistics
from hedgerow.planner.trial import Flown, outcome_of
from hedgerow.planner.verdict import About, Judged, pays, too_dear, turned_away, value_at
from hedgerow.policy.auto import PROMPTS
from hedgerow.policy.latency.cells import SIZES

_ROUNDING = 1e-9
"""What sums of times lose."""


class Judging:
    """Of one scene, on the part that nothing was fitted on."""

    def __init__(
        self, scene: Scene, statistics: TargetStatistics, money: Mapping[str, Money | None], target: float, seed: int
    ) -> None:
        self._scene, self._money, self._target, self._seed = scene, money, target, seed
        self._backups = {backup.name: backup for backup in scene.backups}
        self._rest = slice(scene.split, None)
        away = {backup.name: scene.log.limited.get(backup.name, 0.0) for backup in scene.backups}
        limited = away if min(away.values()) >= LIMITED else {}
        self.about = About(target, scene.requests, len(scene) - scene.split, statistics, limited)

    def option(
        self, budget: Budget, share: float, choice: Choice, before: Sequence[Flown], flown: Sequence[Flown]
    ) -> Judged:
        """`share`: what the budget is for; `before`: the engine with hedging off, on the whole log as `flown` is."""
        target, rest, backup = self._target, self._rest, self._backups[choice.backup]
        plain, after = [each.part(rest) for each in before], [each.part(rest) for each in flown]
        cut = cut_of(plain, after, target, self._seed)
        expected = self._outcome(flown, rest, choice)
        without = outcome_of(plain, target)
        own, near = (each[rest] for each in self._scene.sure(backup))
        answered = np.isfinite(own)
        set_once = best(*fitted(self._scene, backup), share, target)
        stale = self._fixed(own, near, set_once, share, burst_of(self._scene, share))
        money = self._money[choice.backup]
        limited = self._scene.log.limited.get(choice.backup, 0.0)
        paid, why = pays(self.about, cut, without, expected, None if money is None else money.bill(rest))
        if limited >= LIMITED:
            paid, why = False, turned_away(choice.backup, limited)
        elif budget.usd_per_1000 is not None and (expected.usd_per_1000 or 0.0) > budget.usd_per_1000:
            paid, why = False, too_dear(expected.usd_per_1000 or 0.0, budget.usd_per_1000)
        option = Option(
            budget=budget,
            choice=msgspec.structs.replace(choice, by_size=_by_size(flown[0])),
            fitted=self._outcome(flown, slice(self._scene.split), choice),
            expected=expected,
            independent=self._independent(backup, share),
            oracle_p99=at_best(self._scene, backup, flown, share, target),
            stale_p99=value_at(stale, target),
            pays=paid,
            why=why,
        )
        reach = best(own[answered], near[answered], share, target).p99
        held = sum((Counter(dict(each.held)) for each in flown), Counter[Reason]()).most_common(1)
        return Judged(option, cut, value_at(without, target), reach, held[0][0] if held else None)

    def _outcome(self, flown: Sequence[Flown], part: slice, choice: Choice) -> Outcome:
        money = self._money[choice.backup]
        usd = [] if money is None else [money.of(each, part) for each in flown]
        return outcome_of([each.part(part) for each in flown], self._target, usd)

    def _independent(self, backup: Backup, share: float) -> Outcome:
        """The best delay of the very requests that are judged, so that its budget holds and it is never too low."""
        far = backup.far[self._rest]
        own = self._scene.with_failover(backup.far)[self._rest]
        answered = np.isfinite(own)
        return self._fixed(own, far, best(own[answered], far[answered], share, self._target))

    def _fixed(self, own: Floats, other: Floats, found: Estimate, share: float = 1.0, burst: float = inf) -> Outcome:
        """A fixed delay that nobody renews, by arithmetic, while a budget with this share and burst pays."""
        lucky = np.random.default_rng((self._seed, 8)).random(len(own)) < found.probability
        hedges = _paid(lucky & (own > found.delay), share, burst).astype(np.int64)
        took = np.where(hedges > 0, hedged(own, other, found.delay), own)
        none = np.zeros(len(own), dtype=np.int64)
        return outcome_of([Flown(np.where(np.isfinite(took), took, np.nan), hedges, none, none, ())], self._target)


def at_best(scene: Scene, backup: Backup, flown: Sequence[Flown], share: float, target: float) -> float:
    """What no way can beat that answers the requests that are judged as often as this one does: of who knows beforehand
    how long attempts take, with as many hedges as the budget pays for or this way took, whichever are more. What a
    breaker asked of the backup at once is free.
    """
    rest, most = slice(scene.split, None), 0
    firsts, seconds = [], []
    for near, each in zip(backup.near, (each.part(rest) for each in flown), strict=True):
        first, second = scene.with_failover(near)[rest], near[rest]
        answered = ~np.isnan(each.took)
        spent = max(int(each.hedges.sum()), floor(share * len(first) + _ROUNDING))
        most += spent + int((answered & (each.hedges == 0) & (each.took < first * (1.0 - _ROUNDING))).sum())
        firsts.append(first[answered])
        seconds.append(second[answered])
    return oracle(np.concatenate(firsts), np.concatenate(seconds), most, target)


def _paid(wanted: npt.NDArray[np.bool_], share: float, burst: float) -> npt.NDArray[np.bool_]:
    """Which of the hedges that are wanted, one a request in the order of time, a budget has the means for."""
    paid, balance, before = wanted.copy(), burst, 0
    for place in np.flatnonzero(wanted).tolist():
        balance, before = min(balance + share * (place - before), burst), place
        paid[place] = balance >= 1.0
        balance -= paid[place]
    return paid


def _by_size(flown: Flown) -> tuple[tuple[int, float, float], ...]:
    return tuple(((0, *SIZES)[PROMPTS.index(tokens)], delay, chance) for tokens, delay, chance in flown.delays)
