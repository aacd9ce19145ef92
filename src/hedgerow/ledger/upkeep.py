"""What a ledger needs besides being written: rows of dead processes ended, hours summed up, old rows deleted.

Several writers may share a database, and any may be killed at any moment. So each thing is done in one transaction, or
such that whoever comes next goes on where it stopped, and sums are only put down if nothing was written meanwhile.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Engine, Table, and_, case, delete, select, tuple_, update

from hedgerow.cost import Certainty
from hedgerow.ledger.record import Hello
from hedgerow.ledger.rollup import sums_of
from hedgerow.ledger.rows import LOST, OPEN
from hedgerow.ledger.schema import attempt_hours, attempts, contents, hours, processes, request_hours, requests
from hedgerow.ledger.tables import HOUR, hour_of, touch

GONE: Final = 60_000_000
"""Microseconds after which a process that shows no sign of life counts as dead. Each shows one every ten seconds."""
SETTLED: Final = 120_000_000
"""Microseconds after the end of an hour when it is first summed up; what comes later makes it be summed up again."""
STEP: Final = 5_000
"""Requests that are deleted in one transaction."""


class Upkeep:
    """Of one database. Raises what the database raises."""

    def __init__(self, engine: Engine, reader: Engine) -> None:
        """`reader` is for what takes a while and must not hold SQLite's lock."""
        self._engine = engine
        self._reader = reader

    def look(self, process: int, hello: Hello, now: int) -> None:
        """Do what there is to do, for this living process. `now` is in Unix microseconds."""
        with self._engine.begin() as connection:
            connection.execute(update(processes).where(processes.c.process == process).values(seen_at=now))
        self.find_lost(now)
        self.sum_up(now)
        if hello.keep is not None:
            self.prune(now - round(hello.keep * 1_000_000))
        if hello.keep_hourly is not None:
            self.prune_hourly(now - round(hello.keep_hourly * 1_000_000))

    def end(self, process: int, now: int) -> None:
        """The process has ended, and all that came of it is written: what is still open will never be more."""
        with self._engine.begin() as connection:
            _lose(connection, process, now)

    def find_lost(self, now: int) -> None:
        """End what processes have left open that died together with their writers."""
        silent = and_(processes.c.ended_at.is_(None), processes.c.seen_at < now - GONE)
        with self._engine.begin() as connection:
            for process in connection.execute(select(processes.c.process).where(silent)).scalars().all():
                _lose(connection, process, now)

    def sum_up(self, now: int) -> None:
        """Put down the sums of hours that are over and were written to since they were summed up."""
        due = and_(hours.c.version > hours.c.rolled, hours.c.pruned == 0, hours.c.hour < now - HOUR - SETTLED)
        with self._reader.connect() as connection:
            found = connection.execute(select(hours.c.hour, hours.c.version).where(due).order_by(hours.c.hour)).all()
        for hour, version in found:
            self._sum_up(hour, version)

    def _sum_up(self, hour: int, version: int) -> None:
        with self._reader.connect() as connection:
            sums = {table: sums_of(connection, table, hour) for table in (request_hours, attempt_hours)}
        same = and_(hours.c.hour == hour, hours.c.version == version, hours.c.pruned == 0)
        with self._engine.begin() as connection:
            if connection.execute(update(hours).where(same).values(rolled=version)).rowcount != 1:
                return  # written to meanwhile: next time
            for table, rows in sums.items():
                connection.execute(delete(table).where(table.c.hour == hour))
                if rows:
                    connection.execute(table.insert(), rows)

    def prune(self, before: int) -> int:
        """Delete requests and attempts of hours that ended before then and are summed up; how many requests."""
        over = hours.c.hour < before - HOUR
        still = select(requests.c.number).where(
            requests.c.billed_at.is_(None),
            requests.c.started_at >= hours.c.hour,
            requests.c.started_at < hours.c.hour + HOUR,
        )
        ready = and_(over, hours.c.pruned == 0, hours.c.rolled == hours.c.version, ~still.exists())
        with self._engine.begin() as connection:
            connection.execute(update(hours).where(ready).values(pruned=1))
            pruned = connection.execute(select(hours.c.hour).where(over, hours.c.pruned == 1)).scalars().all()
        return sum(self._delete(hour) for hour in pruned)

    def _delete(self, hour: int) -> int:
        """The rows of an hour, a step at a time."""
        within = requests.c.started_at >= hour, requests.c.started_at < hour + HOUR
        some = select(requests.c.process, requests.c.number).where(*within).limit(STEP)
        deleted = 0
        while True:
            with self._engine.begin() as connection:
                keys = [tuple(row) for row in connection.execute(some)]
                for table in (contents, attempts, requests):
                    _delete_keys(connection, table, keys)
            deleted += len(keys)
            if len(keys) < STEP:
                return deleted

    def prune_hourly(self, before: int) -> None:
        """Delete the sums of hours before then whose rows are gone."""
        with self._engine.begin() as connection:
            gone = select(hours.c.hour).where(hours.c.hour < before - HOUR, hours.c.pruned == 1)
            for table in (request_hours, attempt_hours):
                connection.execute(delete(table).where(table.c.hour.in_(gone)))


def _delete_keys(connection: Connection, table: Table, keys: list[tuple[int, int]]) -> None:
    for at in range(0, len(keys), 500):
        connection.execute(delete(table).where(tuple_(table.c.process, table.c.number).in_(keys[at : at + 500])))


def _lose(connection: Connection, process: int, now: int) -> None:
    """End what the process has left open: it will never be known how it went on, nor what more it cost."""
    open_ = and_(requests.c.process == process, requests.c.billed_at.is_(None))
    numbers = select(requests.c.number).where(open_)
    starts = set(connection.execute(select(requests.c.started_at).where(open_)).scalars())
    lost = {"certainty": Certainty.AT_LEAST.value}
    of_those = and_(attempts.c.process == process, attempts.c.number.in_(numbers))
    connection.execute(update(attempts).where(of_those).values(outcome=_ended(attempts), **lost))
    connection.execute(update(requests).where(open_).values(outcome=_ended(requests), billed_at=now, **lost))
    connection.execute(update(processes).where(processes.c.process == process).values(ended_at=now))
    touch(connection, {hour_of(each) for each in starts})


def _ended(table: Table) -> object:
    return case((table.c.outcome == OPEN, LOST), else_=table.c.outcome)
