"""The report's plots, as SVG to be put into a page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.ticker import FuncFormatter, PercentFormatter

from hedgerow.report.canvas import EXTRA, FAINT, HEDGED, HOLDOUT, MODEL, exceeded, figure
from hedgerow.report.gathering import Side
from hedgerow.report.result import Percentile, Route
from hedgerow.report.statistics import Numbers
from hedgerow.report.words import pnn

POINTS = 400
"""Of a curve, at most."""


def exceedance(hedged: Side, holdout: Side | None, what: str) -> str:
    """How many requests take longer than a time; both axes logarithmic, so that the tail is there to be seen."""
    with figure(6.2, 3.6, f"exceedance {what}") as (axes, out):
        lines: list[tuple[str, Numbers, str, str]] = [("with hedging", getattr(hedged, what), HEDGED, "-")]
        if holdout is not None:
            lines.append(("held out", getattr(holdout, what), HOLDOUT, "-"))
        if what == "first_token" and hedged.estimated:
            lines.append(("modelled without", hedged.unhedged, MODEL, "--"))
        for name, ordered, colour, line in lines:
            if len(ordered):
                axes.plot(*_curve(ordered), color=colour, label=name, linewidth=1.6, linestyle=line)
        exceeded(axes)
    return out[0]


def _curve(ordered: Numbers) -> tuple[Numbers, Numbers]:
    """Times and the shares beyond them, dense where few are left."""
    n = len(ordered)
    left = np.unique(np.geomspace(1, n, min(POINTS, n)).astype(np.int64))[::-1]
    times, shares = ordered[n - left], left / n
    finite = np.isfinite(times) & (times > 0.0)
    return times[finite], shares[finite]


def changes(percentiles: Sequence[Percentile]) -> str | None:
    """What hedging changes, percentile by percentile, with intervals; None where nothing can be compared."""
    known = [each for each in percentiles if each.change is not None]
    if not known:
        return None
    with figure(6.2, 0.5 + 0.42 * len(known), "changes") as (axes, out):
        axes.axvline(0.0, color=FAINT, linewidth=0.8)
        for row, each in enumerate(known):
            if (change := each.change) is None:
                continue
            interval = change.interval
            if interval is not None and interval.low is not None and interval.high is not None:
                axes.plot([interval.low, interval.high], [row, row], color=HEDGED, linewidth=2.2)
            certain = interval is not None
            axes.plot([change.value], [row], "o", color=HEDGED, markersize=5, fillstyle="full" if certain else "none")
        axes.set_yticks(range(len(known)), [pnn(each.percentile) for each in known])
        axes.invert_yaxis()
        axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        axes.set_xlabel("change by hedging, with 95 % interval (hollow: too few for one)")
    return out[0]


def rates(route: Route) -> str | None:
    """Hedge rate and win rate over time; None for a single moment."""
    if len(route.timeline) < 2:
        return None
    with figure(6.2, 2.6, "rates") as (axes, out):
        times = [np.datetime64(round(each.at), "s") for each in route.timeline]
        axes.plot(times, [each.hedge_rate for each in route.timeline], color=HEDGED, label="hedges per request")
        axes.set_ylabel("hedges per request", color=HEDGED)
        axes.yaxis.set_major_formatter(PercentFormatter(1.0))
        axes.set_ylim(bottom=0.0)
        other = axes.twinx()
        wins = [np.nan if each.win_rate is None else each.win_rate for each in route.timeline]
        other.plot(times, wins, color=HOLDOUT, linestyle="--", label="hedges that won")
        other.set_ylabel("hedges that won", color=HOLDOUT)
        other.set_ylim(0.0, 1.02)
        other.yaxis.set_major_formatter(PercentFormatter(1.0))
        locator = AutoDateLocator()  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
        axes.grid(visible=True)
    return out[0]


def costs(route: Route) -> str | None:
    """What hedging added to what the rest cost; None where prices are not known."""
    cost = route.cost
    if not cost.nanousd:
        return None
    parts = [("the rest", cost.nanousd - sum(cost.extra.values()), HEDGED)]
    colours = {"exact": HOLDOUT, "estimated": EXTRA, "at_least": MODEL}
    parts += [(f"extra, {sure.replace('_', ' ')}", amount, colours[sure]) for sure, amount in cost.extra.items()]
    with figure(6.2, 1.5, "costs") as (axes, out):
        left = 0.0
        for name, amount, colour in parts:
            axes.barh([0], [amount / 1e9], left=left, color=colour, label=f"{name} ({amount / cost.nanousd:.1%})")
            left += amount / 1e9
        axes.set_yticks([])
        axes.xaxis.set_major_formatter(FuncFormatter(lambda dollars, _: f"${dollars:,.4g}"))
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return out[0]
