"""What one should know of a log before one hedges by it: named findings, with their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from hedgerow.planner.findings_targets import of_pairing, of_target, too_small
from hedgerow.planner.lengths import by_answers
from hedgerow.planner.log import LATE_FIRST, NEGATIVE, REFUSED, SUPERSEDED, Log
from hedgerow.planner.plan import Finding
from hedgerow.planner.statistics import Pairing, TargetStatistics
from hedgerow.report.words import percent, span

MANY_BAD = 0.05
CENSORED = 0.005
TWICE = 0.01
ASKEW = 0.001
"""Shares of rows from which on they are told of."""
DAY = 86_400.0
MANY = 3
"""Findings of one kind that are told one by one."""


def findings_of(
    log: Log,
    statistics: Sequence[TargetStatistics],
    pairings: Sequence[Pairing],
    target_quantile: float = 0.99,
    drawn: Iterable[Finding] = (),
) -> tuple[Finding, ...]:
    """Those that hold, the gravest first, and otherwise in a fixed order: of the log, of each target, of pairs, of what
    was `drawn` from it.
    """
    found = [
        *_of_rows(log),
        *_of_times(log),
        *_of_fields(log),
        *too_small(statistics, target_quantile),
        *_shortened([finding for each in statistics for finding in of_target(log, each, target_quantile)]),
        *_shortened([finding for each in pairings for finding in of_pairing(each)]),
        *_shortened(list(drawn)),
    ]
    return tuple(sorted(found, key=lambda finding: ("stop", "warning", "note").index(finding.severity)))


def _shortened(found: Sequence[Finding]) -> Iterator[Finding]:
    """Of what holds of many targets the first few, which have most answers, and how many more there are."""
    alike: dict[tuple[str, str], list[Finding]] = {}
    for finding in found:
        alike.setdefault((finding.name, finding.severity), []).append(finding)
    for (name, _), those in alike.items():
        yield from those[:MANY]
        if rest := those[MANY:]:
            targets = list(dict.fromkeys(str(finding.target) for finding in rest))
            names = ", ".join(targets[:MANY]) + (" and others" if len(targets) > MANY else "")
            yield Finding(name, rest[0].severity, None, f"The same ({name}) holds of {len(rest)} more: {names}.")


def _of_rows(log: Log) -> Iterator[Finding]:
    bad = {reason: count for reason, count in log.bad.items() if reason not in (SUPERSEDED, REFUSED)}
    if log.read and sum(bad.values()) > MANY_BAD * log.read:
        share = sum(bad.values()) / log.read
        text = f"{percent(share)} of the rows could not be used: {_reasons(bad)}."
        yield Finding("many_bad_rows", "stop" if share > 0.5 else "warning", None, text)
    censored = log.bad.get(SUPERSEDED, 0)
    if censored > CENSORED * (len(log) + censored):
        yield Finding(
            "censored",
            "warning",
            None,
            f"{censored:,} attempts ({percent(censored / (len(log) + censored))}) were cancelled because another was "
            f"faster. How long they would have taken nobody knows, but it was long: the tail without hedging is longer "
            f"than this log says, and so is what hedging gains.",
        )
    twice = _twice(log)
    if twice > TWICE * len(log):
        text = f"{twice:,} rows are there more than once, to the last digit: was a part of the log given twice?"
        yield Finding("duplicates", "warning", None, text)


def _reasons(bad: Mapping[str, int]) -> str:
    most = sorted(bad.items(), key=lambda item: (-item[1], item[0]))
    shown = [f"{reason} ({count:,})" for reason, count in most[:3]]
    return ", ".join([*shown, f"and {len(most) - 3} more reasons"] if len(most) > 3 else shown)


def _twice(log: Log) -> int:
    """Rows that are equal to the one before in all that is measured."""
    if not log.timed or len(log) < 2:
        return 0
    order = np.lexsort((log.ttft, log.input_tokens, log.target, log.at))
    same = np.ones(len(log) - 1, dtype=bool)
    for column in (log.ttft, log.input_tokens, log.target, log.at):
        same &= np.diff(column[order]) == 0  # nan, of those that failed, equals nothing
    return int(same.sum())


def _of_times(log: Log) -> Iterator[Finding]:
    if not log.timed:
        missing = "The log does not say when requests came"
        why = f"The times of {log.unread:,} rows cannot be read" if log.unread else missing
        text = (
            f"{why}; they are taken in the order of its rows. Slow spells, outages and the budget over time cannot be "
            f"judged well by it."
        )
        yield Finding("no_times", "warning", None, text)
    elif len(log):
        if log.stamps:
            text = (
                f"Its {len(log):,} rows have only {log.stamps:,} different times: too coarse to say which requests ran "
                f"at the same time. Those of one time are taken to be spread evenly until the next, in their order."
            )
            yield Finding("coarse_times", "warning", None, text)
        if log.at[-1] < DAY:
            text = f"The log covers {span(float(log.at[-1]))}: what changes over a day or a week is not in it."
            yield Finding("short_log", "note", None, text)
    askew = log.bad.get(NEGATIVE, 0) + log.bad.get(LATE_FIRST, 0)
    if askew > ASKEW * log.read:
        why = "do their times come from clocks that differ, or are their units others (--map)"
        text = f"In {askew:,} rows an answer ends before it begins: {why}?"
        yield Finding("clock", "warning", None, text)
    took = log.ttft[~log.failed]
    if len(took) >= 20 and np.mean(np.abs(took - np.round(took)) < 1e-9) > 0.95:
        text = "Latencies are whole seconds: too coarse to choose a delay by."
        yield Finding("coarse_latencies", "warning", None, text)


def _of_fields(log: Log) -> Iterator[Finding]:
    if not log.of_first_token:
        text = (
            "The log has the time to the whole answer only, while a stream is hedged by its first token: expect other "
            "delays there. It grows with the length of the answer, which two attempts share: "
        )
        text += (
            "a hedge of a long answer is taken to be about as long."
            if by_answers(log)
            else "as the log does not say how long answers are, hedging gains less than this plan promises."
        )
        yield Finding("whole_answers", "warning", None, text)
    if len(log) and not (log.input_tokens > 0).any():
        text = "The log has no prompt sizes: long prompts, slow for a reason, cannot be told from bad luck."
        yield Finding("no_sizes", "note", None, text)
    if len(log.targets) == 1:
        text = f"All went to {log.targets[0]}: whether another target is a better backup cannot be judged."
        yield Finding("one_target", "note", log.targets[0], text)
