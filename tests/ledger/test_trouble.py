"""A database that cannot be written to: requests are answered all the same, and nothing is lost that finds room."""

from __future__ import annotations

import http.client
import re
import resource
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text

from hedgerow.lab.process import LabProcess
from hedgerow.ledger.schema import VERSION_TABLE
from hedgerow.ledger.store import open_store, version
from tests.e2e.support import GatewayProcess, chat, config, script, until
from tests.ledger.postgres_server import PostgresServer, needs_postgres
from tests.ledger.test_kill import _rows, assert_sound, ledger, writer_of

pytestmark = pytest.mark.e2e

QUICK = {"x-lab-script": script(ttft_ms=0, gap_ms=0, tokens=1)}
TROUBLE = "ledger: cannot be written: "
BETTER = "ledger: is written again; 0 records were lost"


@pytest.fixture(scope="module")
def lab() -> Iterator[LabProcess]:
    with LabProcess() as lab:
        yield lab


def gateway(lab: LabProcess, url: str, *, ready: bool = True) -> GatewayProcess:
    served = GatewayProcess(config(lab.base_url, server={"ledger": {"url": url, "flush": "50ms"}}))
    if ready:
        until(lambda: _rows(url) is not None, within=30)
    return served


def ask(served: GatewayProcess, first: int, count: int) -> None:
    """So many requests, one after the other, each answered and none kept waiting by the ledger."""
    connection = http.client.HTTPConnection(*served.address, timeout=20)
    for number in range(first, first + count):
        headers = {**QUICK, "x-hedgerow-request-id": f"n{number}"}
        connection.request("POST", "/v1/chat/completions", chat(), headers)
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
    connection.close()


def names(url: str) -> list[str]:
    requests, attempts = ledger(url)
    assert len(attempts) >= len(requests)  # read after them, and more may have come
    return [row.request_id for row in requests]


def expected(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def test_a_locked_database_is_waited_for(lab: LabProcess, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with gateway(lab, url) as served:
        ask(served, 0, 10)
        until(lambda: len(names(url)) == 10)
        with sqlite3.connect(tmp_path / "l.db", isolation_level=None) as locking:
            locking.execute("BEGIN IMMEDIATE")
            ask(served, 10, 10)
            until(lambda: TROUBLE + "database is locked (kept in memory and tried again)" in served.log)
            ask(served, 20, 10)
            assert len(names(url)) == 10
            locking.execute("ROLLBACK")
        locking.close()
        until(lambda: BETTER in served.log)
        until(lambda: names(url) == expected(30))


def test_a_full_disk_is_waited_for(lab: LabProcess, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with gateway(lab, url) as served:
        ask(served, 0, 10)
        until(lambda: len(names(url)) == 10)
        writer = writer_of(served)
        size = max(file.stat().st_size for file in tmp_path.iterdir())
        resource.prlimit(writer, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))  # no file may grow beyond that
        ask(served, 10, 300)
        until(lambda: TROUBLE in served.log)
        assert served.process.poll() is None
        resource.prlimit(writer, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        until(lambda: BETTER in served.log)
        until(lambda: names(url) == expected(310))
    assert_sound(url)


def test_a_file_that_may_not_be_written_to_says_so(lab: LabProcess, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    (tmp_path / "l.db").write_bytes(b"this is no database, whoever may have put it here" * 100)
    with gateway(lab, url, ready=False) as served:
        ask(served, 0, 5)
        until(lambda: TROUBLE + "file is not a database" in served.log)
        (tmp_path / "l.db").unlink()
        until(lambda: BETTER in served.log)
        until(lambda: names(url) == expected(5))


@needs_postgres
def test_a_postgresql_that_is_restarted_is_waited_for(lab: LabProcess) -> None:
    with PostgresServer() as server:
        url = server.fresh("ledger")
        with gateway(lab, url) as served:
            ask(served, 0, 10)
            until(lambda: len(names(url)) == 10)
            server.stop()
            ask(served, 10, 10)
            until(lambda: TROUBLE in served.log)
            server.start()
            until(lambda: BETTER in served.log)
            until(lambda: names(url) == expected(20))


def test_a_ledger_of_a_later_version_is_left_alone_and_said(lab: LabProcess, url: str) -> None:
    with gateway(lab, url):
        pass
    engine = open_store(url, writes=True)
    with engine.begin() as connection:
        ours = version(connection)
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9000'"))
    with gateway(lab, url, ready=False) as served:
        ask(served, 0, 5)
        until(lambda: TROUBLE + "the ledger was written by a later version of hedgerow" in served.log)
        with engine.begin() as connection:
            connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{ours}'"))
        until(lambda: BETTER in served.log)
        until(lambda: names(url) == expected(5))
    engine.dispose()


def test_a_gateway_that_stops_does_not_wait_for_ever_and_says_what_is_lost(lab: LabProcess) -> None:
    with gateway(lab, "postgresql://127.0.0.1:9/nobody", ready=False) as served:
        ask(served, 0, 5)
        until(lambda: TROUBLE in served.log)
        began = time.monotonic()
        assert served.stop() == 0
        assert time.monotonic() - began < 10
        lost = re.search(r"ledger: (\d+) records could not be written before the end and are lost", served.log)
        assert lost is not None
        assert 5 <= int(lost[1]) <= 10  # two of a request that is under way for longer than a flush
        assert "nobody" not in served.log.replace('database "nobody"', "")
