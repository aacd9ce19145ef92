"""A ledger's attempts as a file of CSV: what the planner needs of them, and no more."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import func, select

from hedgerow.ledger.schema import attempts
from hedgerow.ledger.store import asked, check, open_store

BATCH = 10_000
"""Rows that are read at once."""
_NEEDED = (
    "process",
    "number",
    "attempt",
    "target",
    "role",
    "outcome",
    "stream",
    "error_class",
    "launched_at",
    "first_token_at",
    "ended_at",
    "input_tokens",
    "output_tokens",
    "cost_nanousd",
)


def dumped(url: str, path: Path, tell: Callable[[float], object]) -> None:
    """Write them to `path`, and tell which share is done. Raises `LedgerError`.

    In one transaction, unlike other readers: it takes seconds, and so no row is told twice or not at all.
    """
    engine = open_store(url)
    try:
        with asked("read"), path.open("w", newline="") as file, engine.connect() as connection:
            check(engine)
            whole = connection.execute(select(func.count()).select_from(attempts)).scalar_one()
            key = attempts.primary_key.columns
            query = select(*(attempts.c[name] for name in _NEEDED)).order_by(*key)
            writer = csv.writer(file)
            writer.writerow(_NEEDED)
            found = connection.execution_options(yield_per=BATCH).execute(query)
            for number, rows in enumerate(found.partitions(), 1):
                writer.writerows(rows)
                tell(min(number * BATCH / whole, 1.0))
    finally:
        engine.dispose()
