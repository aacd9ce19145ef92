"""A plan in words and rows of words, the same on a terminal and on a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite, nan

from hedgerow.planner.choices import BURST, LATE
from hedgerow.planner.plan import Budget, Choice, Option, Outcome, Plan, Route, Source
from hedgerow.planner.statistics import TargetStatistics
from hedgerow.planner.verdict import few
from hedgerow.report.words import change, money, percent, pnn, seconds, span, when
from hedgerow.units import parse_duration


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table with what is compared from left to right. `chosen`: the column that is recommended, None without one."""

    head: Sequence[str]
    rows: Sequence[tuple[str, Sequence[str]]]
    chosen: int | None = None

    def parts(self, most: int) -> Iterator[Sheet]:
        """Sheets of at most so many columns."""
        for start in range(0, len(self.head), most):
            part = slice(start, start + most)
            here = self.chosen is not None and start <= self.chosen < start + most
            rows = [(name, cells[part]) for name, cells in self.rows]
            yield Sheet(self.head[part], rows, (self.chosen or 0) - start if here else None)


_NAMED = 6
"""Targets of a log that its line names."""


def log_line(source: Source, targets: Sequence[TargetStatistics] = ()) -> str:
    """What was read, in one line."""
    parts = [f"{source.used:,} of {source.read:,} rows"]
    if source.started_at is not None:
        parts.append(f"{span(source.seconds)} from {when(source.started_at)}")
    elif source.seconds:
        parts.append(span(source.seconds))
    parts.append(measured(source))
    if targets:
        named = [f"{each.target} ({each.n + each.failed:,})" for each in targets[:_NAMED]]
        more = len(targets) - len(named)
        parts.append(", ".join([*named, *[f"{more} more targets"] * bool(more)]))
    return f"{', '.join(source.files)} ({source.format}): {'; '.join(parts)}"


def measured(source: Source) -> str:
    """What the log says of each attempt."""
    return "time to the first token" if source.of_first_token else "time to the whole answer"


def reading(source: Source) -> Iterator[tuple[str, str]]:
    """How it was read, by what that is about."""
    taken = (f"{field} is {name}{f' ({unit})' if unit else ''}" for field, name, unit in source.columns)
    if columns := ", ".join(taken):
        yield "columns", f"{columns}; --map FIELD=COLUMN takes another"
    if source.bad:
        yield "not used", "; ".join(f"{count:,} rows: {reason}" for reason, count in source.bad)
    if source.notes:
        yield "assumed", "; ".join(source.notes)


def budget(of: Budget) -> str:
    """As it is asked for."""
    if of.share is not None:
        return f"{of.share * 100:.3g} % more"
    return f"{money((of.usd_per_1000 or 0.0) * 1e9)} per 1,000"


def backup(choice: Choice) -> str:
    """Where hedges go."""
    return "the same target" if choice.relation == "same target" else f"{choice.backup}{_tier(choice)}"


def _tier(choice: Choice) -> str:
    return " (other tier)" if choice.relation == "other tier" else ""


def delay(choice: Choice) -> str:
    """When they start, and for which share of those that wait so long."""
    return choice.delay if choice.probability >= 1.0 else f"{choice.delay}, {percent(choice.probability)} of them"


def value(outcome: Outcome, p: float) -> float:
    """A quantile; nan where it is not among those of the outcome."""
    return next((each.value for each in outcome.quantiles if each.p == p), nan)


def pname(p: float) -> str:
    """p99."""
    return pnn(round(p * 100.0, 6))


def options(plan: Plan, route: Route) -> Sheet:
    """What comes without hedging, then of each budget."""
    target, found = plan.target_quantile, route.options
    outcomes = [route.without, *(each.expected for each in found)]
    rows = [
        ("hedges go to", ["-", *(backup(each.choice) for each in found)]),
        ("after", ["-", *(delay(each.choice) for each in found)]),
        *times(outcomes, target),
        (f"{pname(target)} changes by", ["-", *(change(gain(route.without, each.expected, target)) for each in found)]),
        ("requests that fail", [percent(each.failed) for each in outcomes]),
        ("extra attempts", ["-", *(percent(each.expected.extra) for each in found)]),
        ("extra cost per 1,000", ["-", *(extra_cost(each.expected) for each in found)]),
        (INDEPENDENT, ["-", *(seconds(value(each.independent, target)) for each in found)]),
        (ORACLE, ["-", *(seconds(each.oracle_p99) for each in found)]),
        (STALE, ["-", *(seconds(each.stale_p99) for each in found)]),
        ("pays", ["-", *("yes" if each.pays else _doubt(plan, route) for each in found)]),
    ]
    head = ["no hedging", *(budget(each.budget) for each in found)]
    kept = [(name, cells) for name, cells in rows if name == "pays" or set(cells) != {"-"}]
    return Sheet(head, kept, None if route.recommended is None else route.recommended + 1)


def times(outcomes: Sequence[Outcome], target: float) -> list[tuple[str, list[str]]]:
    """Rows of quantiles."""
    return [(pname(p), [seconds(value(each, p)) for each in outcomes]) for p in sorted({0.5, 0.95, 0.99, target})]


INDEPENDENT, ORACLE, STALE = "if independent", "at best", "never renewed"
LEGEND: Mapping[str, str] = {
    INDEPENDENT: "what arithmetic promises of one fixed delay if a hedge knows nothing of the slow spell it is made in "
    "(usually too much; too little where delays by prompt size or failovers bring more than one delay can)",
    ORACLE: "of who knows beforehand how long every attempt will take, within the same budget: nobody does better",
    STALE: "of the one delay that suited the first part of the log, kept for the rest. By arithmetic, which no guard "
    "holds back, so it is often the shorter one here; but it does not notice when times change",
}
"""What rows of `options` mean, which are all of the quantile that is to be made short."""


def legend(route: Route) -> Iterator[tuple[str, str]]:
    """What rows mean, and of what is recommended the prompt sizes that are as good as never hedged."""
    yield from LEGEND.items()
    if route.recommended is None:
        return
    choice = route.options[route.recommended].choice
    if sizes := [f"{least:,}" for least, wait, _ in choice.by_size if waits_for_ever(choice, wait)]:
        told = (
            f"prompts of {', '.join(sizes)} tokens and more, up to the next size, wait for max_delay "
            f"({seconds(latest(choice))}) at least, which is as good as never: a hedge of a long prompt costs more, "
            "and the budget goes where it helps most"
        )
        yield choice.delay, told


def latest(choice: Choice) -> float:
    """The longest delay that a rule may learn."""
    said = dict(choice.config).get("hedge.max_delay")
    return LATE if said is None else parse_duration(said) or LATE


def waits_for_ever(choice: Choice, wait: float) -> bool:
    """Whether a rule that learns has found that hedges of a size are not worth their cost."""
    return choice.delay == "auto" and wait >= latest(choice) * 0.999


def gain(without: Outcome, expected: Outcome, p: float) -> float | None:
    """By how much a quantile changes, as a share."""
    before, after = value(without, p), value(expected, p)
    return after / before - 1.0 if isfinite(before) and isfinite(after) and before else None


def extra_cost(outcome: Outcome) -> str:
    """Of hedges, for 1,000 requests."""
    return money(None if outcome.usd_per_1000 is None else outcome.usd_per_1000 * 1e9)


def basis(route: Route) -> str:
    """What the numbers rest on."""
    first, rest = f"{route.fitted_on:,} of {route.requests:,}", f"{route.judged_on:,}"
    told = (
        f"How to hedge within a budget is chosen by the first {first} requests; all numbers are of the other {rest}, "
        "by the engine in virtual time."
    )
    if len(route.options) > 1:
        told += (
            " Which budget to recommend is decided by these, too: the best of several looks a little better than it is."
        )
    return " ".join([told, *_over(route)])


def _over(route: Route) -> Iterator[str]:
    """Why there may be more extra attempts than a budget says."""
    over = [each for each in route.options if each.budget.share and each.expected.extra > each.budget.share]
    if over and route.judged_on:
        burst = max(int(dict(each.choice.config).get("hedge.burst", BURST)) for each in over)
        yield (
            f"Extra attempts may pass a budget by the {burst} hedges that may start at once (hedge.burst), here "
            f"{percent(burst / route.judged_on)} of the requests; on a longer log that is next to nothing."
        )


def unknown(plan: Plan, route: Route) -> bool:
    """Whether too few requests are judged for anything to be known."""
    return few(route.judged_on, plan.target_quantile)


def _doubt(plan: Plan, route: Route) -> str:
    return "not known" if unknown(plan, route) else "no"


def alike(plan: Plan, route: Route) -> list[tuple[str, str]]:
    """Budgets that bring no more than a smaller one, as there is nothing to spend them on."""
    found, seen = [], dict[tuple[str, ...], Option]()
    for each in sorted(route.options, key=lambda one: (one.budget.usd_per_1000 or 0.0, one.budget.share or 0.0)):
        shown = [seconds(value(each.expected, p)) for p in (0.5, 0.95, plan.target_quantile)]
        less = seen.setdefault((*shown, percent(each.expected.extra)), each)
        if less is not each:
            why = f"the best way that was found makes no use of more than {percent(each.expected.extra)} extra attempts"
            found.append((f"{budget(each.budget)} comes to the same as {budget(less.budget)}", why))
    return found


def not_paying(plan: Plan, route: Route) -> list[tuple[str, str]]:
    """Budgets that do not pay, or of which it is not known, and why."""
    says = "whether it pays is not known" if unknown(plan, route) else "does not pay"
    return [(f"{budget(each.budget)} {says}", each.why) for each in route.options if not each.pays]


_NOTED = "when it was sent, its target, time to the first token, prompt tokens and status"
_LEDGER = "a gateway with server.ledger: on and hedge.delay: off"


def next_steps(plan: Plan, written: str | None) -> list[str]:
    """What to do now; `written` is the file with the configuration, where there is one already."""
    if plan.routes and all(unknown(plan, route) for route in plan.routes):
        return [
            f"Collect more before you decide: of each request, failed ones too, {_NOTED}; {_LEDGER} notes all of it.",
            "Then plan again: hedgerow plan sqlite:///hedgerow-ledger.db, or --target-quantile p95, which needs less.",
        ]
    if all(route.recommended is None for route in plan.routes):
        return [
            "Leave hedging off; plan again when targets, prices or traffic have changed, or with a longer log.",
            "To measure it on live traffic all the same: experiment: {holdout: 50%} on a route, then hedgerow report.",
        ]
    steps = [] if written else ["Write the configuration: the same command with --write-config plan.yaml"]
    file = written or "plan.yaml"
    return [
        *steps,
        f"Put URLs and keys into {file}, then: hedgerow check-config {file} && hedgerow serve --config {file}",
        "Let it prove itself: experiment: {holdout: 5%} on the route, and after some days: hedgerow report",
    ]


def severities(plan: Plan) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Findings, the gravest first: severity, then name, target and text of each."""
    order = ("stop", "warning", "note")
    found = sorted(plan.findings, key=lambda each: order.index(each.severity))
    for severity, group in groupby(found, key=lambda each: each.severity):
        yield severity, [(each.name, each.target or "", each.text) for each in group]
