"""What plots of a page are drawn on: SVG without fonts and links, with ink of the page's own colour."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

HEDGED, HOLDOUT, MODEL, EXTRA = "#2f9e6e", "#d9722e", "#7d7fd6", "#c9a227"
"""Legible on light and dark."""
INK, FAINT = "#010203", "#030201"
"""Stand for the page's own colours."""
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "text.parse_math": False,  # a name may have dollar signs
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "legend.frameon": False,
}


@contextmanager
def figure(width: float, height: float, salt: str) -> Iterator[tuple[Axes, list[str]]]:
    """Axes to draw on; afterwards the list holds the SVG."""
    with panels(width, height, salt, (1.0,)) as ((axes,), out):
        yield axes, out


@contextmanager
def panels(width: float, height: float, salt: str, heights: Sequence[float]) -> Iterator[tuple[list[Axes], list[str]]]:
    """The same with several axes, one below the other, that share what goes from left to right."""
    out: list[str] = []
    with mpl.rc_context({**_STYLE, "svg.hashsalt": salt}):
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.subplots(len(heights), 1, sharex=True, squeeze=False, height_ratios=heights)
        yield list(grid[:, 0]), out
        written = io.StringIO()
        figure.savefig(written, format="svg", transparent=True, metadata={"Date": None})
    out.append(_for_a_page(written.getvalue()))


_ALONE = re.compile(r"(?s)^.*?(?=<svg)|<metadata>.*?</metadata>\n?|<!--.*?-->\n?")
_NAMES = re.compile(
    r' id="[A-Za-z0-9.]+_[0-9_]+"| xmlns(:xlink)?="[^"]*"|(?<=<svg) ?width="[^"]*"| height="[^"]*"(?= viewBox)'
)


def _for_a_page(svg: str) -> str:
    """Without what an SVG needs to stand alone, and with the page's colours."""
    svg = _NAMES.sub("", _ALONE.sub("", svg)).replace("xlink:href", "href")
    return svg.replace(INK, "var(--ink)").replace(FAINT, "var(--faint)")


def log_seconds(axes: Axes) -> None:
    """Times from left to right, each ten times the one before."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(plain_seconds))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda _value, _place: ""))


def exceeded(axes: Axes) -> None:
    """Axes of how many take longer than a time; both logarithmic, so that the tail is there to be seen."""
    log_seconds(axes)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:g} %"))
    axes.set_xlabel("longer than")
    axes.set_ylabel("share of requests")
    axes.grid(visible=True)
    axes.legend()


def plain_seconds(value: float, _place: object) -> str:
    return f"{value * 1000:g} ms" if value < 1.0 else f"{value:g} s"
