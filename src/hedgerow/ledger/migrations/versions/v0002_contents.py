"""Prompts and answers, where a ledger keeps them."""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision: Final = "0002"
down_revision: Final = "0001"

_BIG: Final = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Make their table."""
    op.create_table(
        "contents",
        *(
            sa.Column(name, kind, primary_key=True, autoincrement=False)
            for name, kind in (("process", sa.Integer()), ("number", _BIG), ("attempt", sa.Integer()))
        ),
        sa.Column("part", sa.Text, nullable=False),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("size", _BIG, nullable=False),
        sa.Column("truncated", sa.Boolean, nullable=False),
    )
