"""What is told of how a log was read: columns that are of no use, times that cannot be read, words for failures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from hedgerow.planner.columns import Column
from hedgerow.planner.read_files import File

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NAMED = 12
"""Columns not taken that are named."""
_UNREAD = (
    ("unread", ("time", "times"), "2026-11-30T10:00:00Z or as a Unix time"),
    ("odd", ("latency", "latencies"), "0.532 or 532ms"),
)
_SHOWN = 40
"""Letters of what cannot be read that are shown."""


def left(file: File, names: Sequence[str], mapped: Mapping[str, Column]) -> Iterator[str]:
    """What was not found, or found to be of no use."""
    used = {column.name for column in mapped.values()}
    if others := [name for name in names if name not in used]:
        more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
        yield f"of no use here, as far as their names tell: the columns {', '.join(others[:_NAMED])}{more}"
    if "target" not in mapped:
        yield f"target is the file's name, {stem(file)}, as no column is known to name one (--map target=COLUMN)"


def stem(file: File) -> str:
    """What a target is called that only the file names."""
    return file.path.name.split(".")[0] if file.name != "standard input" else "all"


def empty(database: DuckDBPyConnection) -> set[str]:
    """Fields of which no row says anything."""
    of = {"cost": "usd"} | {name: name for name in ("endpoint", "request", "input_tokens", "output_tokens")}
    counts = database.execute(f"select {', '.join(f'count({column})' for column in of.values())} from rows").fetchone()
    return {field for field, count in zip(of, counts or (), strict=False) if not count}


def unread(database: DuckDBPyConnection) -> Iterator[str]:
    """How many times and latencies cannot be read, and how the first looks."""
    for column, (one, several), how in _UNREAD:
        asked = f"select count({column}), arg_min({column}, rowid) from rows"
        count, first = database.execute(asked).fetchone() or (0, None)
        if count:
            shown = f"{first[:_SHOWN]}..." if len(first) > _SHOWN else first
            many = f"1 {one}" if count == 1 else f"{count:,} {several}"
            yield f"{many} cannot be read, such as {shown!r}: write them as {how}"


def failures(database: DuckDBPyConnection) -> Iterator[str]:
    """What the log calls them, most of it first."""
    words = database.execute(
        "select word, count(*) from rows where state = 'failed' group by 1 order by 2 desc, 1 limit 6"
    ).fetchall()
    if words:
        shown = ", ".join(f"{word} ({count:,})" for word, count in words[:5])
        yield f"taken as failures: {shown}{', ...' if len(words) > 5 else ''}"
