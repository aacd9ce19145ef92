"""Reads what people have, with DuckDB: CSV, JSON, Parquet, hedgerow's ledger, exports of systems that are known.

Rows that are of no use are counted by reason and never silently dropped. Memory is bounded: what does not fit waits in
a temporary folder, and only the columns that are needed are kept.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from hedgerow.errors import ConfigError
from hedgerow.extras import install
from hedgerow.planner.columns import DURATIONS, guessed, told
from hedgerow.planner.log import Log, printable
from hedgerow.planner.plan import Source
from hedgerow.planner.read_files import File, found
from hedgerow.planner.read_log import log_of, same_time
from hedgerow.planner.read_notes import empty, failures, left, stem, unread
from hedgerow.planner.read_rows import ROWS, Taken
from hedgerow.planner.read_shapes import GENERIC, shape_of
from hedgerow.planner.read_tables import Table, table, unreadable
from hedgerow.planner.read_units import Units

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

MEMORY = "1GB"
"""What DuckDB may use; the arrays of the log, some 80 bytes a row, come on top."""
THREADS = 4
"""More would need more memory: each has buffers for two of the longest rows."""
_SAME = "all rows have the same time, so they are taken in their order"
Progress = Callable[[str, float], object]
"""Told what is being read, and which share of all is done."""


def read(
    given: Sequence[str | Path],
    said: Sequence[str] = (),
    *,
    timezone: str = "UTC",
    progress: Progress | None = None,
    memory: str = MEMORY,
) -> tuple[Log, Source]:
    """One log from files, folders, patterns, `-` or URLs of ledgers, and what was taken for what.

    `said` as in `columns.guessed`; `timezone` is where times without one are from. Raises `ConfigError`, which says
    what is missing, or `LedgerError`.
    """
    with tempfile.TemporaryDirectory(prefix="hedgerow-") as name, _database(Path(name), timezone, memory) as database:
        reading = _Reading(database, Path(name), said, timezone, progress)
        files = found(given, Path(name))
        for number, file in enumerate(files):
            reading.take(file, number / len(files), 1 / len(files))
        try:
            log, started_at = log_of(database, reading.torn)
        except ConfigError as error:
            names = ", ".join(file.name for file in files)
            raise ConfigError([f"{names}: {each}" for each in (*error.problems, *unread(database))]) from None
        notes = (*reading.notes, *[_SAME] * same_time(database), *unread(database), *failures(database))
        nothing = empty(database)
    return replace(log, notes=notes), Source(
        files=tuple(printable(file.name) for file in files),
        format=" + ".join(reading.formats),
        columns=tuple((a, printable(b), c) for a, b, c in reading.columns if a not in nothing),
        read=log.read,
        used=len(log),
        bad=tuple(log.bad.items()),
        notes=tuple(map(printable, notes)),
        started_at=started_at,
        seconds=float(log.at[-1]) if log.timed else 0.0,
        of_first_token=log.of_first_token,
    )


@contextmanager
def _database(folder: Path, timezone: str, memory: str) -> Iterator[DuckDBPyConnection]:
    try:
        import duckdb
    except ImportError:
        raise ConfigError([f"reading logs needs DuckDB: {install('planner')}"]) from None
    threads = min(os.cpu_count() or 1, THREADS)
    spilled = str(folder / "spilled")
    with duckdb.connect(config={"memory_limit": memory, "temp_directory": spilled, "threads": threads}) as database:
        try:
            database.execute("set timezone = ?", [timezone])
        except duckdb.Error:
            raise ConfigError([f"{timezone} is no time zone; Europe/Berlin is one"]) from None
        database.execute("set enable_progress_bar = true")
        database.execute("set enable_progress_bar_print = false")
        database.execute(ROWS)
        yield database


class _Reading:
    """Takes file after file into the table `rows`."""

    def __init__(
        self,
        database: DuckDBPyConnection,
        folder: Path,
        said: Sequence[str],
        timezone: str,
        progress: Progress | None,
    ) -> None:
        self._database, self._folder, self._said, self._timezone = database, folder, said, timezone
        self._progress = progress
        self.torn = 0
        # as dictionaries, since they keep an order and nothing twice
        self.notes: dict[str, None] = {}
        self.formats: dict[str, None] = {}
        self.columns: dict[tuple[str, str, str], None] = {}

    def take(self, file: File, done: float, share: float) -> None:
        """All rows of one file; `done` and `share` are its place in the whole."""
        import duckdb

        name = file.name
        if file.kind == "ledger":
            share /= 2
            file = self._dumped(file, lambda part: self._tell(name, done + part * share))
            done += share
        content = table(self._database, file)
        try:
            taken = self._taken(file, content)
            before = self._rejected()
            self._insert(taken.query(), lambda part: self._tell(name, done + part * share))
        except duckdb.Error as error:
            raise unreadable(file, error) from None
        self.torn += self._rejected() - before
        self.formats[f"{taken.shape.name} ({file.kind})" if taken.shape.name else file.kind] = None
        for field, column in taken.columns.items():
            self.columns[field, column.name, column.words(field)] = None
        self.notes.update(dict.fromkeys(taken.shape.notes))

    def _tell(self, what: str, share: float) -> None:
        if self._progress is not None:
            self._progress(what, share)

    def _dumped(self, file: File, tell: Callable[[float], None]) -> File:
        from hedgerow.planner.read_ledger import dumped

        path = self._folder / "ledger.csv"
        dumped(file.url, path, tell)
        return file._replace(path=path, kind="CSV")

    def _taken(self, file: File, content: Table) -> Taken:
        names = list(content.columns)
        shape = shape_of(file.name, names)
        if shape is GENERIC:
            mapped = guessed(names, self._said)
        else:
            own = told(names, self._said)
            mapped = {**shape.fields, **own}
            shape = replace(shape, instead={name: sql for name, sql in shape.instead.items() if name not in own})
        if not mapped.keys() & {*DURATIONS} and not ("at" in mapped and mapped.keys() & {"first", "end"}):
            there = ", ".join(names) or "no rows with names"
            what = (
                "Its first line should name them" if any(map(_is_number, names)) else "Say which: --map ttft=COLUMN:ms"
            )
            missing = f"{file.name}: no column of it is a latency; it has {there}. {what}"
            raise ConfigError([missing])
        if shape is GENERIC:
            self.notes.update(dict.fromkeys(left(file, names, mapped)))
        fallback = "all" if "target" in mapped else stem(file)
        units = Units(self._database, content, mapped, self._timezone)
        self.notes.update(dict.fromkeys(units.notes))
        return Taken(content, shape, units.columns, fallback)

    def _insert(self, query: str, tell: Callable[[float], None]) -> None:
        """Run it, in a thread of its own where somebody wants to know how far it is."""
        statement = f"insert into rows {query}"
        if self._progress is None:
            self._database.execute(statement)
            return
        failed: list[Exception] = []

        def run() -> None:
            try:
                self._database.execute(statement)
            except Exception as error:
                failed.append(error)

        tell(share := 0.0)
        thread = Thread(target=run)
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.1)
                share = max(share, self._database.query_progress() / 100)  # -1 where there is nothing to be said
                tell(share)
        finally:
            if thread.is_alive():
                self._database.interrupt()
            thread.join()
        if failed:
            raise failed[0]

    def _rejected(self) -> int:
        """Lines of CSV files that DuckDB could not make a row of, by its own record of them."""
        import duckdb

        try:
            asked = "select count(*) from (select distinct scan_id, file_id, line from reject_errors)"
            return int((self._database.execute(asked).fetchone() or (0,))[0])
        except duckdb.CatalogException:  # no CSV was read
            return 0


def _is_number(name: str) -> bool:
    return name.replace(".", "", 1).isdigit()
