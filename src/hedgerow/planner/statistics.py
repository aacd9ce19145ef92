"""What a log says of each target, before anything is hedged. Times are seconds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import nan

import msgspec
import numpy as np

from hedgerow.planner.lengths import by_answers, logs_of, without_length, without_size
from hedgerow.planner.log import Floats, Ints, Log
from hedgerow.planner.quantiles import QUANTILES, Quantile, quantile
from hedgerow.policy.latency.cells import SIZES

ENOUGH = 20
"""Different attempts of each of two targets that it takes to say how they go together."""


class Outage(msgspec.Struct, frozen=True):
    """A stretch in which a target mostly failed, in seconds from the start of the log."""

    start: float
    end: float
    failed: int
    attempts: int


class SizeStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """Prompts of one size at one target. `least`: the smallest number of tokens of that size; `n` had an answer."""

    least: int
    n: int
    failed: int
    quantiles: tuple[Quantile, ...]

    @property
    def tail(self) -> float:
        """p99 / p50."""
        return _tail(self.quantiles)


class TargetStatistics(msgspec.Struct, frozen=True, kw_only=True):
    """One target; `n` attempts had an answer.

    `by_size`: of each prompt size that occurs. `explained`: the share of the variance of log latency that prompt size
    explains, and `size_correlation` the rank correlation of the two; None where sizes are not known.
    `explained_with_answers`: the share that prompt size and length of the answer explain together, where only whole
    answers are timed, else None.
    `autocorrelation`: of log latency with that of the request before, sizes taken out. `clustering`: how many times as
    likely a slow request (above p95) is right after a slow one.
    """

    target: str
    n: int
    failed: int
    quantiles: tuple[Quantile, ...]
    by_size: tuple[SizeStatistics, ...]
    explained: float | None
    size_correlation: float | None
    explained_with_answers: float | None = None
    autocorrelation: float
    clustering: float
    outages: tuple[Outage, ...]

    @property
    def tail(self) -> float:
        """p99 / p50."""
        return _tail(self.quantiles)

    @property
    def long(self) -> float | None:
        """The share of the variance that is there because some requests are longer than others."""
        return self.explained if self.explained_with_answers is None else self.explained_with_answers


class Pairing(msgspec.Struct, frozen=True):
    """How two targets go together: rank correlation of the latencies of attempts at the same time.

    `same_size`: the same with what prompt sizes explain taken out of both (and lengths of answers, where only whole
    answers are timed); None where none are known.
    """

    first: str
    second: str
    n: int
    correlation: float
    same_size: float | None = None
    tail: float = 1.0
    """How many times as often as by chance both are above their p95, what sizes explain taken out."""


def _tail(quantiles: Sequence[Quantile]) -> float:
    return quantiles[-1].value / quantiles[0].value if quantiles[0].value else nan


def statistics_of(log: Log) -> list[TargetStatistics]:
    """Of every target, those with most attempts first."""
    counts = np.bincount(log.target, minlength=len(log.targets))
    return [_of_target(log, int(target)) for target in np.argsort(-counts, kind="stable")]


def _of_target(log: Log, target: int) -> TargetStatistics:
    own = log.of(log.target == target)
    good = ~own.failed
    took, sizes = own.ttft[good], own.input_tokens[good]
    logs, known = logs_of(own.of(good)), bool((sizes > 0).any())
    residual, together = without_length(own.of(good))
    return TargetStatistics(
        target=log.targets[target],
        n=len(took),
        failed=int(own.failed.sum()),
        quantiles=tuple(quantile(took, p) for p in QUANTILES),
        by_size=tuple(_by_size(own)) if known else (),
        explained=without_size(logs, sizes)[1] if known else None,
        explained_with_answers=together if by_answers(own) else None,
        size_correlation=_rank_correlation(took, sizes) if known else None,
        autocorrelation=_correlation(residual[:-1], residual[1:]),
        clustering=_clustering(residual),
        outages=tuple(_outages(own)),
    )


def size_of(tokens: Sequence[int] | np.ndarray) -> np.ndarray:
    """The prompt size of each, as the latency model tells them apart."""
    return np.searchsorted(np.array(SIZES), tokens, side="right")


def _by_size(own: Log) -> list[SizeStatistics]:
    sizes = size_of(own.input_tokens)
    rows = []
    for size in np.unique(sizes):
        there = sizes == size
        took = own.ttft[there & ~own.failed]
        rows.append(
            SizeStatistics(
                least=(0, *SIZES)[int(size)],
                n=len(took),
                failed=int(own.failed[there].sum()),
                quantiles=tuple(quantile(took, p) for p in QUANTILES),
            )
        )
    return rows


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
    """Runs of at least five attempts, more than half of which failed, as hardly come of the usual share of failures."""
    found: list[Outage] = []
    usual = float(own.failed.mean()) if len(own) else 0.0
    if not 0.0 < usual < 1.0:
        return found
    window = 5
    share = np.convolve(own.failed.astype(float), np.ones(window), "same") / min(window, len(own))
    inside = share > 0.5
    edges = np.flatnonzero(np.diff(np.concatenate(([0], inside.astype(int), [0]))))
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        failed, attempts = int(own.failed[start:end].sum()), int(end - start)
        if attempts >= window and _surprise(failed, attempts, usual) > math.log(100 * len(own)):
            found.append(Outage(float(own.at[start]), float(own.at[end - 1]), failed, attempts))
    return found


def _surprise(failed: int, attempts: int, usual: float) -> float:
    """Minus the logarithm of (a bound of) the chance of so many failures (Chernoff); 0 where they are no more."""
    share = failed / attempts
    if share <= usual:
        return 0.0
    kept = (1 - share) * math.log((1 - share) / (1 - usual)) if share < 1.0 else 0.0
    return attempts * (share * math.log(share / usual) + kept)


def pairings(log: Log, within: float = 2.0) -> list[Pairing]:
    """Of every two targets: attempts of one request, else those nearest in time, at most `within` seconds apart."""
    own = [log.of(~log.failed & (log.target == target)) for target in range(len(log.targets))]
    known = bool((log.input_tokens > 0).any()) or by_answers(log)
    rest = [without_length(each)[0] for each in own] if known else []
    found = []
    for first in range(len(own)):
        for second in range(first + 1, len(own)):
            a, b = _together(own[first], own[second], within)
            if len(np.unique(b)) < ENOUGH:  # one of a few may be the nearest to many
                continue
            whole = _rank_correlation(own[first].ttft[a], own[second].ttft[b])
            same = _rank_correlation(rest[first][a], rest[second][b]) if known else None
            times = rest if known else [each.ttft for each in own]
            both = _both_slow(times[first][a], times[second][b])
            found.append(Pairing(log.targets[first], log.targets[second], len(a), whole, same, both))
    return found


def _both_slow(a: Floats, b: Floats) -> float:
    """How many times as often as by chance both are above their p95."""
    slow = [each > np.quantile(each, 0.95) for each in (a, b)]
    chance = float(slow[0].mean() * slow[1].mean())
    return float((slow[0] & slow[1]).mean()) / chance if chance else 1.0


def _together(a: Log, b: Log, within: float) -> tuple[Ints, Ints]:
    """Which rows of one belong to which of the other."""
    none = np.empty(0, dtype=np.int64)
    if not len(a) or not len(b):
        return none, none
    _, at_a, at_b = np.intersect1d(a.request, b.request, return_indices=True)
    named = a.request[at_a] >= 0
    if named.any():
        return at_a[named], at_b[named]
    if not a.timed:
        return none, none
    nearest = np.maximum(np.searchsorted(b.at, a.at) - 1, 0)
    right = np.minimum(nearest + 1, len(b) - 1)
    nearest = np.where(np.abs(b.at[right] - a.at) < np.abs(b.at[nearest] - a.at), right, nearest)
    near = np.flatnonzero(np.abs(b.at[nearest] - a.at) <= within)
    return near, nearest[near]


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    return _correlation(_ranks(a), _ranks(b))


def _ranks(values: np.ndarray) -> Floats:
    """From the smallest; of equal ones their mean rank."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return ((last - counts + last - 1) / 2)[which]
