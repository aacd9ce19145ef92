"""From a request's record to its rows: what the events say, once each, in whole microseconds and nano-dollars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypedDict

from hedgerow.cost import Bill, Certainty, added_by_hedging
from hedgerow.events import AttemptEnded, AttemptLaunched, HedgeSkipped, RequestFinished, Role
from hedgerow.ledger.record import Content, Record
from hedgerow.ledger.rows import OPEN, AttemptRow, ContentRow, RequestRow
from hedgerow.usage import Usage

TEXT: Final = 500
"""Characters of any text that are kept."""
LARGEST: Final = 2**63 - 1
"""What a column of whole numbers holds."""
_SURER: Final = (Certainty.EXACT, Certainty.ESTIMATED, Certainty.AT_LEAST)


class _Clock:
    """Times of the events as Unix microseconds."""

    __slots__ = ("_epoch",)

    def __init__(self, epoch: float) -> None:
        self._epoch = round(epoch * 1_000_000)

    def at(self, seconds: float) -> int:
        return self._epoch + round(seconds * 1_000_000)

    def maybe(self, seconds: float | None) -> int | None:
        return None if seconds is None else self._epoch + round(seconds * 1_000_000)


class Fold:
    """Makes rows for one gateway process."""

    def __init__(self, process: int) -> None:
        self._process = process

    def content(self, told: Content) -> ContentRow:
        """The row of a prompt or an answer."""
        return ContentRow(
            process=self._process,
            number=told.number,
            attempt=told.attempt,
            part=told.part,
            content=told.body.decode("utf-8", "ignore").replace("\0", ""),
            size=told.size,
            truncated=len(told.body) < told.size,
        )

    def request(self, record: Record) -> RequestRow:
        """The request's row, as far as it has come."""
        clock = _Clock(record.epoch)
        started, finished, billed, launched = record.started, record.finished, record.billed, record.launched
        winner = None if finished is None else finished.winner
        won = next((each for each in launched if each.attempt == winner), None)
        hedge, failover = _last(record.skipped, Role.HEDGE), _last(record.skipped, Role.FAILOVER)
        unhedged_at = None if finished is None else finished.unhedged_at
        return RequestRow(
            process=self._process,
            number=record.number,
            request_id=_text(started.request_id),
            route=_text(started.route),
            protocol=started.protocol,
            stream=started.stream,
            model=_clean(started.model),
            tenant=_text(started.tenant),
            arm=started.arm,
            outcome=OPEN if finished is None else finished.outcome,
            status=None if finished is None else finished.status,
            error_class=_why_failed(record),
            attempts=len(launched),
            hedges=sum(each.role is Role.HEDGE for each in launched),
            winner=winner,
            winner_target=None if won is None else won.target,
            winner_role=None if won is None else won.role,
            hedge_reason=None if hedge is None else hedge.reason,
            hedge_detail=None if hedge is None else _clean(hedge.detail),
            failover_reason=None if failover is None else failover.reason,
            failover_detail=None if failover is None else _clean(failover.detail),
            gate=None if finished is None else finished.gate,
            repeats=record.repeats,
            started_at=clock.at(started.at),
            first_token_at=None if finished is None else clock.maybe(finished.first_token_at),
            ended_at=None if finished is None else clock.at(finished.ended_at),
            billed_at=None if billed is None else clock.at(billed.at),
            unhedged_at=clock.maybe(unhedged_at),
            **_tokens(_used(finished)),
            **_total(None if billed is None else billed.bills),
        )

    def attempts(self, record: Record) -> list[AttemptRow]:
        """The rows of its attempts, in the order of their launch."""
        ended = {each.attempt: each for each in record.ended}
        bills = {} if record.billed is None else {each.attempt: each for each in record.billed.bills}
        return [
            self._attempt(record, each, ended.get(each.attempt), bills.get(each.attempt)) for each in record.launched
        ]

    def _attempt(
        self, record: Record, launched: AttemptLaunched, ended: AttemptEnded | None, bill: Bill | None
    ) -> AttemptRow:
        clock = _Clock(record.epoch)
        failure = None if ended is None else ended.failure
        verdict, gate, detail = _verdict(record, launched.attempt)
        rescued = [each.chars for each in record.rescued or () if each.attempt == launched.attempt]
        usage = bill.usage if bill is not None else None if ended is None else ended.usage
        return AttemptRow(
            process=self._process,
            number=record.number,
            attempt=launched.attempt,
            target=launched.target,
            model=_clean(launched.model),
            role=launched.role,
            outcome=ended.outcome if ended is not None else OPEN if bill is None else bill.outcome,
            stream=None if ended is None else ended.stream,
            status=None if ended is None else ended.status,
            error_class=None if failure is None else failure.kind,
            error=None if failure is None else _clean(failure.message),
            finish_reason=None if ended is None else _clean(ended.finish_reason),
            service_tier=None if ended is None else _clean(ended.service_tier),
            verdict=verdict,
            gate=gate,
            gate_detail=detail,
            rescued_after=rescued[0] if rescued else None,
            launched_at=clock.at(launched.at),
            sent_at=None if ended is None else clock.maybe(ended.sent_at),
            headers_at=None if ended is None else clock.maybe(ended.headers_at),
            first_token_at=None if ended is None else clock.maybe(ended.first_token_at),
            ended_at=None if ended is None else clock.at(ended.ended_at),
            received_bytes=None if ended is None else ended.received_bytes,
            **_tokens(usage),
            **_cost(bill),
        )


class _Tokens(TypedDict):
    input_tokens: int | None
    cached_input_tokens: int | None
    cache_write_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    token_source: str | None


class _Cost(TypedDict):
    certainty: str | None
    cost_nanousd: int | None
    least_nanousd: int | None
    most_nanousd: int | None


class _Total(_Cost):
    extra_nanousd: int | None


_NO_TOKENS: Final = _Tokens(
    input_tokens=None,
    cached_input_tokens=None,
    cache_write_tokens=None,
    output_tokens=None,
    reasoning_tokens=None,
    token_source=None,
)
_NO_COST: Final = _Cost(certainty=None, cost_nanousd=None, least_nanousd=None, most_nanousd=None)


def _tokens(usage: Usage | None) -> _Tokens:
    if usage is None:
        return _NO_TOKENS
    return _Tokens(
        input_tokens=_bounded(usage.input_tokens),
        cached_input_tokens=_bounded(usage.cached_input_tokens),
        cache_write_tokens=_bounded(usage.cache_write_tokens),
        output_tokens=_bounded(usage.output_tokens),
        reasoning_tokens=_bounded(usage.reasoning_tokens),
        token_source=usage.source,
    )


def _cost(bill: Bill | None) -> _Cost:
    if bill is None:
        return _NO_COST
    return _Cost(
        certainty=bill.certainty,
        cost_nanousd=_bounded(bill.nanousd),
        least_nanousd=_bounded(bill.least),
        most_nanousd=_bounded(bill.most),
    )


def _total(bills: Sequence[Bill] | None) -> _Total:
    """Of all attempts together: no surer than the least sure of them. `extra` is what hedging has added."""
    if not bills:
        return _Total(**_NO_COST, extra_nanousd=None)
    if len(bills) == 1:
        return _Total(**_cost(bills[0]), extra_nanousd=None if bills[0].nanousd is None else 0)
    priced = [each for each in bills if each.nanousd is not None]
    surest = max((each.certainty for each in bills), key=_SURER.index)
    return _Total(
        certainty=Certainty.AT_LEAST if 0 < len(priced) < len(bills) else surest,  # the others cost something, too
        cost_nanousd=_sum([each.nanousd for each in priced]),
        least_nanousd=_sum([each.least for each in bills if each.least is not None]),
        most_nanousd=None if any(each.most is None for each in bills) else _sum([each.most for each in bills]),
        extra_nanousd=_sum([each.nanousd for each in added_by_hedging(bills)] or [0]) if priced else None,
    )


def _sum(amounts: Sequence[int | None]) -> int | None:
    return _bounded(sum(each or 0 for each in amounts)) if amounts else None


def _used(finished: RequestFinished | None) -> Usage | None:
    return None if finished is None else finished.usage


def _why_failed(record: Record) -> str | None:
    """The class of the last failure, where the request has none of its attempts' answers whole."""
    finished = record.finished
    if finished is None or finished.outcome == "won":
        return None
    failures = [each.failure for each in record.ended if each.failure is not None]
    return failures[-1].kind if failures else None


def _last(skipped: Sequence[HedgeSkipped] | None, role: Role) -> HedgeSkipped | None:
    return next((each for each in reversed(skipped or ()) if each.role is role), None)


def _verdict(record: Record, attempt: int) -> tuple[str | None, str | None, str | None]:
    """What gates said of its answer, who did, and why."""
    for rejected in record.rejected or ():
        if rejected.attempt == attempt:
            return "rejected", _clean(rejected.gate), _clean(rejected.detail)
    for not_judged in record.not_judged or ():
        if not_judged.attempt == attempt:
            return "not_judged", None, _clean(not_judged.why)
    return None, None, None


def _clean(text: str | None) -> str | None:
    return None if text is None else _text(text)


def _text(text: str) -> str:
    """What every database takes: PostgreSQL has no NUL in text."""
    return text[:TEXT].replace("\0", "")


def _bounded(number: int | None) -> int | None:
    return None if number is None else min(number, LARGEST)
