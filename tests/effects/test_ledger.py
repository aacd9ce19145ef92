"""The ledger's keys, each by what changes in the database or in memory."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hedgerow.errors import LedgerError
from hedgerow.lab.process import LabProcess
from hedgerow.ledger import read
from hedgerow.ledger.record import Hello
from hedgerow.ledger.rows import ContentRow, RequestRow
from hedgerow.ledger.store import migrate, open_store
from hedgerow.ledger.tables import HOUR, Tables
from hedgerow.ledger.upkeep import Upkeep
from tests.e2e.support import GatewayProcess, script, until
from tests.effects.support import WHOLE, Document, document, effect_of
from tests.ledger.support import batches, records, told

e2e = pytest.mark.e2e
QUICK = {"x-lab-script": script(ttft_ms=0, gap_ms=0, tokens=1)}
HANGS = {"x-lab-script": script(fault="hang")}


@pytest.fixture(scope="module")
def lab() -> Iterator[LabProcess]:
    with LabProcess() as lab:
        yield lab


def serve(lab: LabProcess, changes: dict[str, object]) -> GatewayProcess:
    base: Document = {
        "targets": {"a": {"base_url": lab.base_url}},
        "routes": {"fast": {"targets": ["a"]}},
        "server": {"listen": "127.0.0.1:0"},
    }
    return GatewayProcess(document(changes, base))


def post(gateway: GatewayProcess, headers: dict[str, str], *, wait: bool = True) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(*gateway.address, timeout=20)
    connection.request("POST", "/v1/chat/completions", WHOLE, headers)
    if wait:
        assert connection.getresponse().read()
    return connection


def rows(url: str) -> list[RequestRow]:
    with read.ledger(url) as ledger:
        return [row for batch in ledger.requests() for row in batch]


@e2e
@effect_of("server.ledger.url")
def test_what_happens_is_written_to_the_ledger(key: str, lab: LabProcess, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with serve(lab, {key: url}) as gateway:
        post(gateway, QUICK).close()
    [row] = rows(url)
    assert (row.route, row.outcome, row.status, row.winner_target) == ("fast", "won", 200, "a")


@e2e
@effect_of("server.ledger.flush")
@pytest.mark.parametrize(("flush", "soon"), [("20ms", True), ("1m", False)])
def test_a_request_under_way_is_written_after_so_long(
    key: str, lab: LabProcess, tmp_path: Path, flush: str, soon: bool
) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with serve(lab, {"server.ledger.url": url, key: flush}) as gateway:
        until(lambda: (tmp_path / "l.db").exists() and rows_or_none(url) is not None)
        hanging = post(gateway, HANGS, wait=False)
        post(gateway, QUICK).close()
        if soon:
            until(lambda: sorted(row.outcome for row in rows(url)) == ["open", "won"])
        else:
            assert rows(url) == []
        hanging.close()


def rows_or_none(url: str) -> list[RequestRow] | None:
    try:
        return rows(url)
    except LedgerError:
        return None


@e2e
@effect_of("server.ledger.content")
@pytest.mark.parametrize("kept", [True, False])
def test_prompts_are_kept(key: str, lab: LabProcess, tmp_path: Path, kept: bool) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with serve(lab, {"server.ledger.url": url, key: kept}) as gateway:
        post(gateway, QUICK).close()
    assert [row.content for row in contents(url)[:1]] == [WHOLE.decode()] * kept


@e2e
@effect_of("server.ledger.content_bytes")
def test_prompts_are_kept_up_to_so_many_bytes(key: str, lab: LabProcess, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    with serve(lab, {"server.ledger.url": url, "server.ledger.content": True, key: "1KiB"}) as gateway:
        connection = http.client.HTTPConnection(*gateway.address, timeout=20)
        connection.request("POST", "/v1/chat/completions", WHOLE + b" " * 1024, QUICK)
        assert connection.getresponse().read()
        connection.close()
    [prompt, _] = contents(url)
    assert (len(prompt.content), prompt.size, prompt.truncated) == (1024, len(WHOLE) + 1024, True)


def contents(url: str) -> list[ContentRow]:
    with read.ledger(url) as ledger:
        return [row for batch in ledger.contents() for row in batch]


def old_ledger(path: Path, hours_ago: int) -> str:
    """A ledger whose only request is so old; it is summed up."""
    url = f"sqlite:///{path}/l.db"
    engine = open_store(url, writes=True)
    migrate(engine)
    now = time.time_ns() // 1000
    hello = Hello(url, "old", "h", 1, "1", None, None)
    tables = Tables(engine, hello, now)
    tables.write(batches(*records(*told("r1"), epoch=(now - hours_ago * HOUR) / 1e6)), now)
    reader = open_store(url)
    Upkeep(engine, reader).look(tables.process, hello, now)
    reader.dispose()
    engine.dispose()
    return url


@e2e
@effect_of("server.ledger.keep")
@pytest.mark.parametrize(("keep", "left"), [("2h", 0), ("30h", 1)])
def test_rows_are_kept_so_long(key: str, lab: LabProcess, tmp_path: Path, keep: str, left: int) -> None:
    url = old_ledger(tmp_path, 10)
    with serve(lab, {"server.ledger.url": url, key: keep, "server.ledger.keep_hourly": "off"}) as gateway:
        post(gateway, QUICK).close()
        until(lambda: len(rows(url)) == left + 1)
    with read.ledger(url) as ledger:
        assert [row.requests for batch in ledger.request_hours() for row in batch] == [1]


@e2e
@effect_of("server.ledger.keep_hourly")
@pytest.mark.parametrize(("keep", "left"), [("3h", 0), ("30h", 1)])
def test_sums_are_kept_so_long(key: str, lab: LabProcess, tmp_path: Path, keep: str, left: int) -> None:
    url = old_ledger(tmp_path, 10)

    def sums() -> int:
        with read.ledger(url) as ledger:
            return sum(map(len, ledger.request_hours()))

    with serve(lab, {"server.ledger.url": url, "server.ledger.keep": "2h", key: keep}):
        until(lambda: rows(url) == [])
        until(lambda: sums() == left)


@e2e
@effect_of("server.ledger.queue")
@pytest.mark.parametrize(("queue", "lost"), [("1MiB", True), ("64MiB", False)])
def test_so_much_waits_while_the_database_is_away(key: str, lab: LabProcess, queue: str, lost: bool) -> None:
    nobody = "postgresql://127.0.0.1:9/none"
    with serve(lab, {"server.ledger.url": nobody, key: queue}) as gateway:
        connection = http.client.HTTPConnection(*gateway.address, timeout=20)
        for _ in range(2000):  # more than 600 bytes each
            connection.request("POST", "/v1/chat/completions", WHOLE, QUICK)
            connection.getresponse().read()
        connection.close()
        until(lambda: "ledger: cannot be written" in gateway.log)
        if lost:
            until(lambda: "fills the queue" in gateway.log)
        assert ("fills the queue" in gateway.log) is lost
