"""Databases for the ledger's tests: each gets both, a fresh SQLite file and a fresh database in a real PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from sqlalchemy import Engine

from hedgerow.ledger.store import migrate, open_store
from tests.ledger.postgres_server import PostgresServer, needs_postgres

_numbers = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One for all tests."""
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=needs_postgres)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of an empty database, of either kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/ledger.db"
    server: PostgresServer = request.getfixturevalue("postgres")
    return server.fresh(f"ledger{next(_numbers)}")


@pytest.fixture
def engine(url: str) -> Iterator[Engine]:
    """Of an empty ledger."""
    engine = open_store(url, writes=True)
    migrate(engine)
    yield engine
    engine.dispose()
