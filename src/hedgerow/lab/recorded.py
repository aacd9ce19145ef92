"""Recorded latencies: a column of a CSV file with a header row."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path

from hedgerow.errors import ConfigError

COLUMN = "ttft_ms"
"""The column with the times unless another is named."""
NO_FILE = "column, where: choose from recorded times, and there are none without `latencies`"
"""The problem with naming a column or rows of no file."""

_MISSING = frozenset({"", "-", "na", "n/a", "nan", "none", "null"})


def read_times(path: Path, column: str, where: Sequence[str] = ()) -> list[float]:
    """The column's times in seconds, in file order.

    A column whose name ends in "_s" or "_seconds" is in seconds, any other in milliseconds. Rows that fail a `where`
    ("column=value", all must hold) and rows with an empty or missing-value cell are left out. Raises ConfigError,
    naming the file and what is wrong, also for a cell that is neither a time nor missing.
    """
    tests = [_condition(text) for text in where]
    scale = 1.0 if column.endswith(("_s", "_seconds")) else 0.001
    times: list[float] = []
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            _check_columns(path, rows.fieldnames, [column, *(name for name, _ in tests)])
            for row in rows:
                if all(row[name] == value for name, value in tests):
                    cell = (row[column] or "").strip()
                    if cell.lower() not in _MISSING:
                        times.append(_time(path, rows.line_num, column, cell) * scale)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise ConfigError([f"{path}: is not a CSV file in UTF-8: {error}"]) from error
    if not times:
        of = f" in the rows where {' and '.join(where)}" if where else ""
        raise ConfigError([f"{path}: column {column!r} has no times{of}"])
    return times


def _condition(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise ConfigError([f"where: expected COLUMN=VALUE, e.g. status=ok; got {text!r}"])
    return name, value


def _check_columns(path: Path, present: Sequence[str] | None, wanted: Sequence[str]) -> None:
    if not present:
        raise ConfigError([f"{path}: is empty; expected a header row and one row per request"])
    for name in wanted:
        if name not in present:
            raise ConfigError([f"{path}: has no column {name!r}; its columns are {', '.join(present)}"])


def _time(path: Path, line: int, column: str, cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise ConfigError([f"{path}:{line}: column {column!r} holds {cell!r}; expected a time, a number from 0 up"])
    return value
