"""What `hedgerow.units` holds, under the name that the configuration's own modules use."""

from __future__ import annotations

from hedgerow.units import (
    DURATION_PATTERN,
    PERCENT_PATTERN,
    SIZE_PATTERN,
    parse_duration,
    parse_percent,
    parse_size,
    show_duration,
    show_percent,
    show_size,
)

__all__ = [
    "DURATION_PATTERN",
    "PERCENT_PATTERN",
    "SIZE_PATTERN",
    "parse_duration",
    "parse_percent",
    "parse_size",
    "show_duration",
    "show_percent",
    "show_size",
]
