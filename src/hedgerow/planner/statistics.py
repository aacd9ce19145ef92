"""What a log says of each target, before anything is hedged. Times are seconds."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan, sqrt

import msgspec
import numpy as np

from hedgerow.planner.log import Floats, Log
from hedgerow.policy.latency.cells import SIZES

QUANTILES = (0.5, 0.9, 0.95, 0.99)
NEAR = 5
"""Places up to which another request of the same target counts as near in time."""


class Quantile(msgspec.Struct, frozen=True):
    """A quantile with its 95 % confidence interval from order statistics; inf where the sample does not reach it.

    David and Nagaraja, Order Statistics (2003), section 7.1, with the normal approximation of the binomial.
    """

    p: float
    value: float
    low: float
    high: float


class Outage(msgspec.Struct, frozen=True):
    """A stretch in which a target mostly failed, in seconds from the start of the log."""

    start: float
    end: float
    failed: int
    attempts: int


class TargetStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One target.

    `by_size`: of each prompt size that occurs its smallest number of tokens, n, p50 and p99. `explained`: the share of
    the variance of log latency that prompt size explains; None where sizes are not known. `autocorrelation`: of log
    latency with that of the request before, sizes taken out. `clustering`: how many times as likely a slow request
    (above p95) is right after a slow one.
    """

    target: str
    n: int
    failed: int
    quantiles: tuple[Quantile, ...]
    by_size: tuple[tuple[int, int, float, float], ...]
    explained: float | None
    autocorrelation: float
    clustering: float
    outages: tuple[Outage, ...]

    @property
    def tail(self) -> float:
        """p99 / p50."""
        return self.quantiles[-1].value / self.quantiles[0].value if self.n else nan


class Pairing(msgspec.Struct, frozen=True):
    """How two targets go together: rank correlation of the log latencies of attempts at the same time."""

    first: str
    second: str
    n: int
    correlation: float


def statistics_of(log: Log) -> list[TargetStatistics]:
    """Of every target, those with most attempts first."""
    counts = np.bincount(log.target, minlength=len(log.targets))
    return [_of_target(log, int(target)) for target in np.argsort(-counts, kind="stable")]


def _of_target(log: Log, target: int) -> TargetStatistics:
    own = log.of(log.target == target)
    good = ~own.failed
    took, sizes = own.ttft[good], own.input_tokens[good]
    logs = np.log(np.maximum(took, 1e-6))
    known = bool((sizes > 0).any())
    residual, explained = _without_size(logs, sizes) if known else (logs - logs.mean() if len(logs) else logs, None)
    return TargetStatistics(
        target=log.targets[target],
        n=len(took),
        failed=int(own.failed.sum()),
        quantiles=tuple(quantile(np.sort(took), p) for p in QUANTILES),
        by_size=tuple(_by_size(took, sizes)) if known else (),
        explained=explained,
        autocorrelation=_correlation(residual[:-1], residual[1:]),
        clustering=_clustering(residual),
        outages=tuple(_outages(own)),
    )


def quantile(ordered: Floats, p: float) -> Quantile:
    """Of a sorted sample: the smallest value that the share `p` does not exceed."""
    n = len(ordered)
    if not n:
        return Quantile(p, nan, nan, nan)
    spread = 1.96 * sqrt(n * p * (1 - p))
    low, high = int(np.floor(n * p - spread)) - 1, int(np.ceil(n * p + spread))
    at = max(int(np.ceil(n * p)) - 1, 0)
    return Quantile(
        p, float(ordered[at]), float(ordered[low]) if low >= 0 else 0.0, float(ordered[high]) if high < n else inf
    )


def size_of(tokens: Sequence[int] | np.ndarray) -> np.ndarray:
    """The prompt size of each, as the latency model tells them apart."""
    return np.searchsorted(np.array(SIZES), tokens, side="right")


def _by_size(took: Floats, tokens: np.ndarray) -> list[tuple[int, int, float, float]]:
    sizes = size_of(tokens)
    rows = []
    for size in np.unique(sizes):
        own = np.sort(took[sizes == size])
        rows.append(((0, *SIZES)[int(size)], len(own), quantile(own, 0.5).value, quantile(own, 0.99).value))
    return rows


def _without_size(logs: Floats, tokens: np.ndarray) -> tuple[Floats, float]:
    """Log latencies without what their prompts' lengths explain (a line through log-log), and that share."""
    if len(logs) < 3:
        return logs - logs.mean() if len(logs) else logs, 0.0
    length = np.log(np.maximum(tokens, 1))
    groups, which = np.unique(np.floor(length * 2), return_inverse=True)  # half an e-fold each: no shape is assumed
    means = np.bincount(which, weights=logs) / np.bincount(which)
    residual = logs - means[which]
    whole = float(logs.var())
    return residual, 0.0 if whole == 0.0 or len(groups) < 2 else 1.0 - float(residual.var()) / whole


def _correlation(a: Floats, b: Floats) -> float:
    if len(a) < 3 or a.std() == 0.0 or b.std() == 0.0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _clustering(values: Floats) -> float:
    if len(values) < 40:
        return 1.0
    slow = values > np.quantile(values, 0.95)
    share = slow[1:].mean()
    after = slow[1:][slow[:-1]]
    return float(after.mean() / share) if len(after) and share else 1.0


def _outages(own: Log) -> list[Outage]:
    """Runs of at least five attempts, more than half of which failed."""
    found: list[Outage] = []
    if not own.failed.any():
        return found
    window = 5
    share = np.convolve(own.failed.astype(float), np.ones(window), "same") / min(window, len(own))
    inside = share > 0.5
    edges = np.flatnonzero(np.diff(np.concatenate(([0], inside.astype(int), [0]))))
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        if end - start >= window:
            part = own.failed[start:end]
            found.append(Outage(float(own.at[start]), float(own.at[end - 1]), int(part.sum()), int(end - start)))
    return found


def pairings(log: Log, within: float = 2.0) -> list[Pairing]:
    """Of every two targets: attempts of one request, else those nearest in time, at most `within` seconds apart."""
    found = []
    for first in range(len(log.targets)):
        for second in range(first + 1, len(log.targets)):
            a, b = _together(log, first, second, within)
            if len(a) >= 20:
                found.append(
                    Pairing(log.targets[first], log.targets[second], len(a), _correlation(_ranks(a), _ranks(b)))
                )
    return found


def _together(log: Log, first: int, second: int, within: float) -> tuple[Floats, Floats]:
    good = ~log.failed
    a, b = log.of(good & (log.target == first)), log.of(good & (log.target == second))
    if (a.request >= 0).any() and len(np.intersect1d(a.request, b.request)):
        _, at_a, at_b = np.intersect1d(a.request, b.request, return_indices=True)
        return a.ttft[at_a], b.ttft[at_b]
    if not log.timed or not len(a) or not len(b):
        return np.empty(0), np.empty(0)
    nearest = np.clip(np.searchsorted(b.at, a.at), 1, max(len(b) - 1, 1)) - (len(b) > 1)
    right = np.minimum(nearest + 1, len(b) - 1)
    nearest = np.where(np.abs(b.at[right] - a.at) < np.abs(b.at[nearest] - a.at), right, nearest)
    near = np.abs(b.at[nearest] - a.at) <= within
    return a.ttft[near], b.ttft[nearest[near]]


def _ranks(values: Floats) -> Floats:
    return np.argsort(np.argsort(values)).astype(np.float64)
