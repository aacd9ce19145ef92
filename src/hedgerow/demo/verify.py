"""Does everything add up? What the client got, what the gateway said and what the labs' books hold must agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from hedgerow.demo.formula import percentile
from hedgerow.demo.reply import Answer
from hedgerow.demo.result import CancelLatency
from hedgerow.lab.accounts import Ending, Record, Stats
from hedgerow.lab.text import text

SHOWN = 3
"""How many requests of one kind of fault are named; the rest is counted."""

CONNECT_WITHIN = 0.5
"""Real seconds in which a connection on one machine is made."""

CANCELLED = frozenset({Ending.CANCELLED_BEFORE_HEADERS, Ending.CANCELLED_BEFORE_TOKEN, Ending.CANCELLED_MID_STREAM})


class Books(msgspec.Struct, frozen=True):
    """One lab's own account of a phase."""

    target: str
    stats: Stats
    log: list[Record]


class Loss(msgspec.Struct, frozen=True):
    """A superseded attempt beside the one that won, both as their labs saw them."""

    winner: Record
    loser: Record


def inconsistencies(
    phase: str, keys: Sequence[str], answers: Sequence[Answer], books: Sequence[Books], *, delay: float | None
) -> list[str]:
    """One line per kind of fault; an empty list when all agrees. `delay` is the hedge's, in real seconds."""
    records = {(one.target, record.key): record for one in books for record in one.log}
    times = Counter(answer.key for answer in answers)
    findings = [
        *_counted("was not answered exactly once", [key for key in keys if times[key] != 1]),
        *_counted("was not answered whole", [f"{a.key} ({a.problem})" for a in answers if a.problem is not None]),
        *_counted("got a text that its winner did not generate", _wrong_texts(answers, records)),
        *_counted("lost without seeing its cancel", _not_cancelled(answers, books)),
        *_counted("has attempts miscounted", _miscounted(answers, books, delay)),
        *_totals(answers, books),
    ]
    return [f"{phase}: {finding}" for finding in findings]


def other_draws(before: Sequence[Books], after: Sequence[Books]) -> list[str]:
    """Did a request meet another latency at the same lab in the second phase? Then the comparison is void."""
    planned = {(one.target, record.key): record.ttft for one in before for record in one.log}
    moved = [
        f"{record.key} (at {one.target})"
        for one in after
        for record in one.log
        if record.ttft != planned.get((one.target, record.key), record.ttft)
    ]
    return _counted("met another draw in the second phase", moved)


def losses(answers: Sequence[Answer], books: Sequence[Books]) -> list[Loss]:
    """Every attempt that lost to another, with its winner."""
    target = {answer.key: answer.target for answer in answers}
    winners = {record.key: record for one in books for record in one.log if target.get(record.key) == one.target}
    return [
        Loss(winners[record.key], record)
        for one in books
        for record in one.log
        if record.key in winners and record is not winners[record.key]
    ]


def cancel_latency(lost: Sequence[Loss]) -> CancelLatency | None:
    """From a winner's first token to its loser's closed connection; the labs share one clock. None without losers."""
    waits = sorted(
        max(0.0, one.loser.closed_at - one.winner.first_token_at)
        for one in lost
        if one.loser.closed_at is not None and one.winner.first_token_at is not None
    )
    return CancelLatency(len(waits), percentile(waits, 0.5), waits[-1]) if waits else None


def added(answers: Sequence[Answer], books: Sequence[Books]) -> float:
    """By how much the measured first token comes after the drawn one, p50, in real seconds."""
    drawn = {(one.target, record.key): record.ttft for one in books for record in one.log}
    late = sorted(
        answer.first_token - ttft
        for answer in answers
        if answer.problem is None and (ttft := drawn.get((answer.target, answer.key))) is not None
    )
    return percentile(late, 0.5) if late else 0.0


def _wrong_texts(answers: Sequence[Answer], records: Mapping[tuple[str, str], Record]) -> list[str]:
    wrong = []
    for answer in answers:
        record = records.get((answer.target, answer.key))
        own = None if record is None else _generated(answer.target, record)
        if answer.problem is None and own != (answer.answer_id, answer.text):
            wrong.append(f"{answer.key} (from {answer.target or 'no target'})")
    return wrong


def _generated(lab: str, record: Record) -> tuple[str, str]:
    """Id and text of the answer that this lab gave."""
    return f"chatcmpl-{lab}-{record.seq}", text(lab, record.tokens)


def _not_cancelled(answers: Sequence[Answer], books: Sequence[Books]) -> list[str]:
    return [
        f"{one.loser.key} ({one.loser.ending.value})"
        for one in losses(answers, books)
        if one.loser.ending not in CANCELLED
    ]


def _miscounted(answers: Sequence[Answer], books: Sequence[Books], delay: float | None) -> list[str]:
    """Requests for which gateway and labs disagree on the number of attempts.

    An attempt cancelled while its connection was still being made was launched, but no lab ever saw it. That can only
    be so when the winner's token was due before or right after the hedge's start. (When it came does not count: on a
    busy machine that is later, and so is the connection.)
    """
    seen = Counter(record.key for one in books for record in one.log)
    due = {(one.target, record.key): record.ttft for one in books for record in one.log}
    wrong = []
    for answer in answers:
        missing = answer.attempts - seen[answer.key]
        ttft = due.get((answer.target, answer.key))
        unsent = delay is not None and ttft is not None and ttft - delay < CONNECT_WITHIN
        if missing and not (missing == 1 and answer.hedged and unsent):
            wrong.append(f"{answer.key} (gateway {answer.attempts}, labs {seen[answer.key]})")
    return wrong


def _totals(answers: Sequence[Answer], books: Sequence[Books]) -> list[str]:
    """The counts that must agree: one answer and perhaps one hedge for each request, and nothing left open."""
    hedges = sum(answer.hedged for answer in answers)
    attempts = sum(answer.attempts for answer in answers)
    completed = sum(one.stats.completed for one in books)
    still_open = sum(one.stats.open for one in books)
    checks = [
        (attempts == len(answers) + hedges, f"{attempts} attempts are not {len(answers)} requests and {hedges} hedges"),
        (completed == len(answers), f"the labs completed {completed} answers for {len(answers)} requests"),
        (still_open == 0, f"{still_open} requests are still open at the labs"),
    ]
    return [words for holds, words in checks if not holds]


def _counted(what: str, which: Sequence[str]) -> list[str]:
    if not which:
        return []
    more = f" and {len(which) - SHOWN} more" if len(which) > SHOWN else ""
    return [f"{len(which)} x {what}: {', '.join(which[:SHOWN])}{more}"]
