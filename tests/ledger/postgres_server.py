"""A PostgreSQL of the tests' own."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest


def _program(name: str) -> str | None:
    """On the path, or where Debian has it."""
    debian = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return shutil.which(name) or (str(debian[-1]) if debian else None)


INITDB, PG_CTL = _program("initdb"), _program("pg_ctl")
MEMORY, NEEDED = "/dev/shm", 4 << 30  # the folder is made with a random name, for its owner
needs_postgres = pytest.mark.skipif(
    INITDB is None or PG_CTL is None, reason="PostgreSQL is not installed: apt-get install postgresql"
)


def _other_user() -> dict[str, Any]:
    """PostgreSQL will not run as root."""
    if os.getuid():
        return {}
    names = {each.pw_name for each in pwd.getpwall()}
    return {"user": "postgres" if "postgres" in names else "nobody", "extra_groups": []}


def _place() -> str | None:
    """In memory where there is much: each database has some hundred files, which a busy disk is slow to remove."""
    return MEMORY if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free > NEEDED else None


class PostgresServer:
    """On a Unix socket in a folder of its own; nothing survives it, so it need not sync. A context manager."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pg", dir=_place())  # the path of a socket must be short
        self._as = _other_user()
        if "user" in self._as:
            shutil.chown(self._folder.name, self._as["user"])
        assert INITDB is not None
        data = f"{self._folder.name}/data"
        self._run(INITDB, "-D", data, "-U", "tester", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        self.start()

    def url(self, database: str = "postgres") -> str:
        """Of one of its databases."""
        return f"postgresql://tester@/{database}?host={self._folder.name}"

    def fresh(self, name: str) -> str:
        """The URL of a new database."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def start(self) -> None:
        """Start it (again), with what it has."""
        options = f"-c listen_addresses='' -k {self._folder.name} -c fsync=off"
        self._control("-w", "-l", f"{self._folder.name}/log", "-o", options, "start")

    def stop(self) -> None:
        """Stop it at once; clients lose their connections."""
        self._control("-w", "-m", "immediate", "stop")

    def _control(self, *arguments: str) -> None:
        assert PG_CTL is not None
        self._run(PG_CTL, "-D", f"{self._folder.name}/data", *arguments)

    def _run(self, *command: str) -> None:
        subprocess.run(command, cwd=self._folder.name, check=True, stdout=subprocess.DEVNULL, timeout=60, **self._as)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        self._folder.cleanup()
