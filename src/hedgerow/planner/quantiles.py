"""Quantiles with how sure they are, of samples in the order of time, in which what is slow may be slow together."""

from __future__ import annotations

from math import inf, nan, sqrt

import msgspec
import numpy as np

from hedgerow.planner.log import Floats

QUANTILES = (0.5, 0.9, 0.95, 0.99)
_BLOCKS = 30
"""Schmeiser, Batch size effects in the analysis of simulation output (Operations Research 1982): more gain nothing."""
_ERRORS = 1.96
_ERRORS_OF_BLOCKS = 2.045
"""Student's t for as many blocks."""
_NOTICED = 1.0 + 2.0 * sqrt(2.0 / (_BLOCKS - 1))
"""How many times as far as by chance the blocks of one independent sample in forty lie apart."""


class Quantile(msgspec.Struct, frozen=True):
    """A quantile with its 95 % confidence interval; inf where the sample does not reach it.

    From order statistics (David and Nagaraja, Order Statistics, 2003, section 7.1, with the normal approximation of the
    binomial); where a sample is no independent one, of as many as it is worth (see `errors`).
    """

    p: float
    value: float
    low: float
    high: float


def quantile(took: Floats, p: float) -> Quantile:
    """Of a sample in the order of time: the smallest value that the share `p` does not exceed."""
    n = len(took)
    if not n:
        return Quantile(p, nan, nan, nan)
    ordered = np.sort(took)
    value = float(ordered[max(int(np.ceil(n * p)) - 1, 0)])
    spread = errors((took > value).astype(np.float64), p) * sqrt(n * p * (1 - p))
    low, high = int(np.floor(n * p - spread)) - 1, int(np.ceil(n * p + spread))
    return Quantile(p, value, float(ordered[low]) if low >= 0 else 0.0, float(ordered[high]) if high < n else inf)


def errors(beyond: Floats, p: float) -> float:
    """How many standard errors of an independent sample the share that is `beyond` its quantile may be off, at 95 %.

    In the order of time; of several runs with the same requests, each one's mean. Where blocks of requests in a row
    differ by more than chance, the sample is worth less: by how much their means vary more (Heidelberger and Lewis,
    Quantile estimation in dependent sequences, Operations Research 1984).
    """
    length = len(beyond) // _BLOCKS
    if length < 2:
        return _ERRORS
    means = beyond[: _BLOCKS * length].reshape(_BLOCKS, length).mean(axis=1)
    worse = float(means.var(ddof=1)) * length / (p * (1 - p))
    return _ERRORS_OF_BLOCKS * sqrt(worse) if worse > _NOTICED else _ERRORS
