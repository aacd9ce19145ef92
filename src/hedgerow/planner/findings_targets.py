"""Findings of single targets, and of two together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf, sqrt

import numpy as np

from hedgerow.planner.lengths import logs_of, without_length
from hedgerow.planner.log import Floats, Log
from hedgerow.planner.plan import Finding
from hedgerow.planner.quantiles import Quantile, quantile
from hedgerow.planner.statistics import Pairing, TargetStatistics
from hedgerow.planner.world import usual_failure
from hedgerow.report.words import counted, percent, pnn, seconds, span

SMALL_TAIL = 4.0
"""p99/p50 below which hedging buys little: some 5 % of the p99 for 5 % more requests, on recorded endpoints."""
ENOUGH = 100
"""Requests beyond the quantile in question that make its estimate good."""
LONG = 0.5
"""Share of the variance of log latency from which on prompt size is the reason to be slow."""
CORRELATED = 0.3
BURSTY = 0.2
CLUSTERED = 3.0
FAILING = 0.01
UNKNOWN = 0.5
"""Failures of unknown duration, as a share of those beyond the quantile in question, from which on they are told of."""
LIMITED = 0.05
"""Share of HTTP 429 from which on a target is no backup: more attempts would only be turned away."""
UNPAID = 0.01
"""Share of requests without costs from which on it is told of."""
CHANGED = 1.3
FAR = 60.0
"""Seconds, the median, from which on what stands for a hedge tells little of a slow spell of two minutes."""
TINY = 20
"""Answers below which nothing but their number is told of a target."""


def too_small(statistics: Sequence[TargetStatistics], target_quantile: float) -> Iterator[Finding]:
    """One finding for all targets with next to nothing, if there are others."""
    tiny = [each for each in statistics if each.n < TINY]
    if tiny and len(tiny) < len(statistics):
        names = ", ".join(each.target for each in tiny[:3]) + (", ..." if len(tiny) > 3 else "")
        text = f"{len(tiny)} of {len(statistics)} targets have fewer than {TINY} answers each ({names}): left alone."
        yield Finding("few_samples", "note", None, text)
    elif tiny:
        most = max(each.n for each in statistics)
        text = (
            f"No target has more than {counted(most, 'answer')}; {pnn(target_quantile * 100)} needs "
            f"{_needed(target_quantile):,}."
        )
        yield Finding("few_samples", "stop", None, text)


def of_target(log: Log, of: TargetStatistics, target_quantile: float) -> Iterator[Finding]:
    """What holds of one target."""
    if of.n >= TINY:
        yield from _few(log, of, target_quantile)
        yield from _small_tail(of)
        yield from _long(of)
        yield from _bursty(of)
        yield from _changed(log, of)
    yield from _limited(log, of)
    yield from _failures(log, of)
    yield from _failure_times(log, of, target_quantile)


def _needed(target_quantile: float) -> int:
    return round(ENOUGH / (1 - target_quantile))


def _few(log: Log, of: TargetStatistics, target_quantile: float) -> Iterator[Finding]:
    needed, name = _needed(target_quantile), pnn(target_quantile * 100)
    if of.n >= needed:
        return
    found = _at(log, of, target_quantile)
    beyond = of.n * (1 - target_quantile)
    if beyond < 1:
        text = f"{of.target} has {of.n:,} answers: too few to say anything of {name}, which needs {needed:,}."
        yield Finding("few_samples", "stop", of.target, text)
        return
    low, high = seconds(found.low), seconds(found.high)
    bounds = f"lies between {low} and {high}" if found.high < inf else f"is {low} or more"
    text = (
        f"{of.target} has {of.n:,} answers, where {needed:,} would do: its {name} rests on the slowest "
        f"{round(beyond):,} and {bounds}."
    )
    yield Finding("few_samples", "warning", of.target, text)


def _at(log: Log, of: TargetStatistics, p: float) -> Quantile:
    known = next((each for each in of.quantiles if each.p == p), None)
    return known or quantile(_took(log, of), p)


def _took(log: Log, of: TargetStatistics) -> Floats:
    return _own(log, of).ttft


def _own(log: Log, of: TargetStatistics) -> Log:
    """Its answers."""
    return log.of((log.target == list(log.targets).index(of.target)) & ~log.failed)


def _small_tail(of: TargetStatistics) -> Iterator[Finding]:
    if of.tail < SMALL_TAIL:
        p50, p99 = of.quantiles[0].value, of.quantiles[-1].value
        text = (
            f"At {of.target} the slowest 1 % take {of.tail:.1f} times the median ({seconds(p99)} against "
            f"{seconds(p50)}): hedging buys little here."
        )
        yield Finding("small_tail", "warning", of.target, text)


def _long(of: TargetStatistics) -> Iterator[Finding]:
    if of.long is not None and of.long >= LONG:
        text = (
            f"At {of.target} {explanation(of)} of how long answers take: slow ones are mostly long ones, and a hedge "
            f"of these is as slow."
        )
        yield Finding("slow_because_long", "warning", of.target, text)


def explanation(of: TargetStatistics) -> str:
    """What makes requests of a target long, and how much of the variance of their times that explains."""
    if of.explained_with_answers is None:
        return f"prompt size explains {percent(of.explained or 0.0)}"
    together = percent(of.explained_with_answers)
    if of.explained is None:
        return f"the length of the answer explains {together}"
    return f"prompt size and the length of the answer explain {together} (prompt size alone {percent(of.explained)})"


def _bursty(of: TargetStatistics) -> Iterator[Finding]:
    together = of.autocorrelation >= BURSTY and of.autocorrelation > 3 / sqrt(of.n)
    if together or of.clustering >= max(CLUSTERED, _by_chance(of.n)):
        text = (
            f"Slow requests at {of.target} come together: after a slow one the next is {of.clustering:.1f} times as "
            f"likely to be slow (correlation {of.autocorrelation:.2f}). A hedge meets the same slow spell, and gains "
            f"less than independent draws would promise."
        )
        yield Finding("bursty", "warning", of.target, text)


def _changed(log: Log, of: TargetStatistics) -> Iterator[Finding]:
    took, sized = _took(log, of), ""
    if of.long is not None:  # prompts and answers that grow are no change of a target
        own = _own(log, of)
        took = np.exp(without_length(own)[0] + logs_of(own).mean())
        sized = ", prompt sizes taken out" if of.explained_with_answers is None else ", lengths taken out"
    half = len(took) // 2
    for p in (0.5, 0.95):
        before, after = quantile(took[:half], p), quantile(took[half:], p)
        apart = before.high < after.low or after.high < before.low
        if apart and not 1 / CHANGED < after.value / before.value < CHANGED:
            text = (
                f"{of.target} has changed: its {pnn(p * 100)} was {seconds(before.value)} in the first half of the log "
                f"and {seconds(after.value)} in the second{sized}. A fixed delay goes stale; `auto` follows."
            )
            yield Finding("changed", "warning", of.target, text)
            return


def _failures(log: Log, of: TargetStatistics) -> Iterator[Finding]:
    attempts = of.n + of.failed
    if of.outages:
        longest = max(of.outages, key=lambda each: (each.end - each.start, each.attempts))
        lasted = f"{span(longest.end - longest.start)}, " if log.timed else ""
        times = "once" if len(of.outages) == 1 else f"{len(of.outages)} times"
        text = (
            f"{of.target} was out {times}; at the longest ({lasted}{longest.attempts:,} attempts) {longest.failed:,} "
            f"failed. Only another target helps then."
        )
        yield Finding("outage", "warning", of.target, text)
    if of.failed >= max(FAILING * attempts, 3):
        text = (
            f"{percent(of.failed / attempts)} of the attempts at {of.target} failed. A failure is answered by a "
            f"failover at once, whatever the delay of hedges."
        )
        yield Finding("failing", "note", of.target, text)


def _limited(log: Log, of: TargetStatistics) -> Iterator[Finding]:
    if (share := log.limited.get(of.target, 0.0)) >= LIMITED:
        text = (
            f"{of.target} turns {percent(share)} of the attempts away (HTTP 429). A hedge there is one attempt more "
            f"than it takes already: do not hedge to it, ask for a higher limit or send less."
        )
        yield Finding("rate_limited", "warning", of.target, text)


def _failure_times(log: Log, of: TargetStatistics, target_quantile: float) -> Iterator[Finding]:
    """Where so many failures have no duration that the quantile may rest on what they are taken to take."""
    own = log.of(log.target == list(log.targets).index(of.target))
    unknown = int(own.failed.sum() if own.failed_after is None else (own.failed & np.isnan(own.failed_after)).sum())
    if of.n and unknown >= max(UNKNOWN * (1 - target_quantile) * len(own), 3):
        text = (
            f"Of {unknown:,} failures at {of.target} ({percent(unknown / len(own))} of its attempts) the log does not "
            f"say how long they took; {seconds(usual_failure(own))} is assumed. With so many, "
            f"{pnn(target_quantile * 100)} rests on that, as a failover waits for the failure."
        )
        yield Finding("failure_times", "warning", of.target, text)


def far_away(primary: str, backup: str, apart: tuple[float, float]) -> Iterator[Finding]:
    """Where what stands for a hedge is further away in time than most slow spells last: the median, and the p90."""
    median, most = apart
    if median > FAR:
        text = (
            f"What stands for a hedge of {primary} to {backup} is {span(median)} away in time (median; of one in ten "
            f"{span(most)} or more). Slow spells and outages that are not much longer are not kept together, and "
            f"hedges made in them gain less than this plan promises."
        )
        yield Finding("far_neighbours", "warning", backup, text)


def unknown_costs(primary: str, backup: str, share: float, instead: str) -> Iterator[Finding]:
    """Where costs are partly a guess: of this share of the requests; `instead` of them is taken what that says."""
    if share >= UNPAID:
        text = (
            f"Costs of {percent(share)} of the requests of {primary} with hedges to {backup} are not known, as the log "
            f"does not say how many tokens they had or what they cost: {instead} stand for them."
        )
        yield Finding("unknown_costs", "warning", backup, text)


def of_pairing(of: Pairing) -> Iterator[Finding]:
    """What holds of two targets. That prompts are long at the same time is no reason; `slow_because_long` tells it."""
    known = of.same_size is not None
    correlation = of.same_size if of.same_size is not None else of.correlation
    if (correlation >= CORRELATED and correlation > 3 / sqrt(of.n)) or of.tail >= max(CLUSTERED, _by_chance(of.n)):
        text = (
            f"{of.first} and {of.second} are slow at the same time (rank correlation {correlation:.2f}"
            f"{' among requests of one size' if known else ''}; both are among their slowest 5 % {of.tail:.1f} times "
            f"as often as by chance): each is a worse backup for the other than its own numbers promise."
        )
        yield Finding("correlated", "warning", of.first, text)


def _by_chance(n: int) -> float:
    """How many times as often as it should two of the slowest 5 % may meet among so many: three standard deviations
    and two more.
    """
    usual = 0.0025 * n
    return (usual + 3 * sqrt(usual) + 2) / usual
