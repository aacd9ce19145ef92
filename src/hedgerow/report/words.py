"""Numbers as people read them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from math import ceil, floor, isfinite, log10

from hedgerow.report.result import Range


def seconds(value: float | None) -> str:
    """Three digits; "-" where it is not known or without bound."""
    if value is None or not isfinite(value):
        return "-"
    size = abs(value)
    return f"{value * 1000:.0f} ms" if 0 < size < 0.9995 else f"{value:.3g} s" if size < 1000 else f"{value:.0f} s"


_UNITS = (86_400.0, "days"), (3_600.0, "hours"), (60.0, "minutes")


def span(length: float) -> str:
    """A stretch of time, to a digit or three, from seconds to days."""
    for unit, name in _UNITS:
        if length >= 2 * unit:
            return f"{length / unit:,.0f} {name}" if length >= 100 * unit else f"{length / unit:.3g} {name}"
    return seconds(length)


def percent(share: float | None) -> str:
    """Two digits or a tenth."""
    if share is None:
        return "-"
    points = share * 100
    if points == 0:
        return "0 %"
    return f"{points:.2g} %" if 0 < abs(points) < 1 else f"{points:.1f} %" if abs(points) < 10 else f"{points:.0f} %"


def change(share: float | None) -> str:
    """With its sign."""
    return "-" if share is None else f"{'+' if share > 0 else ''}{percent(share)}"


def money(nanousd: float | None) -> str:
    """Dollars, with three digits that mean something."""
    if nanousd is None:
        return "-"
    size, sign = abs(nanousd) / 1e9, "-" if nanousd < 0 else ""
    if size >= 1000 or size == 0:
        return f"{sign}${size:,.0f}"
    digits = max(2, 2 - floor(log10(size)))
    return f"{sign}${size:,.{min(digits, 9)}f}"


def between(interval: Range | None, show: Callable[[float], str] = change) -> str:
    """An interval; an end that is not there is open."""
    if interval is None:
        return "-"
    low = "…" if interval.low is None else show(interval.low)
    high = "…" if interval.high is None else show(interval.high)
    return f"{low} to {high}"


def about(count: float) -> int:
    """Rounded up to two digits: nobody knows it better."""
    if count <= 10:
        return max(ceil(count), 1)
    unit = int(10 ** (floor(log10(count)) - 1))
    return ceil(count / unit) * unit


def counted(count: int, what: str) -> str:
    """1 request, 2,000 requests."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def pnn(percentile: float) -> str:
    """p99, p99.9."""
    return f"p{percentile:g}"


def when(at: float) -> str:
    """A Unix time, in UTC."""
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M} UTC"
