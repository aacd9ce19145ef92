"""What is in the tables after what was told: each batch once, the latest of each request, whatever a record is like."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Engine, select, text

from hedgerow.errors import LedgerError
from hedgerow.events import AttemptLaunched, RequestRepeated, Role
from hedgerow.ledger import read
from hedgerow.ledger.fold import Fold
from hedgerow.ledger.record import PROMPT, Content, Part, Record, Repeat
from hedgerow.ledger.rows import AttemptRow, RequestRow
from hedgerow.ledger.schema import VERSION_TABLE, hours, metadata, processes
from hedgerow.ledger.store import migrate, open_store, shown, version
from hedgerow.ledger.tables import HOUR, Tables, hour_of
from tests.ledger.support import EPOCH, MICRO, batches, hello, records, told

NOW = int(EPOCH) * MICRO


@pytest.fixture
def tables(engine: Engine, url: str) -> Tables:
    return Tables(engine, hello(url), NOW)


def rows(url: str) -> tuple[list[RequestRow], list[AttemptRow]]:
    with read.ledger(url) as ledger:
        return [row for batch in ledger.requests() for row in batch], [
            row for batch in ledger.attempts() for row in batch
        ]


def test_what_is_written_is_read_as_it_was(tables: Tables, url: str) -> None:
    found = records(*told("r1"), *told("r2", 1.0))
    assert tables.write(batches(*found), NOW) == 0
    fold = Fold(tables.process)
    wanted = [record for record in found if isinstance(record, Record)]
    assert rows(url) == (
        [fold.request(record) for record in wanted],
        [row for record in wanted for row in fold.attempts(record)],
    )


def test_what_is_told_again_later_takes_the_place_of_what_was_known(tables: Tables, url: str) -> None:
    started, launched, *rest = told("r1")
    tables.write(batches(*records(started, launched)), NOW)
    assert [row.outcome for row in rows(url)[0]] == ["open"]
    more = [AttemptLaunched("r1", 1, "backup", Role.HEDGE, 0.1)]
    tables.write(batches(*records(started, launched, *more, *rest), first=2), NOW)
    [request], tried = rows(url)
    assert (request.outcome, request.hedges, request.attempts) == ("won", 1, 2)
    assert [(row.attempt, row.target) for row in tried] == [(0, "primary"), (1, "backup")]


def test_a_batch_is_written_once_however_often_it_is_told(engine: Engine, url: str) -> None:
    first = batches(*records(*told("r1")))
    again = batches(Repeat("r1"), first=2)
    Tables(engine, hello(url), NOW).write([*first, *again], NOW)
    next_writer = Tables(engine, hello(url), NOW)  # of the same gateway: the first has died before it could confirm
    next_writer.write([*first, *again], NOW)
    next_writer.write(batches(Repeat("r1"), first=3), NOW)
    [request], _ = rows(url)
    assert request.repeats == 2


def test_the_latest_of_requests_with_one_name_is_the_one_asked_again(tables: Tables, url: str) -> None:
    found = [*records(*told("same"), *told("same", 1.0), RequestRepeated("same", "fast", 2.0, False))]
    tables.write(batches(*found), NOW)
    assert [row.repeats for row in rows(url)[0]] == [0, 1]


def test_two_gateways_share_a_ledger(engine: Engine, url: str) -> None:
    one, other = (Tables(engine, hello(url, key), NOW) for key in ("a", "b"))
    assert one.process != other.process
    for tables in (one, other):
        tables.write(batches(*records(*told("r1"))), NOW)
    assert sorted((row.process, row.number) for row in rows(url)[0]) == sorted([(one.process, 1), (other.process, 1)])


def test_a_record_that_no_database_takes_costs_no_other(tables: Tables, engine: Engine, url: str) -> None:
    good, bad = list(records(*told("good"), *told("bad")))
    assert isinstance(bad, Record)
    assert bad.finished is not None
    bad.finished = msgspec.structs.replace(bad.finished, status=2**80 // 2**17)
    if url.startswith("sqlite"):
        return  # which takes whatever it is given
    assert tables.write(batches(good, bad), NOW) == 1
    assert [row.request_id for row in rows(url)[0]] == ["good"]
    with engine.connect() as connection:
        assert connection.execute(select(processes.c.batch)).scalar() == 2


def test_an_unreadable_record_costs_no_other(tables: Tables, url: str) -> None:
    [(number, payload)] = batches(*records(*told("good")))
    assert tables.write([(number, payload + b"\x02\0\0\0\x92\x63")], NOW) == 1
    assert [row.request_id for row in rows(url)[0]] == ["good"]


def test_hours_know_that_they_were_written_to(tables: Tables, engine: Engine) -> None:
    tables.write(batches(*records(*told("r1"), *told("r2", 3600.0), *told("r3", 3601.0))), NOW)
    tables.write(batches(*records(*told("r4", 3602.0)), first=9), NOW)
    with engine.connect() as connection:
        found = {row.hour: row.version for row in connection.execute(select(hours))}
    assert found == {hour_of(NOW): 1, hour_of(NOW) + HOUR: 2}


@pytest.mark.parametrize("batch", [1, 2, 5, 7, 1000])
def test_pages_hold_everything_once_and_in_order(
    tables: Tables, url: str, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    monkeypatch.setattr(read, "BATCH", batch)
    same = [event for number in range(7) for event in told(f"r{number}", at=float(number // 3))]
    tables.write(batches(*records(*same)), NOW)
    with read.ledger(url) as ledger:
        assert [row.number for page in ledger.requests() for row in page] == list(range(1, 8))
        assert [row.number for page in ledger.attempts() for row in page] == list(range(1, 8))
        bounds = NOW + MICRO, NOW + 2 * MICRO
        assert [row.number for page in ledger.requests(*bounds) for row in page] == [4, 5, 6]
        assert [row.number for page in ledger.attempts(*bounds) for row in page] == [4, 5, 6]


# --- the database itself ---------------------------------------------------------------------------------------------


def test_the_migrations_make_the_tables_that_the_code_knows(engine: Engine) -> None:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE, "compare_type": True})
        assert compare_metadata(context, metadata) == []


def test_migrating_again_changes_nothing(engine: Engine, tables: Tables, url: str) -> None:
    tables.write(batches(*records(*told("r1"))), NOW)
    migrate(engine)
    assert len(rows(url)[0]) == 1


def test_tables_of_an_earlier_version_are_brought_up_to_date_with_what_is_in_them(
    engine: Engine, tables: Tables, url: str
) -> None:
    tables.write(batches(*records(*told("r1"))), NOW)
    with engine.begin() as connection:  # as 0001 had made them
        connection.execute(text("DROP TABLE contents"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '0001'"))
    with pytest.raises(LedgerError, match=r"tables of an earlier version \(0001\)"):
        rows(url)
    migrate(engine)
    assert len(rows(url)[0]) == 1
    said = Content(1, PROMPT, Part.PROMPT, b"hello", 5)
    assert tables.write(batches(said, said, first=2), NOW) == 0
    with read.ledger(url) as ledger:
        assert [row.content for page in ledger.contents() for row in page] == ["hello"]


@pytest.mark.parametrize("ask", [lambda engine, _: migrate(engine), lambda _, url: rows(url)])
def test_a_ledger_of_a_later_version_is_left_alone(engine: Engine, url: str, ask: Any) -> None:
    with engine.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9000'"))
    with pytest.raises(LedgerError, match=r"later version of hedgerow \(its tables are 9000, known are 0002"):
        ask(engine, url)
    with engine.connect() as connection:
        assert version(connection) == "9000"


def test_a_database_without_a_ledger_says_so(url: str) -> None:
    engine = open_store(url, writes=True)
    engine.connect().close()
    engine.dispose()
    with pytest.raises(LedgerError, match="holds no ledger"):
        rows(url)


def test_passwords_are_not_shown() -> None:
    assert shown("postgresql://me:secret@host/db") == "postgresql://me:***@host/db"
    assert "secret" not in repr(hello("postgresql://me:secret@host/db"))


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("sqlite:////no/such/file.db", "there is no ledger at /no/such/file.db"),
        ("nonsense", "that is no URL of a ledger"),
        ("mysql://host/db", "in SQLite or PostgreSQL"),
        ("postgresql://127.0.0.1:9/db", "cannot be read: connection failed"),
    ],
)
def test_what_cannot_be_read_says_why(url: str, why: str) -> None:
    with pytest.raises(LedgerError, match=why):
        rows(url)
