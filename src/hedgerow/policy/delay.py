"""How a route says when to hedge: what `hedge.delay` may hold, read and written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import inf

import msgspec

SMOOTHING = 0.2
"""What `ema(p95)` gives the newest value, unless it says: the value of five refreshes ago still counts a third."""

COMMON = 0.75
"""A percentile below this is a delay that many requests are meant to reach."""

ALLOWED = (
    'a duration such as "2s" or "300ms", "0" (no delay: a race), a percentile such as "p95" or "p99.5", '
    '"ema(p95)" or "ema(p95, 0.2)" (smoothed), "auto" (from the budget), "slo: 1.2s" (an objective), or "off"'
)

_PERCENTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]+)?)")
_SMOOTHED = re.compile(r"ema\( *(p[^,) ]*) *(?:, *([0-9.]+) *)?\)")
_OBJECTIVE = re.compile(r"slo *: *(.*)")


class Off(msgspec.Struct, frozen=True, gc=False):
    """Never hedge."""


class Fixed(msgspec.Struct, frozen=True, gc=False):
    """Hedge after so many seconds; 0 launches both at once."""

    seconds: float

    def __post_init__(self) -> None:
        if not 0.0 <= self.seconds < inf:
            raise ValueError("a delay must be 0 seconds or more")


class Percentile(msgspec.Struct, frozen=True, gc=False):
    """Hedge the slowest 1 - p of requests of their kind. `smoothing`: how much the newest value counts, in (0, 1]."""

    p: float
    smoothing: float | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.p < 1.0:
            raise ValueError("a percentile must be above p0 and below p100")
        if self.smoothing is not None and not 0.0 < self.smoothing <= 1.0:
            raise ValueError("the smoothing of a percentile must be above 0 and at most 1")


class Slo(msgspec.Struct, frozen=True, gc=False):
    """Hedge so that the first token comes within so many seconds."""

    seconds: float

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds < inf:
            raise ValueError("an objective must be more than 0 seconds")


class Auto(msgspec.Struct, frozen=True, gc=False):
    """Delay and probability from what is known of the latency, and the budget."""


Spec = Off | Fixed | Percentile | Slo | Auto


def parse_delay(value: object, parse_duration: Callable[[object], float | None]) -> Spec:
    """What a setting means: a text, a number of seconds, or `{slo: 1.2s}`.

    `parse_duration` answers None for what is none. Raises `ValueError`, which says what is allowed.
    """
    match value:
        case "off":
            return Off()
        case "auto":
            return Auto()
        case str() if found := _PERCENTILE.fullmatch(value):
            return Percentile(_share(found[1]))
        case str() if (smooth := _SMOOTHED.fullmatch(value)) and (found := _PERCENTILE.fullmatch(smooth[1])):
            return Percentile(_share(found[1]), SMOOTHING if smooth[2] is None else _number(smooth[2]))
        case str() if found := _OBJECTIVE.fullmatch(value):
            return Slo(_seconds(found[1], parse_duration))
        case Mapping() if list(value) == ["slo"]:
            return Slo(_seconds(value["slo"], parse_duration))
        case _:
            return Fixed(_seconds(value, parse_duration))


def _plain(seconds: float) -> str:
    """As durations are read: without an exponent, to the microsecond."""
    return f"{seconds:.6f}".rstrip("0").rstrip(".") + "s"


def show(spec: Spec, show_duration: Callable[[float], str] = _plain) -> str:
    """The text that `parse_delay` reads as `spec`."""
    match spec:
        case Off():
            return "off"
        case Fixed(seconds):
            return show_duration(seconds) if seconds else "0"
        case Percentile(p, None):
            return f"p{p * 100:.10g}"
        case Percentile(p, smoothing):
            weight = "" if smoothing == SMOOTHING else f", {smoothing:g}"
            return f"ema(p{p * 100:.10g}{weight})"
        case Slo(seconds):
            return f"slo: {show_duration(seconds)}"
        case Auto():
            return "auto"


def _share(percent: str) -> float:
    return round(float(percent) / 100.0, 12)


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise _refused(text) from None


def _seconds(value: object, parse_duration: Callable[[object], float | None]) -> float:
    seconds = parse_duration(value)
    if seconds is None:
        raise _refused(value)
    return seconds


def _refused(value: object) -> ValueError:
    return ValueError(f"{value!r} is no delay: it must be {ALLOWED}")


def is_early(spec: Spec) -> bool:
    """Whether many requests are meant to pass this delay: to be late by it says nothing of an outage."""
    match spec:
        case Fixed(seconds):
            return seconds == 0.0
        case Percentile(p):
            return p < COMMON
        case _:
            return isinstance(spec, Slo)
