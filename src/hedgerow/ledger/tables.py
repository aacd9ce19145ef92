"""Writes what one gateway process tells into the tables: each batch once, however often it is told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import Connection, Engine, Table, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DataError, IntegrityError

from hedgerow.ledger.fold import Fold
from hedgerow.ledger.record import Content, Hello, Record, Repeat, Told, decode, records_in
from hedgerow.ledger.schema import attempts, contents, hours, processes, requests

HOUR: Final = 3_600_000_000
"""Microseconds of an hour."""
_ITS_OWN_FAULT: Final = (DataError, IntegrityError, OverflowError, UnicodeError, msgspec.MsgspecError)
"""What is wrong with a record, not with the database."""
_astuple: Final = msgspec.structs.astuple

Batches = Sequence[tuple[int, bytes]]
"""Some batches with their numbers, in order."""


class Tables:
    """The tables as one gateway process writes them. Times are Unix microseconds."""

    def __init__(self, engine: Engine, hello: Hello, now: int) -> None:
        """Raises what the database raises."""
        self._engine = engine
        with engine.begin() as connection:
            self.process, self._batch = _enter(connection, hello, now)
        self._fold = Fold(self.process)
        self._put_request = _upsert(requests, engine)
        self._put_attempt = _upsert(attempts, engine)
        self._put_content = _upsert(contents, engine)

    def write(self, batches: Batches, now: int) -> int:
        """Have the batches in the tables; how many of their records the database would not take.

        Raises what it raises when it cannot write at all; then none of them is written.
        """
        new = [payload for number, payload in batches if number > self._batch]
        records = [record for payload in new for record in records_in(payload)]
        last = batches[-1][0]
        try:
            with self._engine.begin() as connection:
                self._put(connection, [decode(each) for each in records])
                self._mark(connection, last, now)
            refused = 0
        except _ITS_OWN_FAULT:
            refused = self._one_by_one(records, last, now)
        self._batch = max(last, self._batch)
        return refused

    def _one_by_one(self, records: Sequence[memoryview], last: int, now: int) -> int:
        refused = 0
        with self._engine.begin() as connection:
            for each in records:
                try:
                    with connection.begin_nested():
                        self._put(connection, [decode(each)])
                except _ITS_OWN_FAULT:
                    refused += 1
            self._mark(connection, last, now)
        return refused

    def _put(self, connection: Connection, records: Iterable[Told]) -> None:
        latest: dict[int, Record] = {}
        repeats: list[str] = []
        said: list[Content] = []
        for record in records:
            if isinstance(record, Record):
                latest[record.number] = record
            elif isinstance(record, Repeat):
                repeats.append(record.request_id)
            else:
                said.append(record)
        rows = [self._fold.request(each) for each in latest.values()]
        tried = [row for each in latest.values() for row in self._fold.attempts(each)]
        # Not as statements of SQLAlchemy's: what it does for each row takes as long as the database.
        if rows:
            connection.exec_driver_sql(self._put_request, [_astuple(row) for row in rows])
        if tried:
            connection.exec_driver_sql(self._put_attempt, [_astuple(row) for row in tried])
        if said:
            connection.exec_driver_sql(self._put_content, [_astuple(self._fold.content(each)) for each in said])
        for request_id in repeats:
            self._repeated(connection, request_id)
        touch(connection, {hour_of(row.started_at) for row in rows})

    def _repeated(self, connection: Connection, request_id: str) -> None:
        own = requests.c.process == self.process
        which = select(func.max(requests.c.number)).where(own, requests.c.request_id == request_id).scalar_subquery()
        again = update(requests).where(own, requests.c.number == which).values(repeats=requests.c.repeats + 1)
        connection.execute(again)

    def _mark(self, connection: Connection, batch: int, now: int) -> None:
        own = processes.c.process == self.process
        connection.execute(update(processes).where(own).values(batch=batch, seen_at=now, ended_at=None))


def hour_of(at: int) -> int:
    """The hour of a time, by when it began."""
    return at - at % HOUR


def touch(connection: Connection, changed: Iterable[int]) -> None:
    """Rows of these hours were written: to be said last in a transaction, since others wait for it then."""
    kind: Any = {"postgresql": postgresql, "sqlite": sqlite}[connection.dialect.name]
    values = [{"hour": hour, "version": 1, "rolled": 0, "pruned": 0} for hour in sorted(changed)]
    if values:
        said = kind.insert(hours).on_conflict_do_update(
            index_elements=[hours.c.hour], set_={"version": hours.c.version + 1}
        )
        connection.execute(said, values)


def _enter(connection: Connection, hello: Hello, now: int) -> tuple[int, int]:
    """The number of the process, and of its last batch that is written."""
    known = connection.execute(
        select(processes.c.process, processes.c.batch).where(processes.c.key == hello.key)
    ).first()
    if known is not None:
        return known.process, known.batch
    fields: Mapping[str, Any] = {
        "key": hello.key,
        "host": hello.host,
        "pid": hello.pid,
        "version": hello.version,
        "started_at": now,
        "seen_at": now,
        "batch": 0,
    }
    made: Any = connection.execute(insert(processes).values(fields)).inserted_primary_key
    return made[0], 0


def _upsert(table: Table, engine: Engine) -> str:
    """SQL for rows in the order of the columns; a later one of the same request or attempt replaces an earlier one."""
    kind: Any = {"postgresql": postgresql, "sqlite": sqlite}[engine.dialect.name]
    put = kind.insert(table)
    others = {column.name: put.excluded[column.name] for column in table.columns if not column.primary_key}
    said = put.on_conflict_do_update(index_elements=list(table.primary_key.columns), set_=others)
    return str(said.compile(engine, column_keys=list(table.columns.keys())))
