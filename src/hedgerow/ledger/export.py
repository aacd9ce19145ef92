"""Rows of a ledger as CSV, lines of JSON or Parquet, in one pass and little memory."""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO, Final, Literal

import msgspec
from sqlalchemy import BigInteger, Boolean, Table

from hedgerow.errors import LedgerError
from hedgerow.extras import install
from hedgerow.ledger.read import Ledger
from hedgerow.ledger.rows import AttemptHour, AttemptRow, ContentRow, RequestHour, RequestRow
from hedgerow.ledger.schema import attempt_hours, attempts, contents, request_hours, requests

Format = Literal["csv", "jsonl", "parquet"]
Row = RequestRow | AttemptRow | ContentRow | RequestHour | AttemptHour
WHAT: Final[dict[str, tuple[Table, type[Row]]]] = {
    "requests": (requests, RequestRow),
    "attempts": (attempts, AttemptRow),
    "contents": (contents, ContentRow),
    "request-hours": (request_hours, RequestHour),
    "attempt-hours": (attempt_hours, AttemptHour),
}
"""What can be exported, by what it is called."""

_LINE: Final = 64 << 20
"""Bytes that a row may have as CSV: the longest answer that is kept, every quotation mark of it doubled, is half."""

Pages = Iterable[Sequence[Row]]


def pages(ledger: Ledger, what: str, since: int | None, until: int | None) -> Iterator[Sequence[Row]]:
    """The rows of one kind, page by page."""
    return getattr(ledger, what.replace("-", "_"))(since, until)  # type: ignore[no-any-return]


def export(source: Pages, what: str, form: Format, out: BinaryIO, progress: Callable[[int], None]) -> int:
    """Write all rows to `out`; returns how many. `progress` is told how many there are so far.

    Parquet has to go into a file, and needs its package (`need`).
    """
    counted = _counted(source, progress)
    match form:
        case "csv":
            return _csv(counted, what, out)
        case "jsonl":
            return _lines(counted, out)
        case "parquet":
            return _parquet(counted, what, out)


def _counted(source: Pages, progress: Callable[[int], None]) -> Iterator[Sequence[Row]]:
    done = 0
    for page in source:
        yield page
        done += len(page)
        progress(done)


def _csv(source: Pages, what: str, out: BinaryIO) -> int:
    """Empty is what is not known; histograms are JSON."""
    text = io.TextIOWrapper(out, "utf-8", newline="", write_through=True)
    writer = csv.writer(text)
    names = WHAT[what][1].__struct_fields__
    writer.writerow(names)
    count = 0
    for page in source:
        writer.writerows([_cell(getattr(row, name)) for name in names] for row in page)
        count += len(page)
    text.detach()
    return count


def _cell(value: Any) -> Any:
    match value:
        case bool():
            return str(value).lower()
        case dict():
            return msgspec.json.encode(value).decode()
        case _:
            return value


def _lines(source: Pages, out: BinaryIO) -> int:
    count = 0
    for page in source:
        out.write(msgspec.json.Encoder().encode_lines(page))
        count += len(page)
    return count


def need(form: Format) -> None:
    """See that what a form needs is installed. Raises `LedgerError`."""
    if form == "parquet" and find_spec("duckdb") is None:
        raise LedgerError(f"Parquet needs duckdb: {install('planner')}")


def _parquet(source: Pages, what: str, out: BinaryIO) -> int:
    """By way of a CSV file beside it, which DuckDB reads and packs without holding it."""
    import duckdb

    with tempfile.TemporaryDirectory(dir=Path(out.name).parent) as folder:
        rows, packed = Path(folder) / "rows.csv", Path(folder) / "rows.parquet"
        with rows.open("wb") as file:
            count = _csv(source, what, file)
        table, kind = WHAT[what]
        columns = {name: _kind(table, name) for name in kind.__struct_fields__}
        try:
            with duckdb.connect() as connection:
                found = connection.read_csv(str(rows), header=True, columns=columns, max_line_size=_LINE)
                found.write_parquet(str(packed))
        except duckdb.Error as error:
            raise LedgerError(f"{out.name}: DuckDB cannot write it: {str(error).splitlines()[0]}") from None
        with packed.open("rb") as file:
            while piece := file.read(1 << 20):
                out.write(piece)
    return count


def _kind(table: Table, name: str) -> str:
    """Of a column, as DuckDB has it."""
    kind = table.columns[name].type
    if isinstance(kind, Boolean):
        return "BOOLEAN"
    return "BIGINT" if isinstance(kind, BigInteger) or kind.python_type is int else "VARCHAR"
