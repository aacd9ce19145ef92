"""The database behind a ledger: how it is opened and brought to this version's tables, or what is wrong with it.

SQLite is opened in WAL mode with `synchronous=NORMAL`: a process may be killed at any moment, a machine may lose power,
and the file is whole; the last transactions may be missing after the latter, never after the former.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from sqlalchemy import Engine, create_engine, event, inspect, text
from sqlalchemy.engine import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError

from hedgerow.errors import LedgerError
from hedgerow.extras import install
from hedgerow.ledger.schema import VERSION_TABLE

LOCK_PATIENCE: Final = 2.0
"""Seconds that somebody else may keep SQLite's lock, or a PostgreSQL may take to be reached."""
_MIGRATIONS: Final = Path(__file__).parent / "migrations"
_LOCK: Final = 0x68656467  # "hedg": of PostgreSQL's advisory locks


def open_store(url: str, *, writes: bool = False) -> Engine:
    """The database, unseen yet. Raises `LedgerError` for a URL that means none. `writes`: it may be made."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        raise LedgerError("that is no URL of a ledger; sqlite:///hedgerow-ledger.db is one") from None
    if parsed.get_backend_name() == "sqlite":
        return _sqlite(parsed, writes=writes)
    if parsed.get_backend_name() != "postgresql":
        raise LedgerError("a ledger is in SQLite or PostgreSQL; no other database is known")
    try:
        import psycopg  # noqa: F401  # whether it can be imported is what is asked
    except ModuleNotFoundError:
        raise LedgerError(f"a ledger in PostgreSQL needs psycopg: {install('postgres')}") from None
    arguments = {"connect_timeout": int(LOCK_PATIENCE), "application_name": "hedgerow-ledger"}
    return create_engine(parsed.set(drivername="postgresql+psycopg"), connect_args=arguments, paramstyle="format")


def shown(url: str) -> str:
    """The URL without its password."""
    try:
        return make_url(url).render_as_string(hide_password=True)
    except ArgumentError:
        return "(no URL)"


def _sqlite(url: URL, *, writes: bool) -> Engine:
    if not writes and (url.database is None or not Path(url.database).exists()):
        raise LedgerError(f"there is no ledger at {url.database}; a gateway with server.ledger writes one")
    engine = create_engine(
        url if writes else _readable(url), connect_args={"timeout": LOCK_PATIENCE, "check_same_thread": False}
    )

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # the driver would begin transactions of its own, and too late
        if writes:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        # A transaction that first reads and then writes cannot wait for another's lock: take it at once.
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _readable(url: URL) -> URL:
    """For one who may not write where it lies: SQLite would have to make a file beside it, even for reading.

    Without a log of what is not yet in the file (`-wal`) nobody is writing, and it can be read as it is.
    """
    path = Path(url.database or "")
    if os.access(path.parent, os.W_OK) and os.access(path, os.W_OK):
        return url
    log = path.with_name(f"{path.name}-wal")
    how = {"mode": "ro"} if log.exists() and log.stat().st_size else {"immutable": "1"}
    return URL.create("sqlite", database=f"file:{quote(str(path.absolute()))}", query={**how, "uri": "true"})


@contextmanager
def asked(done: str) -> Iterator[None]:
    """What a database says against being read, or pruned, becomes a `LedgerError`."""
    try:
        yield
    except DBAPIError as error:
        hint = "; it can be read by whoever may write into its folder" if "unable to open" in why(error) else ""
        raise LedgerError(f"the ledger cannot be {done}: {why(error)}{hint}") from None
    except SQLAlchemyError as error:
        raise LedgerError(f"the ledger cannot be {done}: {str(error).splitlines()[0]}") from None


def migrate(engine: Engine) -> None:
    """Bring the tables to this version, however many processes try at once. Raises `LedgerError` for a later one."""
    from alembic import command
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    config = Config()
    config.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    script = ScriptDirectory.from_config(config)
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        here = version(connection)
        if here == script.get_current_head():
            return
        _refuse_later(here, [each.revision for each in script.walk_revisions()])
        config.attributes["connection"] = connection
        command.upgrade(config, "head")


def version(connection: Connection) -> str | None:
    """The version of the tables; None where there are none."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()  # noqa: S608  # a name of ours


def check(engine: Engine) -> None:
    """See that the tables are those of this version. Raises `LedgerError`."""
    from alembic.script import ScriptDirectory

    script = ScriptDirectory(str(_MIGRATIONS))
    with engine.connect() as connection:
        here = version(connection)
    if here is None:
        raise LedgerError(f"{engine.url.render_as_string(hide_password=True)} holds no ledger")
    _refuse_later(here, [each.revision for each in script.walk_revisions()])
    if here != script.get_current_head():
        raise LedgerError(f"the ledger has the tables of an earlier version ({here}); a gateway brings it up to date")


def _refuse_later(here: str | None, known: list[str]) -> None:
    if here is not None and here not in known:
        raise LedgerError(
            f"the ledger was written by a later version of hedgerow (its tables are {here}, known are {known[0]} and "
            "earlier): upgrade hedgerow, or name another ledger"
        )


def why(error: DBAPIError) -> str:
    """A fault of the database in few words, without its statement and values."""
    return " ".join(str(error.orig).split())[:300]
