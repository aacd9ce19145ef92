"""Whether hedging pays, which budget is worth having, and why not, in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

from hedgerow.planner.noise import Cut
from hedgerow.planner.plan import Option, Outcome
from hedgerow.planner.statistics import Pairing, TargetStatistics
from hedgerow.units import show_duration

SMALL = 0.05
"""A quantile that becomes shorter by less is not worth a setting,"""
LITTLE = 0.10
"""and where the tail is short by nature (p99 / p50 below `SHORT_TAIL`) neither is less than this."""
SHORT_TAIL = 4.0
DOUBLING = 0.10
"""A larger budget is worth having where each doubling of it makes the quantile at least so much shorter again."""
_SLOW = 10
"""Requests above the quantile that must be in what is judged, for anything to be said of it."""
_ENOUGH = 100
"""Requests above the quantile from which on a log counts as long enough."""
_LONG = 0.5
"""Share of the variance that prompt size explains, from which on requests are slow because they are long."""
_TOGETHER = 2.0
"""How much more independent draws promise where slowness is shared."""


@dataclass(frozen=True, slots=True)
class About:
    """What a verdict goes by. `requests`: of the primary in all; `judged`: those that options were judged on."""

    target: float
    requests: int
    judged: int
    without: float
    statistics: TargetStatistics
    pairs: Sequence[Pairing]

    @property
    def name(self) -> str:
        """The quantile, as people call it."""
        return f"p{self.target * 100:.4g}"

    @property
    def needed(self) -> int:
        """Requests that a log should have."""
        return ceil(_ENOUGH / (1.0 - self.target) - 1e-6)

    @property
    def too_few(self) -> bool:
        """Whether nothing can be said of the quantile."""
        return self.judged * (1.0 - self.target) < _SLOW


def pays(about: About, cut: Cut, before: float, expected: Outcome) -> tuple[bool, str]:
    """Whether an option does, and why."""
    after = next(each.value for each in expected.quantiles if each.p == about.target)
    became = (
        f"{about.name} {seconds(before)} becomes {seconds(after)} ({_change(cut.value)}; "
        f"{_change(cut.low)} to {_change(cut.high)} when the log is resampled) for {expected.extra:.1%} more requests"
    )
    if about.too_few:
        few = about.judged * (1.0 - about.target)
        return (
            False,
            f"{became}, but only {few:.0f} of the {about.judged:,} requests it is judged on are slower than that.",
        )
    if cut.low <= 0.0:
        return False, f"{became}, which is within its noise."
    if cut.value < SMALL:
        return False, f"{became}: less than {SMALL:.0%} is not worth it."
    if about.statistics.tail < SHORT_TAIL and cut.value < LITTLE:
        return False, f"{became}: little, as p99 is only {about.statistics.tail:.1f} times the median."
    money = "" if expected.usd_per_1000 is None else f" and ${expected.usd_per_1000:.4g} per 1,000"
    return True, f"{became}{money}."


def recommended(about: About, options: Sequence[Option], cuts: Sequence[Cut]) -> tuple[int | None, str]:
    """Which option, as an index, and why; None: do not hedge.

    Going up from the smallest budget that pays, a larger one is taken where it is worth it (see `DOUBLING`).
    """
    paying = sorted((index for index, each in enumerate(options) if each.pays), key=lambda i: options[i].expected.extra)
    if not paying:
        return None, _not(about, options, cuts)
    best = paying[0]
    for index in paying[1:]:
        more, less = options[index].expected, options[best].expected
        doublings = log2(max(more.extra, 1e-6) / max(less.extra, 1e-6))
        if value_at(more, about.target) <= value_at(less, about.target) * max(1.0 - DOUBLING * doublings, 0.0):
            best = index
    option = options[best]
    warning = (
        ""
        if about.requests >= about.needed
        else (
            f" {about.requests:,} requests are few for a {about.name}: see it as likely, not as certain; "
            f"{about.needed:,} would do."
        )
    )
    return best, f"Hedge to {_backup(option)} with a delay of {option.choice.delay}: {option.why}{warning}"


def _backup(option: Option) -> str:
    choice = option.choice
    return "the same target" if choice.relation == "same target" else f"{choice.backup} ({choice.relation})"


def _not(about: About, options: Sequence[Option], cuts: Sequence[Cut]) -> str:
    """Why not to hedge: the first reason that holds."""
    statistics = about.statistics
    if not options or about.too_few:
        return (
            f"Do not hedge on this log's word: with {about.judged:,} requests to judge by, its {about.name} hangs on a "
            f"few. About {about.needed:,} requests would be enough."
        )
    best = max(range(len(options)), key=lambda index: cuts[index].value)
    most, option = cuts[best].value, options[best]
    tried = (
        f"the best that was found changes {about.name} by {_change(most)} for {option.expected.extra:.1%} more requests"
    )
    promised = 1.0 - value_at(option.independent, about.target) / about.without
    if promised > LITTLE and promised > _TOGETHER * max(most, 0.0):
        return (
            f"Do not hedge: what is slow here is slow together. Independent attempts would promise "
            f"{_change(promised)}, but {tried}, as hedges at such times are slow too. A target that fails apart from "
            f"{statistics.target} might help."
        )
    if statistics.explained is not None and statistics.explained >= _LONG:
        return (
            f"Do not hedge: requests are slow because they are long. Prompt size explains "
            f"{statistics.explained:.0%} of the variance of their times, a hedge of a long one is as slow, and {tried}."
        )
    if statistics.tail < SHORT_TAIL:
        return (
            f"Do not hedge: there is little to gain. p99 is {statistics.tail:.1f} times the median "
            f"(below {SHORT_TAIL:g} hedging buys little), and {tried}."
        )
    return f"Do not hedge: {tried}, which is not beyond its noise or too little to be worth it."


def value_at(outcome: Outcome, p: float) -> float:
    """A quantile of an outcome, in seconds."""
    return next(each.value for each in outcome.quantiles if each.p == p)


def seconds(value: float) -> str:
    """A time in three digits."""
    return show_duration(float(f"{value:.3g}"))


def _change(cut: float) -> str:
    return f"{-cut:+.0%}"
