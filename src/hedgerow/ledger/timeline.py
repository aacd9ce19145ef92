"""One request as a story: what happened when, line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hedgerow.ledger.rows import AttemptRow, ContentRow, RequestRow

_NANO = 1_000_000_000


class Line(NamedTuple):
    """What happened, and how many microseconds after the request had come."""

    after: int
    who: str
    what: str


def timeline(request: RequestRow, attempts: Sequence[AttemptRow]) -> list[Line]:
    """Everything whose time is known, in order."""
    start = request.started_at
    lines = [Line(0, "request", _asked(request))]
    for each in attempts:
        lines += [Line(at - start, f"attempt {each.attempt}", what) for at, what in _of(each)]
    if request.unhedged_at is not None and request.hedges:
        without = "the first token would have come about now without the hedge"
        lines.append(Line(request.unhedged_at - start, "estimate", without))
    if request.ended_at is not None:
        lines.append(Line(request.ended_at - start, "request", _ended(request)))
    return sorted(lines, key=lambda line: line.after)


def outcome(request: RequestRow) -> Iterator[str]:
    """What it came to, in sentences that stand below the timeline."""
    if request.hedge_reason is not None:
        yield f"no (further) hedge: {_because(request.hedge_reason, request.hedge_detail)}"
    if request.failover_reason is not None:
        yield f"no (further) failover: {_because(request.failover_reason, request.failover_detail)}"
    if request.repeats:
        yield f"asked again with its idempotency key: {request.repeats}"
    yield f"cost {cost(request)}" + (
        f", of that {usd(request.extra_nanousd)} added by hedging" if request.extra_nanousd else ""
    )


def said(row: ContentRow) -> str:
    """Whose words they are, how long, and the words, without what would move a terminal's cursor."""
    who = row.part if row.attempt < 0 else f"{row.part} of attempt {row.attempt}"
    cut = ", cut off" if row.truncated else ""
    words = "".join(each if each.isprintable() or each in "\n\t" else "\ufffd" for each in row.content)
    return f"{who} ({row.size} bytes{cut}):\n{words}"


def cost(row: RequestRow | AttemptRow) -> str:
    """In dollars, with how sure that is."""
    if row.cost_nanousd is None:
        return f"unknown ({row.certainty})" if row.certainty else "unknown"
    if row.certainty == "exact":
        return usd(row.cost_nanousd)
    most = "no limit known" if row.most_nanousd is None else usd(row.most_nanousd)
    return f"{usd(row.cost_nanousd)} ({row.certainty}: {usd(row.least_nanousd or 0)} to {most})"


def usd(nano: int) -> str:
    """Whole nano-dollars as dollars, without a rounding."""
    digits = f"{abs(nano) % _NANO:09}".rstrip("0").ljust(2, "0")
    return f"{'-' if nano < 0 else ''}${abs(nano) // _NANO}.{digits}"


def _asked(request: RequestRow) -> str:
    what = "a stream" if request.stream else "a whole answer"
    by = f" by {request.tenant}" if request.tenant else ""
    arm = f", arm {request.arm}" if request.arm else ""
    return f"{request.protocol}, {what} asked of route {request.route}{by}{arm}"


def _of(attempt: AttemptRow) -> Iterator[tuple[int, str]]:
    model = f" for {attempt.model}" if attempt.model else ""
    yield attempt.launched_at, f"launched as {attempt.role} at target {attempt.target}{model}"
    if attempt.sent_at is not None:
        yield attempt.sent_at, "sent"
    if attempt.headers_at is not None:
        yield attempt.headers_at, f"answered {attempt.status}"
    if attempt.first_token_at is not None:
        yield attempt.first_token_at, "first token"
    if attempt.ended_at is not None:
        yield attempt.ended_at, ", ".join(_fate(attempt))


def _fate(attempt: AttemptRow) -> Iterator[str]:
    yield attempt.outcome
    if attempt.error_class is not None:
        yield f"{attempt.error_class} ({attempt.error})"
    if attempt.verdict is not None:
        yield f"{attempt.verdict} by {attempt.gate or 'a gate'}: {attempt.gate_detail}"
    if attempt.input_tokens is not None or attempt.output_tokens is not None:
        yield f"{_count(attempt.input_tokens)} in, {_count(attempt.output_tokens)} out ({attempt.token_source})"
    if attempt.finish_reason is not None:
        yield f"finished: {attempt.finish_reason}"
    yield f"cost {cost(attempt)}{_unsure(attempt)}"


def _unsure(attempt: AttemptRow) -> str:
    """Why its cost is not exact."""
    if attempt.cost_nanousd is None or attempt.certainty == "exact":
        return ""
    if attempt.outcome in ("superseded", "client_gone", "rejected"):
        return ", because it was broken off"
    if attempt.outcome == "failed":
        return ", because it failed under way"
    if attempt.token_source != "reported":
        return ", because it did not report its tokens"
    return ", because its tier or how long its cache is kept is not told"


def _count(number: int | None) -> str:
    return "? tokens" if number is None else f"{number} tokens"


def _ended(request: RequestRow) -> str:
    status = "" if request.status is None else f", status {request.status}"
    by = "" if request.winner_target is None else f" by {request.winner_target} ({request.winner_role})"
    return f"{request.outcome}{by}{status}"


def _because(reason: str, detail: str | None) -> str:
    return f"{reason} ({detail})" if detail else reason
