"""Durations, sizes and shares as people write them: "300ms", "1m30s", "64KiB", "10%"."""

from __future__ import annotations

import re
import sys

_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"
_PLAIN = re.compile(_NUMBER)
_DURATION = re.compile(rf"(?:{_NUMBER}d)?(?:{_NUMBER}h)?(?:{_NUMBER}m(?!s))?(?:{_NUMBER}s)?(?:{_NUMBER}ms)?")
_SECONDS = (86_400.0, 3_600.0, 60.0, 1.0, 0.001)
_SIZE = re.compile(rf"{_NUMBER} ?([kmg]i?)?b?", re.IGNORECASE)
_PERCENT = re.compile(rf"{_NUMBER} ?%")
_BYTES = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000, "ki": 1 << 10, "mi": 1 << 20, "gi": 1 << 30}

DURATION_PATTERN = r"^(\d+(\.\d+)?d)?(\d+(\.\d+)?h)?(\d+(\.\d+)?m)?(\d+(\.\d+)?s)?(\d+(\.\d+)?ms)?$|^\d+(\.\d+)?$"
SIZE_PATTERN = r"^\d+(\.\d+)? ?([kKmMgG][iI]?)?[bB]?$"
PERCENT_PATTERN = r"^\d+(\.\d+)? ?%$"


def parse_duration(value: object) -> float | None:
    """Seconds, or None when `value` is not a duration. A plain number is seconds."""
    match value:
        case bool():
            return None
        case int() | float():
            return float(value) if 0 <= value <= sys.float_info.max else None
        case str() if _PLAIN.fullmatch(value):
            return float(value)
        case str() if value and (found := _DURATION.fullmatch(value)):
            parts = zip(found.groups(), _SECONDS, strict=True)
            # Rounded to the microsecond so that 1.1s and 1s100ms are the same number.
            return round(sum(float(part) * unit for part, unit in parts if part is not None), 6)
        case _:
            return None


def parse_measure(value: object) -> float | None:
    """As `parse_duration`, but a text needs a unit: in code a plain number is one, and "300" may be milliseconds."""
    seconds = parse_duration(value)
    return None if seconds and isinstance(value, str) and _PLAIN.fullmatch(value) else seconds


def parse_size(value: object) -> int | None:
    """Bytes, or None when `value` is not a size. KB, MB, GB count in thousands; KiB, MiB, GiB in 1024s."""
    match value:
        case bool():
            return None
        case int():
            return value if value >= 0 else None
        case str() if found := _SIZE.fullmatch(value):
            size = float(found[1]) * _BYTES[(found[2] or "").lower()]
            return int(size) if size.is_integer() else None
        case _:
            return None


def parse_percent(value: object) -> float | None:
    """A share of 1, to the millionth, or None when `value` is not a percentage with its sign."""
    if isinstance(value, str) and (found := _PERCENT.fullmatch(value)):
        return round(float(found[1]) / 100, 6)
    return None


def show_percent(share: float) -> str:
    """The shortest plain way to write `share`."""
    return f"{_short(share * 100)}%"


def show_duration(seconds: float) -> str:
    """The shortest plain way to write `seconds`."""
    if 0 < seconds < 1:
        return f"{_short(seconds * 1000)}ms"
    for unit, name in ((86_400, "d"), (3_600, "h")):
        if seconds >= unit and seconds % unit == 0:
            return f"{_short(seconds / unit)}{name}"
    if seconds >= 120 and seconds % 60 == 0:  # one minute is 60s, beside the 30s and 90s that it is compared with
        return f"{_short(seconds / 60)}m"
    return f"{_short(seconds)}s"


def _short(number: float) -> str:
    return f"{number:.6f}".rstrip("0").rstrip(".")


def show_size(size: int) -> str:
    """The shortest exact way to write `size`."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return str(size)
