"""Whether hedging pays, which budget is worth having, and why not, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite, log2
from typing import NamedTuple

from hedgerow.events import Reason
from hedgerow.planner.findings_targets import LONG, explanation
from hedgerow.planner.noise import Cut
from hedgerow.planner.plan import Option, Outcome
from hedgerow.planner.statistics import TargetStatistics
from hedgerow.report.words import change, counted, money, percent, pnn, seconds

SMALL = 0.05
"""A quantile that becomes shorter by less is not worth a setting;"""
SURE = 0.02
"""by less in one of forty resamples, it is not beyond its noise;"""
FAILS = 0.001
"""nor does it count where so many more requests fail, for quantiles are of those that are answered;"""
LITTLE = 0.10
"""and where the tail is short by nature (p99 / p50 below `SHORT_TAIL`), neither is less than this."""
SHORT_TAIL = 4.0
DOUBLING = 0.10
"""A larger budget is worth having where each doubling of it makes the quantile at least so much shorter again."""
_SLOW = 10
"""Requests above the quantile that must be among those that are judged, for anything to be said of it."""
_ENOUGH = 100
"""Requests above the quantile from which on a log counts as long enough."""
_MORE = 2.0
"""How many times as much must be promised, for what was left out of the promise to be the reason."""

_SPELLS = (
    "slowness comes in spells. Then more requests are slow than a budget pays for, and hedges stop while most are "
    "(hedge.outage)"
)
_HELD: Mapping[Reason | None, str] = {
    Reason.BREAKER: "{backup} fails so often when it is asked, also after failures, that its breaker holds hedges back",
    Reason.BUDGET: "slowness comes in spells, in which more requests are slow than a budget pays for",
}
"""Why who knew the slow requests would gain more than was gained, by what held most hedges back."""


class Judged(NamedTuple):
    """An option, by how much it makes the quantile shorter that is `before` without hedging, and to what the best fixed
    delay would by arithmetic, with attempts that are slow together as in the log.
    """

    option: Option
    cut: Cut
    before: float
    shared: float
    held: Reason | None = None
    """Why most hedges were held back that were, by the engine."""

    @property
    def reach(self) -> float:
        """By how much that delay would make it shorter."""
        return 1.0 - self.shared / self.before


@dataclass(frozen=True, slots=True)
class About:
    """What a verdict goes by. `requests`: of the primary in all; `judged`: those that options were judged on.

    `limited`: the backups and the share of attempts that each turns away, where all turn away many.
    """

    target: float
    requests: int
    judged: int
    statistics: TargetStatistics
    limited: Mapping[str, float] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The quantile, as people call it."""
        return pnn(round(self.target * 100, 6))

    @property
    def needed(self) -> int:
        """Requests that a log should have."""
        return ceil(_ENOUGH / (1.0 - self.target) - 1e-6)

    @property
    def few(self) -> bool:
        """Whether nothing can be said of the quantile."""
        return few(self.judged, self.target)


def few(judged: int, target: float) -> bool:
    """Whether so many requests are too few to say anything of a quantile."""
    return judged * (1.0 - target) < _SLOW - 1e-6


def pays(about: About, cut: Cut, without: Outcome, expected: Outcome, bill: float | None = None) -> tuple[bool, str]:
    """Whether an option does, and why. `bill`: dollars of 1,000 requests without hedges, where that is known."""
    cost = ""
    if bill and expected.usd_per_1000 is not None:
        cost = (
            f" and {money(expected.usd_per_1000 * 1e9)} per 1,000 ({change(expected.usd_per_1000 / bill)} of the bill)"
        )
    before, after = (seconds(value_at(outcome, about.target)) for outcome in (without, expected))
    what = (
        f"{about.name} {before} becomes {after}, {shorter(cut.value)} ({percent(max(cut.low, 0.0))} to "
        f"{percent(cut.high)} when the log is resampled), for {percent(expected.extra)} more requests{cost}"
    )
    if about.few:
        slower = ceil(about.judged * (1.0 - about.target) - 1e-6)
        return False, (
            f"{what}. But of the {about.judged:,} requests that are judged only {slower} are slower than their "
            f"{about.name}, and {_SLOW} should be: chance may have made all of it."
        )
    if expected.failed > without.failed + FAILS:
        return False, f"{what}. But {percent(expected.failed)} fail where it were {percent(without.failed)}."
    if cut.value < SMALL and cut.low > 0.0:
        return False, f"{what}: less than {percent(SMALL)} is not worth it."
    if cut.low < SURE:
        return False, f"{what}: not beyond its noise."
    if about.statistics.tail < SHORT_TAIL and cut.value < LITTLE:
        return False, f"{what}: little, as p99 is only {about.statistics.tail:.1f} times the median."
    return True, f"{what}."


def recommended(about: About, judged: Sequence[Judged]) -> tuple[int | None, str]:
    """Which option, as an index, and why; None: do not hedge.

    Going up from the smallest that pays, a larger one is taken where it is worth it (see `DOUBLING`).
    """
    options = [each.option for each in judged]
    paying = sorted((index for index, each in enumerate(options) if each.pays), key=lambda i: options[i].expected.extra)
    if not paying:
        return None, _not(about, judged)
    best = paying[0]
    for index in paying[1:]:
        more, less = options[index].expected, options[best].expected
        doublings = log2(max(more.extra, 1e-6) / max(less.extra, 1e-6))
        if value_at(more, about.target) <= value_at(less, about.target) * max(1.0 - DOUBLING * doublings, 0.0):
            best = index
    choice = options[best].choice
    where = "the same target" if choice.relation == "same target" else f"{choice.backup} ({choice.relation})"
    chance = "" if choice.probability >= 1.0 else f", {percent(choice.probability)} of those that reach it"
    verdict = (
        f"Hedge to {where}, delay {choice.delay}{chance}: {options[best].why}{_cheaper(about, judged, paying, best)}"
    )
    return best, " ".join([verdict, *_but(about, options[best].expected)])


def _but(about: About, expected: Outcome) -> Iterator[str]:
    """What is to be said all the same."""
    if not isfinite(expected.of_all):
        failing = f"{percent(expected.failed)} of the requests fail all the same"
        yield f"{failing}: {about.name} is of those that are answered."
    if about.requests < about.needed:
        yield (
            f"{about.requests:,} requests are few for a {about.name}, so take it as likely, not as certain; "
            f"{about.needed:,} would be enough."
        )


def _cheaper(about: About, judged: Sequence[Judged], paying: Sequence[int], best: int) -> str:
    """Of those that pay the one that brings most for each extra attempt, where that is another, with fewer of them."""
    most = max(paying, key=lambda index: judged[index].cut.value / max(judged[index].option.expected.extra, 1e-6))
    option = judged[most].option
    if option.expected.extra >= judged[best].option.expected.extra:
        return ""
    return (
        f" Cheaper, and more for each attempt: delay {option.choice.delay} to {option.choice.backup} makes it "
        f"{seconds(value_at(option.expected, about.target))} for {percent(option.expected.extra)} more requests."
    )


def _not(about: About, judged: Sequence[Judged]) -> str:
    """Why not to hedge: the first reason that holds."""
    if about.limited:
        return " ".join(["Do not hedge:", *(turned_away(name, share) for name, share in about.limited.items())])
    if about.few:
        return (
            f"Not known whether hedging pays: with {counted(about.judged, 'request')} to judge by, {about.name} hangs "
            f"on a few. Do not hedge on this log's word; about {about.needed:,} requests in all would be enough."
        )
    best = max(judged, key=lambda each: each.cut.value)
    extra = percent(best.option.expected.extra)
    tried = f"the best that was found makes {about.name} {shorter(best.cut.value)}, for {extra} more requests"
    return _slow_alike(about, best, tried) or _out_of_reach(about, best, tried)


def turned_away(backup: str, share: float) -> str:
    """Why not to hedge to a target that is asked too often already."""
    away = f"{backup} turns {percent(share)} of the attempts away as too many (HTTP 429)"
    return f"{away}, and each hedge would be one more."


def too_dear(usd_per_1000: float, budget: float) -> str:
    """Why not to hedge where a budget in money does not pay for it."""
    return f"Its hedges cost {money(usd_per_1000 * 1e9)} per 1,000, more than the budget of {money(budget * 1e9)}."


def _slow_alike(about: About, best: Judged, tried: str) -> str | None:
    """Where a hedge is as slow as what it is to help."""
    explained = about.statistics.long
    if explained is not None and explained >= LONG:
        why = explanation(about.statistics)
        return (
            f"Do not hedge: requests are slow because they are long. {why[0].upper()}{why[1:]} of the variance of "
            f"their times, and a hedge is as long: {tried}."
        )
    promised = 1.0 - value_at(best.option.independent, about.target) / best.before
    if promised > LITTLE and promised > _MORE * max(best.reach, 0.0):
        return (
            f"Do not hedge: what is slow here is slow together. Attempts that knew nothing of each other would make "
            f"{about.name} {shorter(promised)}, but a hedge at such times is slow too: {tried}. A backup that fails "
            f"apart from {about.statistics.target} might help."
        )
    return None


def _out_of_reach(about: About, best: Judged, tried: str) -> str:
    known = 1.0 - best.option.oracle_p99 / best.before
    if best.reach > LITTLE and best.reach > _MORE * max(best.cut.value, 0.0):
        backup = best.option.choice.backup
        why = _HELD.get(best.held, _SPELLS).format(backup=backup)
        return (
            f"Do not hedge within these budgets: {why}. Who hedged just the slow ones would make "
            f"{about.name} {shorter(best.reach)}; {tried}."
        )
    if about.statistics.tail < SHORT_TAIL:
        return (
            f"Do not hedge: there is little to gain. p99 is {about.statistics.tail:.1f} times the median (below "
            f"{SHORT_TAIL:g} hedging buys little), and {tried}."
        )
    if known < LITTLE:
        return (
            f"Do not hedge within these budgets: even who knew the slow requests beforehand would make {about.name} "
            f"{shorter(known)}; {tried}. Too many are slow at once, or their hedges are slow too."
        )
    return f"Do not hedge: {tried}. That is not beyond its noise, or too little to be worth it."


def value_at(outcome: Outcome, p: float) -> float:
    """A quantile of an outcome, in seconds."""
    return next(each.value for each in outcome.quantiles if each.p == p)


def shorter(cut: float) -> str:
    """By which share something became shorter."""
    return "no shorter" if abs(cut) < 5e-4 else f"{percent(abs(cut))} {'shorter' if cut > 0.0 else 'longer'}"
