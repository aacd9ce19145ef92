"""The first tables."""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0001"
down_revision: Final = None

_BIG: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_TOKENS: Final = "input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens"
_COST: Final = "cost_nanousd", "least_nanousd", "most_nanousd"
_SUMS: Final = *_TOKENS, "exact_nanousd", "estimated_nanousd", "at_least_nanousd", "unpriced"


def upgrade() -> None:
    """Make them."""
    op.create_table(
        "processes",
        sa.Column("process", sa.Integer, primary_key=True),
        *_filled(sa.Text, "key", "host"),
        *_filled(sa.Integer, "pid"),
        *_filled(sa.Text, "version"),
        *_filled(_BIG, "started_at", "seen_at"),
        *_maybe(_BIG, "ended_at"),
        *_filled(_BIG, "batch"),
        sqlite_autoincrement=True,
    )
    op.create_index("processes_key", "processes", ["key"], unique=True)
    _requests()
    _attempts()
    _hours()


def _requests() -> None:
    op.create_table(
        "requests",
        _key("process", sa.Integer),
        _key("number", _BIG),
        *_filled(sa.Text, "request_id", "route", "protocol"),
        *_filled(sa.Boolean, "stream"),
        *_maybe(sa.Text, "model"),
        *_filled(sa.Text, "tenant"),
        *_maybe(sa.Text, "arm"),
        *_filled(sa.Text, "outcome"),
        *_maybe(sa.SmallInteger, "status"),
        *_maybe(sa.Text, "error_class"),
        *_filled(sa.Integer, "attempts", "hedges"),
        *_maybe(sa.Integer, "winner"),
        *_maybe(sa.Text, "winner_target", "winner_role"),
        *_maybe(sa.Text, "hedge_reason", "hedge_detail", "failover_reason", "failover_detail", "gate"),
        *_filled(sa.Integer, "repeats"),
        *_filled(_BIG, "started_at"),
        *_maybe(_BIG, "first_token_at", "ended_at", "billed_at", "unhedged_at", *_TOKENS),
        *_maybe(sa.Text, "token_source", "certainty"),
        *_maybe(_BIG, *_COST, "extra_nanousd"),
        sqlite_with_rowid=False,
    )
    op.create_index("requests_started", "requests", ["started_at"])
    op.create_index("requests_id", "requests", ["request_id"])
    still = sa.text("billed_at IS NULL")
    op.create_index("requests_open", "requests", ["process"], sqlite_where=still, postgresql_where=still)


def _attempts() -> None:
    op.create_table(
        "attempts",
        _key("process", sa.Integer),
        _key("number", _BIG),
        _key("attempt", sa.Integer),
        *_filled(sa.Text, "target"),
        *_maybe(sa.Text, "model"),
        *_filled(sa.Text, "role", "outcome"),
        *_maybe(sa.Boolean, "stream"),
        *_maybe(sa.SmallInteger, "status"),
        *_maybe(sa.Text, "error_class", "error", "finish_reason", "service_tier", "verdict", "gate", "gate_detail"),
        *_maybe(_BIG, "rescued_after"),
        *_filled(_BIG, "launched_at"),
        *_maybe(_BIG, "sent_at", "headers_at", "first_token_at", "ended_at", "received_bytes", *_TOKENS),
        *_maybe(sa.Text, "token_source", "certainty"),
        *_maybe(_BIG, *_COST),
        sqlite_with_rowid=False,
    )


def _hours() -> None:
    op.create_table("hours", _key("hour", _BIG), *_filled(_BIG, "version", "rolled", "pruned"), sqlite_with_rowid=False)

    def shared() -> list[sa.Column[Any]]:
        return [_key("hour", _BIG), _key("route", sa.Text), _key("stream", sa.Boolean), _key("outcome", sa.Text)]

    op.create_table(
        "request_hours",
        *shared(),
        *(_key(name, sa.Text) for name in ("tenant", "arm", "winner_target", "winner_role", "hedge_reason")),
        *_filled(_BIG, "requests", "attempts", "hedges", *_SUMS),
        *_filled(sa.Text, "first_token_us", "total_us"),
        *_filled(_BIG, "extra_nanousd"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "attempt_hours",
        *shared(),
        *(_key(name, sa.Text) for name in ("target", "model", "role", "error_class")),
        *_filled(_BIG, "attempts", *_SUMS),
        *_filled(sa.Text, "first_token_us", "total_us"),
        sqlite_with_rowid=False,
    )


def _key(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, primary_key=True, autoincrement=False)


def _filled(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=False) for name in names]


def _maybe(kind: Any, *names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind) for name in names]
