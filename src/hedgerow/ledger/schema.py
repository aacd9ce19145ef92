"""The tables, the same in SQLite and PostgreSQL. `migrations` makes them; docs/ledger.md describes them."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, MetaData, SmallInteger, Table, Text, text

metadata: Final = MetaData()
VERSION_TABLE: Final = "ledger_version"
"""Which migration the tables have come to."""

_BIG: Final = BigInteger().with_variant(Integer(), "sqlite")


def _columns(kind: Any, *names: str) -> list[Column[Any]]:
    """Columns that may be empty."""
    return [Column(name, kind) for name in names]


def _key(name: str, kind: Any) -> Column[Any]:
    return Column(name, kind, primary_key=True, autoincrement=False)


def _filled(kind: Any, *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


def _tokens() -> list[Column[Any]]:
    names = "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"
    return _columns(_BIG, *names)


def _sums() -> list[Column[Any]]:
    """What hourly rows count."""
    return [
        *_filled(_BIG, *(column.name for column in _tokens())),
        *_filled(_BIG, "exact_nanousd", "estimated_nanousd", "at_least_nanousd", "unpriced"),
        *_filled(Text, "first_token_us", "total_us"),
    ]


processes: Final = Table(
    "processes",
    metadata,
    Column("process", Integer, primary_key=True),
    *_filled(Text, "key", "host"),
    *_filled(Integer, "pid"),
    *_filled(Text, "version"),
    *_filled(_BIG, "started_at", "seen_at"),
    *_columns(_BIG, "ended_at"),
    *_filled(_BIG, "batch"),
    Index("processes_key", "key", unique=True),
    sqlite_autoincrement=True,
)
"""The gateway processes that have written here; `batch` is the last of each that is in the tables."""

requests: Final = Table(
    "requests",
    metadata,
    _key("process", Integer),
    _key("number", _BIG),
    *_filled(Text, "request_id", "route", "protocol"),
    *_filled(Boolean, "stream"),
    *_columns(Text, "model"),
    *_filled(Text, "tenant"),
    *_columns(Text, "arm"),
    *_filled(Text, "outcome"),
    *_columns(SmallInteger, "status"),
    *_columns(Text, "error_class"),
    *_filled(Integer, "attempts", "hedges"),
    *_columns(Integer, "winner"),
    *_columns(Text, "winner_target", "winner_role"),
    *_columns(Text, "hedge_reason", "hedge_detail", "failover_reason", "failover_detail", "gate"),
    *_filled(Integer, "repeats"),
    *_filled(_BIG, "started_at"),
    *_columns(_BIG, "first_token_at", "ended_at", "billed_at", "unhedged_at"),
    *_tokens(),
    *_columns(Text, "token_source", "certainty"),
    *_columns(_BIG, "cost_nanousd", "least_nanousd", "most_nanousd", "extra_nanousd"),
    Index("requests_started", "started_at"),
    Index("requests_id", "request_id"),
    sqlite_with_rowid=False,
)
Index(
    "requests_open",
    requests.c.process,
    sqlite_where=text("billed_at IS NULL"),
    postgresql_where=text("billed_at IS NULL"),
)

attempts: Final = Table(
    "attempts",
    metadata,
    _key("process", Integer),
    _key("number", _BIG),
    _key("attempt", Integer),
    *_filled(Text, "target"),
    *_columns(Text, "model"),
    *_filled(Text, "role", "outcome"),
    *_columns(Boolean, "stream"),
    *_columns(SmallInteger, "status"),
    *_columns(Text, "error_class", "error", "finish_reason", "service_tier", "verdict", "gate", "gate_detail"),
    *_columns(_BIG, "rescued_after"),
    *_filled(_BIG, "launched_at"),
    *_columns(_BIG, "sent_at", "headers_at", "first_token_at", "ended_at", "received_bytes"),
    *_tokens(),
    *_columns(Text, "token_source", "certainty"),
    *_columns(_BIG, "cost_nanousd", "least_nanousd", "most_nanousd"),
    sqlite_with_rowid=False,
)

contents: Final = Table(
    "contents",
    metadata,
    _key("process", Integer),
    _key("number", _BIG),
    _key("attempt", Integer),
    *_filled(Text, "part", "content"),
    *_filled(_BIG, "size"),
    *_filled(Boolean, "truncated"),
)
"""Prompts and answers, where they are kept. Long rows: unlike the other tables, one with row ids in SQLite."""

hours: Final = Table(
    "hours",
    metadata,
    _key("hour", _BIG),
    *_filled(_BIG, "version", "rolled", "pruned"),
    sqlite_with_rowid=False,
)
"""Hours that have rows. `version` counts what was written to it; `rolled` is the one that is in the hourly tables, and
with `pruned` (1) rows of requests and attempts are deleted that these still count."""

request_hours: Final = Table(
    "request_hours",
    metadata,
    _key("hour", _BIG),
    _key("route", Text()),
    _key("stream", Boolean()),
    *(_key(name, Text()) for name in ("outcome", "tenant", "arm", "winner_target", "winner_role", "hedge_reason")),
    *_filled(_BIG, "requests", "attempts", "hedges"),
    *_sums(),
    *_filled(_BIG, "extra_nanousd"),
    sqlite_with_rowid=False,
)

attempt_hours: Final = Table(
    "attempt_hours",
    metadata,
    _key("hour", _BIG),
    _key("route", Text()),
    _key("stream", Boolean()),
    *(_key(name, Text()) for name in ("outcome", "target", "model", "role", "error_class")),
    *_filled(_BIG, "attempts"),
    *_sums(),
    sqlite_with_rowid=False,
)
