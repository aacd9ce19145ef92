"""Histograms of times that can be added up: buckets a 64th wide, so a quantile is within 0.8 % of the true one.

A bucket is called by its lower end in microseconds; below 128 there is one for each.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import ColumnElement, case

from hedgerow.ledger.rows import Histogram

_EXACT: Final = 7
"""Bits of a value that a bucket's name keeps."""
_BITS: Final = 43
"""Values up to 2 to this are told apart: 101 days."""


def bucket(value: int) -> int:
    """The bucket of a value."""
    shift = max(0, min(value.bit_length(), _BITS) - _EXACT)
    return value >> shift << shift


def bucket_of(value: ColumnElement[int]) -> ColumnElement[int]:
    """The same in SQL, in integers only: not every SQLite has logarithms."""
    arms: list[Any] = [(value < 1 << _EXACT, value)]
    arms += [(value < 1 << bits, value - value % (1 << (bits - _EXACT))) for bits in range(_EXACT + 1, _BITS)]
    return case(*arms, else_=value - value % (1 << (_BITS - _EXACT)))


def quantile(histogram: Histogram, q: float) -> float | None:
    """The q-quantile (0 to 1) in microseconds: the middle of the bucket it is in. None of no values."""
    total = sum(histogram.values())
    rank, seen = q * total, 0
    for low in sorted(histogram):
        seen += histogram[low]
        if seen >= rank and seen:
            width = 1 << max(0, low.bit_length() - _EXACT)
            return low + (width - 1) / 2
    return None


def add(one: Histogram, other: Histogram) -> Histogram:
    """Both together."""
    return {low: one.get(low, 0) + other.get(low, 0) for low in one.keys() | other.keys()}
