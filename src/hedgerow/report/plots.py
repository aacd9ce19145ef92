"""The report's plots, as SVG to be put into a page: no fonts, no links, and ink of the page's own colour."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, PercentFormatter

from hedgerow.report.gathering import Side
from hedgerow.report.result import Percentile, Route
from hedgerow.report.statistics import Numbers
from hedgerow.report.words import pnn

HEDGED, HOLDOUT, MODEL, EXTRA = "#2f9e6e", "#d9722e", "#7d7fd6", "#c9a227"
"""Legible on light and dark."""
_INK, _FAINT = "#010203", "#030201"
"""Stand for the page's own colours."""
POINTS = 400
"""Of a curve, at most."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": _FAINT,
    "axes.labelcolor": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _FAINT,
    "grid.linewidth": 0.4,
    "legend.frameon": False,
}


def exceedance(hedged: Side, holdout: Side | None, what: str) -> str:
    """How many requests take longer than a time; both axes logarithmic, so that the tail is there to be seen."""
    with _figure(6.2, 3.6, f"exceedance {what}") as (axes, out):
        lines: list[tuple[str, Numbers, str, str]] = [("with hedging", getattr(hedged, what), HEDGED, "-")]
        if holdout is not None:
            lines.append(("held out", getattr(holdout, what), HOLDOUT, "-"))
        if what == "first_token" and hedged.estimated:
            lines.append(("modelled without", hedged.unhedged, MODEL, "--"))
        for name, ordered, colour, line in lines:
            if len(ordered):
                axes.plot(*_curve(ordered), color=colour, label=name, linewidth=1.6, linestyle=line)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_formatter(FuncFormatter(_plain_seconds))
        axes.xaxis.set_minor_formatter(FuncFormatter(lambda _value, _place: ""))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:g} %"))
        axes.set_xlabel("longer than")
        axes.set_ylabel("share of requests")
        axes.grid(visible=True)
        axes.legend()
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
    with _figure(6.2, 0.5 + 0.42 * len(known), "changes") as (axes, out):
        axes.axvline(0.0, color=_FAINT, linewidth=0.8)
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
    with _figure(6.2, 2.6, "rates") as (axes, out):
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
    with _figure(6.2, 1.5, "costs") as (axes, out):
        left = 0.0
        for name, amount, colour in parts:
            axes.barh([0], [amount / 1e9], left=left, color=colour, label=f"{name} ({amount / cost.nanousd:.1%})")
            left += amount / 1e9
        axes.set_yticks([])
        axes.xaxis.set_major_formatter(FuncFormatter(lambda dollars, _: f"${dollars:,.4g}"))
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return out[0]


@contextmanager
def _figure(width: float, height: float, salt: str) -> Iterator[tuple[Axes, list[str]]]:
    """Axes to draw on; afterwards the list holds the SVG."""
    out: list[str] = []
    with mpl.rc_context({**_STYLE, "svg.hashsalt": salt}):
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure.add_subplot(), out
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    out.append(_for_a_page(written.getvalue()))


_ALONE = re.compile(r"(?s)^.*?(?=<svg)|<metadata>.*?</metadata>\n?|<!--.*?-->\n?")
_NAMES = re.compile(
    r' id="[a-z0-9]+_[0-9_]+"| xmlns(:xlink)?="[^"]*"|(?<=<svg) ?width="[^"]*"| height="[^"]*"(?= viewBox)'
)


def _for_a_page(svg: str) -> str:
    """Without what an SVG needs to stand alone, and with the page's colours."""
    svg = _NAMES.sub("", _ALONE.sub("", svg)).replace("xlink:href", "href")
    return svg.replace(_INK, "var(--ink)").replace(_FAINT, "var(--faint)")


def _plain_seconds(value: float, _place: object) -> str:
    return f"{value * 1000:g} ms" if value < 1.0 else f"{value:g} s"
