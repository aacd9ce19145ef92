"""The plots of a plan, as SVG to be put into a page."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter, PercentFormatter

from hedgerow.planner import words
from hedgerow.planner.plan import Option, Plan, Route
from hedgerow.planner.statistics import Outage, SizeStatistics, TargetStatistics
from hedgerow.report.canvas import (
    EXTRA,
    FAINT,
    HEDGED,
    HOLDOUT,
    MODEL,
    exceeded,
    figure,
    log_seconds,
    panels,
    plain_seconds,
)

HEDGED_CURVE = "hedged"
"""The name that a plan gives the curve of its recommendation."""
_COLOURS = (HOLDOUT, MODEL, EXTRA, "#b05f9e", "#5f8fb0")
_BINS = 48


def exceedance(route: Route) -> str | None:
    """How many requests take longer than a time."""
    curves = _curves(route)
    if not curves:
        return None
    with figure(6.2, 3.6, f"exceedance {route.primary}") as (axes, out):
        for name, times, shares, colour in curves:
            axes.plot(times, shares, color=colour, label=name, linewidth=2.0 if colour == HEDGED else 1.3)
        exceeded(axes)
    return out[0]


def distribution(plan: Plan, route: Route) -> str | None:
    """How requests spread over times, each a share of those of its curve."""
    curves = _curves(route)
    if not curves:
        return None
    edges = np.geomspace(min(each[1][0] for each in curves), max(each[1][-1] for each in curves), _BINS + 1)
    with figure(6.2, 3.6, f"distribution {route.primary}") as (axes, out):
        for name, times, shares, colour in curves:
            left = np.interp(np.log(edges), np.log(times), shares, left=1.0, right=0.0)
            axes.stairs(left[:-1] - left[1:], edges, color=colour, label=name, linewidth=1.6)
        log_seconds(axes)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlabel(words.measured(plan.source))
        axes.set_ylabel("share of requests")
        axes.set_ylim(bottom=0.0)
        axes.grid(visible=True)
        axes.legend()
    return out[0]


def _curves(route: Route) -> list[tuple[str, np.ndarray, np.ndarray, str]]:
    """Of each curve its name, times that rise, the shares beyond them, a colour."""
    colours = iter(_COLOURS * len(route.curves))
    found = []
    for name, points in route.curves:
        known = np.array([each for each in points if each[0] > 0.0 and each[1] > 0.0])
        colour = HEDGED if name == HEDGED_CURVE else next(colours)
        if len(known) > 1 and known[-1, 0] > known[0, 0]:
            found.append(("as recommended" if name == HEDGED_CURVE else name, known[:, 0], known[:, 1], colour))
    return found


def frontier(plan: Plan, route: Route) -> str | None:
    """What each budget brings, and what it would by hopes and by knowing."""
    target = plan.target_quantile
    found = sorted(route.options, key=lambda each: each.expected.extra)
    if not found:
        return None
    without = words.value(route.without, target)
    lines = [
        ("measured in virtual time", [words.value(each.expected, target) for each in found], HEDGED, "o-"),
        (words.INDEPENDENT, [words.value(each.independent, target) for each in found], MODEL, "s--"),
        (words.ORACLE, [each.oracle_p99 for each in found], EXTRA, "^:"),
    ]
    with figure(6.2, 3.6, f"frontier {route.primary}") as (axes, out):
        extra = [0.0, *(each.expected.extra for each in found)]
        for name, values, colour, style in lines:
            axes.plot(extra, [without, *values], style, color=colour, label=name, markersize=4.5, linewidth=1.5)
        if route.recommended is not None:
            _ring(axes, route.options[route.recommended], target)
        _times_up(axes)
        axes.xaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_xlim(left=0.0)
        axes.set_xlabel("extra attempts per request")
        axes.set_ylabel(words.pname(target))
        axes.grid(visible=True)
        axes.legend()
    return out[0]


def _ring(axes: Axes, option: Option, target: float) -> None:
    at = [option.expected.extra], [words.value(option.expected, target)]
    axes.plot(*at, "o", color=HEDGED, markersize=12, fillstyle="none", markeredgewidth=1.6, label="recommended")


def _times_up(axes: Axes) -> None:
    """Times from bottom to top, on a log scale with a name for each step."""
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    within = (1, 1.5, 2, 3, 4, 5, 7) if high < low * 12 else (1, 2, 5) if high < low * 400 else (1,)
    steps = [each * 10.0**power for power in range(-4, 5) for each in within]
    axes.set_yticks([each for each in steps if low <= each <= high])
    axes.yaxis.set_major_formatter(FuncFormatter(plain_seconds))
    axes.yaxis.set_minor_formatter(NullFormatter())


def heat(plan: Plan, route: Route) -> str | None:
    """What fixed delays within budgets bring."""
    cells = route.heat
    delays, budgets = sorted({each.delay for each in cells}), sorted({each.budget for each in cells})
    if len(delays) < 2 or len(budgets) < 2:
        return None
    grid = np.full((len(budgets), len(delays)), np.nan)
    for each in cells:
        grid[budgets.index(each.budget), delays.index(each.delay)] = each.p99
    with figure(6.2, 3.6, f"heat {route.primary}") as (axes, out):
        drawn = axes.pcolormesh(grid, cmap="viridis_r", edgecolors="none")
        axes.set_xticks(np.arange(len(delays)) + 0.5, [_short(each) for each in delays], rotation=45)
        axes.set_yticks(np.arange(len(budgets)) + 0.5, [f"{each:.3g} %" for each in np.array(budgets) * 100])
        axes.set_xlabel("fixed delay")
        axes.set_ylabel("budget")
        bar = axes.figure.colorbar(drawn, ax=axes, format=FuncFormatter(plain_seconds))
        bar.set_label(words.pname(plan.target_quantile))
        bar.outline.set_visible(False)
    return out[0]


def _short(value: float) -> str:
    return plain_seconds(float(f"{value:.2g}"), 0)


def timeline(plan: Plan, route: Route, outages: Sequence[Outage]) -> str | None:
    """Of each stretch of the log the quantile, and hedges and failures; outages are shaded."""
    spans = route.timeline
    if len(spans) < 2:
        return None
    unit, name = (60.0, "minutes") if spans[-1].start < 7_200 else (3_600.0, "hours")
    at = np.array([each.start + each.seconds / 2 for each in spans]) / unit
    with panels(12.8, 3.6, f"timeline {route.primary}", (3.0, 2.0)) as ((above, below), out):
        for label, values, colour in (
            ("without", [each.p99_before for each in spans], HOLDOUT),
            (
                "as recommended" if route.recommended is not None else "hedged",
                [each.p99_after for each in spans],
                HEDGED,
            ),
        ):
            above.plot(at, values, color=colour, label=label, linewidth=1.5)
        _times_up(above)
        above.set_ylabel(f"{words.pname(plan.target_quantile)} of the stretch")
        widths = np.array([each.seconds for each in spans]) / unit * 0.4
        counts = np.maximum([each.requests for each in spans], 1)
        below.bar(at - widths / 2, [each.hedges for each in spans] / counts, widths, color=HEDGED, label="hedged")
        below.bar(
            at + widths / 2, [each.failed for each in spans] / counts, widths, color=HOLDOUT, label="failed at first"
        )
        below.yaxis.set_major_formatter(PercentFormatter(1.0))
        below.set_ylabel("of requests")
        below.set_xlabel(f"{name} since the start of the log")
        for axes in (above, below):
            for outage in outages:
                axes.axvspan(outage.start / unit, outage.end / unit, color=FAINT, alpha=0.35, linewidth=0)
            axes.grid(visible=True)
            axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return out[0]


def allocation(plan: Plan, route: Route, statistics: TargetStatistics | None) -> str | None:
    """Where the budget goes: the delay of each prompt size, beside what half and nearly all of its requests take."""
    if route.recommended is None or len(route.options[route.recommended].choice.by_size) < 2:
        return None
    choice = route.options[route.recommended].choice
    known = {each.least: each for each in statistics.by_size} if statistics is not None else {}
    sizes = [each[0] for each in choice.by_size]
    with figure(6.2, 3.6, f"allocation {route.primary}") as (axes, out):
        places = np.arange(len(sizes))
        low, high = ([_quantile(known.get(size), p) for size in sizes] for p in (0.5, 0.99))
        axes.vlines(places, low, high, color=HOLDOUT, linewidth=5, alpha=0.6, label="p50 to p99 without hedging")
        for place, (_, delay, chance) in enumerate(choice.by_size):
            never = words.waits_for_ever(choice, delay)
            shown = words.latest(choice) if never else delay
            if isfinite(shown) and shown > 0.0:
                axes.plot([place], [shown], "o", color=HEDGED, fillstyle="none" if never else "full")
                told = "as good as never" if never else f"{chance * 100:.0f} %"
                beside, align = ((-7, -3), "right") if never else ((7, -3), "left")  # a long word, mostly at the end
                axes.annotate(told, (place, shown), beside, textcoords="offset points", ha=align)
        axes.plot([], [], "o", color=HEDGED, label="hedged after, with the share of those that wait so long")
        axes.set_xticks(places, [f"{size:,} +" if size else f"below {sizes[1]:,}" for size in sizes])
        axes.margins(x=0.15)
        _times_up(axes)
        axes.set_xlabel("tokens of the prompt")
        axes.set_ylabel(words.measured(plan.source))
        axes.grid(visible=True, axis="y")
        axes.figure.legend(loc="outside lower center")
    return out[0]


def _quantile(size: SizeStatistics | None, p: float) -> float:
    return nan if size is None else next((each.value for each in size.quantiles if each.p == p), nan)
