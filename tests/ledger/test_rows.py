"""Rows from events, exactly; and that table, record and migration agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from hedgerow.cost import MOST_NANOUSD, Certainty
from hedgerow.events import (
    AnswerNotJudged,
    AnswerRejected,
    AnswerRescued,
    Arm,
    AttemptEnded,
    AttemptLaunched,
    Failure,
    FailureClass,
    HedgeSkipped,
    Outcome,
    Reason,
    RequestBilled,
    RequestFinished,
    RequestStarted,
    Role,
    Usage,
    UsageSource,
)
from hedgerow.ledger.fold import Fold
from hedgerow.ledger.record import Record
from hedgerow.ledger.rows import AttemptHour, AttemptRow, RequestHour, RequestRow
from hedgerow.ledger.schema import VERSION_TABLE, attempt_hours, attempts, metadata, request_hours, requests
from hedgerow.ledger.store import migrate, open_store
from tests.ledger.support import EPOCH, MICRO, bill, records, told

BASE = int(EPOCH) * MICRO
FOLD = Fold(3)


def fold(*events: Any) -> tuple[RequestRow, list[AttemptRow]]:
    [record] = records(*events)
    assert isinstance(record, Record)
    return FOLD.request(record), FOLD.attempts(record)


def test_a_request_and_its_only_attempt() -> None:
    request, tried = fold(*told("r1", 5.0, arm=Arm.HEDGED, unhedged_at=5.2))
    at = BASE + 5 * MICRO
    tokens: dict[str, Any] = {
        "input_tokens": 10,
        "cached_input_tokens": None,
        "cache_write_tokens": None,
        "output_tokens": 20,
        "reasoning_tokens": None,
        "token_source": "reported",
    }
    cost: dict[str, Any] = {
        "certainty": "exact",
        "cost_nanousd": 1000,
        "least_nanousd": 1000,
        "most_nanousd": 1000,
    }
    assert request == RequestRow(
        process=3,
        number=1,
        request_id="r1",
        route="fast",
        protocol="openai_chat",
        stream=True,
        model="m",
        tenant="abc",
        arm=None,
        outcome="won",
        status=200,
        error_class=None,
        attempts=1,
        hedges=0,
        winner=0,
        winner_target="primary",
        winner_role="primary",
        hedge_reason=None,
        hedge_detail=None,
        failover_reason=None,
        failover_detail=None,
        gate=None,
        repeats=0,
        started_at=at,
        first_token_at=at + 200_000,
        ended_at=at + 300_000,
        billed_at=at + 300_000,
        unhedged_at=at + 200_000,
        extra_nanousd=0,
        **tokens,
        **cost,
    )
    assert tried == [
        AttemptRow(
            process=3,
            number=1,
            attempt=0,
            target="primary",
            model="gpt",
            role="primary",
            outcome="won",
            stream=True,
            status=200,
            error_class=None,
            error=None,
            finish_reason="stop",
            service_tier="default",
            verdict=None,
            gate=None,
            gate_detail=None,
            rescued_after=None,
            launched_at=at,
            sent_at=at + 10_000,
            headers_at=at + 100_000,
            first_token_at=at + 200_000,
            ended_at=at + 300_000,
            received_bytes=1000,
            **tokens,
            **cost,
        )
    ]


def hedged(*, billed: bool = True) -> list[Any]:
    """A request whose hedge has won, and whose second hedge was refused."""
    lost = AttemptEnded("r1", 0, "primary", Role.PRIMARY, Outcome.SUPERSEDED, 0.0, 0.1, None, 2.5, 200, 9)
    won = AttemptEnded("r1", 1, "backup", Role.HEDGE, Outcome.WON, 2.0, 2.1, 2.5, 3.0, 200, 99, usage=Usage(7, 8))
    bills = (
        bill(0, 70, outcome=Outcome.SUPERSEDED, certainty=Certainty.ESTIMATED, least=0, most=500),
        bill(1, 30, role=Role.HEDGE),
    )
    found = [
        RequestStarted("r1", "fast", "openai_chat", True, 0.0, arm=Arm.HEDGED),
        AttemptLaunched("r1", 0, "primary", Role.PRIMARY, 0.0),
        AttemptLaunched("r1", 1, "backup", Role.HEDGE, 2.0),
        HedgeSkipped("r1", "fast", Reason.DEADLINE, 2.4),
        HedgeSkipped("r1", "fast", Reason.BUDGET, 2.45, "0 of 10"),
        lost,
        won,
        RequestFinished("r1", "fast", "openai_chat", True, 0.0, 2.5, 3.0, 200, 1, 2, Outcome.WON, Usage(7, 8)),
    ]
    return [*found, RequestBilled("r1", "fast", 3.0, bills)] if billed else found


def test_a_hedge_that_has_won() -> None:
    request, (lost, won) = fold(*hedged())
    assert (request.attempts, request.hedges, request.winner) == (2, 1, 1)
    assert (request.winner_target, request.winner_role, request.arm) == ("backup", "hedge", "hedged")
    assert (request.hedge_reason, request.hedge_detail) == ("budget", "0 of 10")
    assert (request.failover_reason, request.failover_detail) == (None, None)
    assert (request.input_tokens, request.output_tokens) == (7, 8)
    assert (request.certainty, request.cost_nanousd) == ("estimated", 100)
    assert (request.least_nanousd, request.most_nanousd, request.extra_nanousd) == (30, 530, 70)
    assert (lost.outcome, lost.certainty, lost.cost_nanousd) == ("superseded", "estimated", 70)
    assert (won.outcome, won.role, won.launched_at) == ("won", "hedge", BASE + 2 * MICRO)


def test_while_losers_run_there_is_an_outcome_and_no_cost() -> None:
    request, tried = fold(*hedged(billed=False))
    assert (request.outcome, request.certainty, request.cost_nanousd, request.billed_at) == ("won", None, None, None)
    assert [each.cost_nanousd for each in tried] == [None, None]
    assert [each.output_tokens for each in tried] == [None, 8]


def test_what_is_under_way_is_open() -> None:
    request, [tried] = fold(*list(told("r1"))[:2])
    assert (request.outcome, request.attempts, request.winner, request.ended_at) == ("open", 1, None, None)
    assert (tried.outcome, tried.target, tried.stream, tried.ended_at) == ("open", "primary", None, None)


def test_a_request_that_failed_says_of_what() -> None:
    failure = Failure(FailureClass.RATE_LIMITED, "slow down" + "!" * 600, 429)
    started, launched, ended, finished, _ = told("r1")
    failed = msgspec.structs.replace(ended, outcome=Outcome.FAILED, failure=failure, status=429)
    over = msgspec.structs.replace(finished, outcome=Outcome.FAILED, status=429, winner=None)
    skipped = HedgeSkipped("r1", "fast", Reason.TARGETS, 1.0, "none is left", Role.FAILOVER)
    request, [tried] = fold(started, launched, failed, skipped, over, RequestBilled("r1", "fast", 1.0, ()))
    assert (request.outcome, request.error_class, request.status) == ("failed", "rate_limited", 429)
    assert (request.failover_reason, request.failover_detail) == ("targets", "none is left")
    assert (tried.error_class, tried.error) == ("rate_limited", ("slow down" + "!" * 600)[:500])
    assert (request.certainty, request.cost_nanousd, request.extra_nanousd) == (None, None, None)


def test_verdicts_of_gates_and_rescues_are_the_attempts() -> None:
    events = hedged()
    events[3:3] = [
        AnswerRejected("r1", "fast", 0, "primary", "finished", "cut short", 2.2, False),
        AnswerNotJudged("r1", "fast", 1, "backup", "mine: late", 2.3),
        AnswerRescued("r1", "fast", 1, "backup", 12, 2.4),
    ]
    _, (first, second) = fold(*events)
    assert (first.verdict, first.gate, first.gate_detail) == ("rejected", "finished", "cut short")
    assert (second.verdict, second.gate, second.gate_detail) == ("not_judged", None, "mine: late")
    assert (first.rescued_after, second.rescued_after) == (None, 12)


LOST: dict[str, Any] = {"role": Role.HEDGE, "outcome": Outcome.SUPERSEDED}


@pytest.mark.parametrize(
    ("bills", "certainty", "cost", "least", "most", "extra"),
    [
        ([], None, None, None, None, None),
        ([bill(0, None)], "exact", None, None, None, None),
        ([bill(0, 5), bill(1, None, certainty=Certainty.AT_LEAST)], "at_least", 5, 5, None, 0),
        ([bill(0, 5), bill(1, 7, certainty=Certainty.ESTIMATED, **LOST)], "estimated", 12, 12, 12, 7),
        ([bill(0, 5), bill(1, 7, most=None, **LOST)], "exact", 12, 12, None, 7),
        ([bill(0, 5), bill(1, None)], "at_least", 5, 5, None, 0),
        ([bill(0, None), bill(1, 7, certainty=Certainty.ESTIMATED, **LOST)], "at_least", 7, 7, None, 7),
        ([bill(0, None), bill(1, None)], "exact", None, None, None, None),
        ([bill(0, 2**70)], "exact", MOST_NANOUSD, MOST_NANOUSD, MOST_NANOUSD, 0),
    ],
)
def test_a_requests_cost_is_that_of_all_attempts_and_no_surer_than_any(
    bills: Any, certainty: str | None, cost: int | None, least: int | None, most: int | None, extra: int | None
) -> None:
    request, _ = fold(*told("r1", bills=bills))
    assert (request.certainty, request.cost_nanousd) == (certainty, cost)
    assert (request.least_nanousd, request.most_nanousd, request.extra_nanousd) == (least, most, extra)


def test_tokens_that_were_guessed_for_the_bill_are_the_attempts() -> None:
    guessed = Usage(11, 3, source=UsageSource.ESTIMATED)
    _, [tried] = fold(*told("r1", bills=[bill(0, 5, usage=guessed)]))
    assert (tried.input_tokens, tried.output_tokens, tried.token_source) == (11, 3, "estimated")


def test_text_is_bounded_and_holds_what_every_database_takes() -> None:
    request, _ = fold(*told("r\0" * 1000))
    assert request.request_id == "r" * 250


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        (RequestRow, requests),
        (AttemptRow, attempts),
        (RequestHour, request_hours),
        (AttemptHour, attempt_hours),
    ],
)
def test_records_have_the_columns_of_their_tables(kind: type[msgspec.Struct], table: Any) -> None:
    columns = list(table.columns.keys())
    assert set(kind.__struct_fields__) == set(columns)
    if kind in (RequestRow, AttemptRow):  # which are written and read by their order
        assert list(kind.__struct_fields__) == columns


def test_the_migrations_make_the_tables_that_the_code_knows(tmp_path: Path) -> None:
    engine = open_store(f"sqlite:///{tmp_path}/l.db", writes=True)
    migrate(engine)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []
    engine.dispose()
