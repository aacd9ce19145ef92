"""Reading a ledger: rows of a range of time as typed records, in batches, however many there are.

    from hedgerow.ledger import read

    with read.ledger("sqlite:///hedgerow-ledger.db") as ledger:
        for batch in ledger.requests(since=1_780_000_000_000_000):
            for row in batch:
                print(row.request_id, row.outcome, row.cost_nanousd)

A gateway may go on writing meanwhile. Times are Unix microseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from sqlalchemy import ColumnElement, Engine, Select, Table, and_, select, tuple_

from hedgerow.ledger.rows import AttemptHour, AttemptRow, ContentRow, RequestHour, RequestRow
from hedgerow.ledger.schema import attempt_hours, attempts, contents, request_hours, requests
from hedgerow.ledger.store import asked, check, open_store

BATCH: Final = 2_000
"""Rows that are read at once."""

Row = TypeVar("Row")


class Ledger:
    """A ledger to be read. Ranges hold requests that started at `since` or later and before `until`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def requests(
        self, since: int | None = None, until: int | None = None, *, where: Sequence[ColumnElement[bool]] = ()
    ) -> Iterator[list[RequestRow]]:
        """Requests in the order of their start. `where`: conditions on `schema.requests`."""
        key = (requests.c.started_at, requests.c.process, requests.c.number)
        query = select(requests).where(*between(requests.c.started_at, since, until), *where)
        return self._pages(query, key, lambda row: RequestRow(*row))

    def attempts(
        self, since: int | None = None, until: int | None = None, *, where: Sequence[ColumnElement[bool]] = ()
    ) -> Iterator[list[AttemptRow]]:
        """The attempts of those requests, in the order of the requests' start. `where` may be on both tables."""
        return self._of_requests(attempts, AttemptRow, since, until, where)

    def contents(
        self, since: int | None = None, until: int | None = None, *, where: Sequence[ColumnElement[bool]] = ()
    ) -> Iterator[list[ContentRow]]:
        """The prompts and answers of those requests, where they are kept; `where` may be on both tables."""
        return self._of_requests(contents, ContentRow, since, until, where)

    def request_hours(self, since: int | None = None, until: int | None = None) -> Iterator[list[RequestHour]]:
        """What is summed up of requests. An hour is there some minutes after its end."""
        return self._hours(request_hours, RequestHour, since, until)

    def attempt_hours(self, since: int | None = None, until: int | None = None) -> Iterator[list[AttemptHour]]:
        """What is summed up of attempts."""
        return self._hours(attempt_hours, AttemptHour, since, until)

    def _of_requests(
        self,
        table: Table,
        kind: Callable[..., Row],
        since: int | None,
        until: int | None,
        where: Sequence[ColumnElement[bool]],
    ) -> Iterator[list[Row]]:
        """Rows of a table that has some for each request, in the order of the requests' start."""
        key = (requests.c.started_at, table.c.process, table.c.number, table.c.attempt)
        same = and_(table.c.process == requests.c.process, table.c.number == requests.c.number)
        query = select(table, requests.c.started_at.label("started_at")).select_from(requests.join(table, same))
        within = between(requests.c.started_at, since, until)
        return self._pages(query.where(*within, *where), key, lambda row: kind(*row[:-1]))

    def _hours(
        self, table: Table, kind: Callable[..., Row], since: int | None, until: int | None
    ) -> Iterator[list[Row]]:
        query = select(table).where(*between(table.c.hour, since, until))
        return self._pages(query, tuple(table.primary_key.columns), lambda row: kind(**_histograms(dict(row._mapping))))

    def _pages(
        self, query: Select[Any], key: tuple[ColumnElement[Any], ...], made: Callable[[Any], Row]
    ) -> Iterator[list[Row]]:
        """Page by page, each its own transaction: a long reading must not keep what it reads from being tidied."""
        names = [str(each.key) for each in key]
        page = query.order_by(*key).limit(BATCH)
        after: ColumnElement[bool] | None = None
        while True:
            with self.engine.connect() as connection:
                rows = connection.execute(page if after is None else page.where(after)).all()
            if rows:
                yield [made(row) for row in rows]
            if len(rows) < BATCH:
                return
            after = tuple_(*key) > tuple_(*(rows[-1]._mapping[name] for name in names))


@contextmanager
def ledger(url: str) -> Iterator[Ledger]:
    """Raises `LedgerError` where there is none, or its database cannot be asked."""
    engine = open_store(url)
    try:
        with asked("read"):
            check(engine)
            yield Ledger(engine)
    finally:
        engine.dispose()


def between(column: ColumnElement[int], since: int | None, until: int | None) -> list[ColumnElement[bool]]:
    """What a time has to meet to be within."""
    bounds = [] if since is None else [column >= since]
    return bounds if until is None else [*bounds, column < until]


def _histograms(fields: dict[str, Any]) -> dict[str, Any]:
    for name in ("first_token_us", "total_us"):
        fields[name] = {int(low): count for low, count in json.loads(fields[name]).items()}
    return fields
