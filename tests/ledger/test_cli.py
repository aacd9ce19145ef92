"""`hedgerow ledger`: what it prints and writes, over both databases."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sqlalchemy import select

from hedgerow.cli import main
from hedgerow.extras import install
from hedgerow.ledger import read
from hedgerow.ledger.record import PROMPT, Content, Part
from hedgerow.ledger.schema import requests
from hedgerow.ledger.store import migrate, open_store
from hedgerow.ledger.tables import HOUR, Tables
from hedgerow.ledger.timeline import usd
from hedgerow.ledger.upkeep import Upkeep
from tests.ledger.support import EPOCH, MICRO, batches, bill, hello, records, told
from tests.ledger.test_rows import hedged

NOW = int(EPOCH) * MICRO
DAY = datetime.fromtimestamp(EPOCH, UTC).date().isoformat()
ESTIMATED = (
    "10 tokens in, 20 tokens out (reported), cost $0.00000007 (estimated: $0.00 to $0.0000005),"
    " because it was broken off"
)
OTHERS = "of that $0.00000007 added by hedging"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """The command line: exit code, standard output and error."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            main(["ledger", *map(str, arguments)])
        out, err = capfdbinary.readouterr()
        assert isinstance(ended.value.code, int)
        return ended.value.code, out.decode(), err.decode()

    return call


SAID = (
    Content(1, PROMPT, Part.PROMPT, b'{"say": "a, \\"b\\""}\r\n\n', 22),
    Content(1, 1, Part.ANSWER, "ü\x1b[2J\0 and so".encode(), 100),
)


def fill(url: str, *events: Any, key: str = "k", epoch: float = EPOCH, contents: Sequence[Content] = ()) -> str:
    engine = open_store(url, writes=True)
    migrate(engine)
    tables = Tables(engine, hello(url, key), NOW)
    told_of = [*records(*events, epoch=epoch), *contents]
    tables.write(batches(*told_of), NOW)
    reader = open_store(url)
    Upkeep(engine, reader).sum_up(NOW + 5 * HOUR)
    reader.dispose()
    engine.dispose()
    return url


@pytest.fixture
def filled(url: str) -> str:
    """One hedged request and two that were not."""
    return fill(url, *hedged(), *told("r2", 4000.0), *told("r3", 4001.0), contents=SAID)


def test_a_cost_that_is_not_whole_says_why(url: str, run: Run) -> None:
    """One attempt has no price, two are under way, of one its gateway died; and one more has a cost."""
    fill(url, *told("r1", bills=[bill(nanousd=None)]), *told("r2"))
    fill(url, *list(told("dead"))[:3], key="dead")
    engine = open_store(url, writes=True)
    Upkeep(engine, engine).find_lost(NOW + HOUR)
    tables = Tables(engine, hello(url, "lives"), NOW)
    tables.write(batches(*records(*list(hedged())[:6], *list(told("r5"))[:4])), NOW)
    engine.dispose()
    _, out, _ = run("summary", "--since", DAY, "--ledger", url)
    unknown = "attempts is not known and not counted:"
    assert [line for line in out.splitlines() if line.startswith("fast: ")] == [
        f"fast: the cost of 1 {unknown} their targets have no price for them (targets.<name>.price, server.prices)",
        f"fast: the cost of 1 {unknown} their gateway died before it knew",
        f"fast: the cost of 3 {unknown} they are under way",
    ]


def test_one_request_is_shown_as_a_story(filled: str, run: Run) -> None:
    code, out, _ = run("show", "r1", "--ledger", filled)
    assert code == 0
    assert [line.split(maxsplit=2)[0::2] for line in out.splitlines()[1:-2]] == [
        ["0.000", "request    openai_chat, a stream asked of route fast, arm hedged"],
        ["0.000", "attempt 0  launched as primary at target primary"],
        ["100.000", "attempt 0  answered 200"],
        ["2000.000", "attempt 1  launched as hedge at target backup"],
        ["2100.000", "attempt 1  answered 200"],
        ["2500.000", f"attempt 0  superseded, {ESTIMATED}"],
        ["2500.000", "attempt 1  first token"],
        ["3000.000", "attempt 1  won, 10 tokens in, 20 tokens out (reported), cost $0.00000003"],
        ["3000.000", "request    won by backup (hedge), status 200"],
    ]  # fmt: skip
    assert [line.strip() for line in out.splitlines()[-2:]] == [
        "no (further) hedge: budget (0 of 10)",
        f"cost $0.0000001 (estimated: $0.00000003 to $0.00000053), {OTHERS}",
    ]


def test_what_was_asked_and_answered_is_shown_where_it_is_kept(filled: str, run: Run) -> None:
    assert "prompt" not in run("show", "r1", "--ledger", filled)[1]
    shown = run("show", "r1", "--content", "--ledger", filled)[1]
    asked = 'prompt (22 bytes):\n{"say": "a, \\"b\\""}\ufffd\n\n\n'
    assert shown.endswith(asked + "answer of attempt 1 (100 bytes, cut off):\nü\ufffd[2J and so\n")
    other = run("show", "r2", "--content", "--ledger", filled)[1]
    assert other.endswith("what was asked and answered is not kept (server.ledger.content)\n")


def test_a_request_that_is_not_there_says_so(filled: str, run: Run) -> None:
    code, _, err = run("show", "nobody", "--ledger", filled)
    assert (code, "there is no request nobody in the ledger" in err) == (1, True)


def test_routes_are_summed_up(filled: str, run: Run) -> None:
    code, out, _ = run("summary", "--since", DAY, "--ledger", filled)
    assert code == 0
    lines = [line.split() for line in out.splitlines() if line.strip()]
    assert lines[0] == ["route", "requests", "won", "hedged", "wins", "p50", "p99", "cost", "extra"]
    assert lines[2] == ["fast", "3", "100.0%", "33.3%", "100.0%", "0.2s", "2.51s", "$0.0000021", "3.4%"]
    assert out.splitlines()[-1] == "fast: 3.3% of the cost is an estimate or a lower bound"
    assert run("summary", "--since", "2020-01-01", "--until", "2020-01-02", "--ledger", filled)[1] == (
        "no requests in that time\n"
    )


@pytest.mark.parametrize(
    ("what", "count"), [("requests", 3), ("attempts", 4), ("contents", 2), ("request-hours", 2), ("attempt-hours", 3)]
)
def test_exports_hold_the_same_in_each_format(filled: str, run: Run, tmp_path: Path, what: str, count: int) -> None:
    with read.ledger(filled) as ledger:
        pages = getattr(ledger, what.replace("-", "_"))()
        wanted = [{name: getattr(row, name) for name in row.__struct_fields__} for page in pages for row in page]
    assert len(wanted) == count
    code, out, err = run("export", "--what", what, "--ledger", filled)
    assert (code, err) == (0, f"\r{count} {what}\n")
    rows = list(csv.DictReader(io.StringIO(out)))
    shown = [{key: _as_csv(value) for key, value in row.items()} for row in wanted]
    assert rows == shown
    lines, packed = tmp_path / "rows.jsonl", tmp_path / "rows.parquet"
    assert run("export", "--what", what, "-o", lines, "--ledger", filled)[0] == 0
    assert [json.loads(line) for line in lines.read_text().splitlines()] == json.loads(json.dumps(wanted))
    assert run("export", "--what", what, "-o", packed, "--ledger", filled)[0] == 0
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT * FROM '{packed}'").fetchall()
    plain = [
        [json.dumps(v, separators=(",", ":")) if isinstance(v, dict) else v for v in row.values()] for row in wanted
    ]
    assert [[value if value != "" else None for value in row] for row in found] == [
        [value if value != "" else None for value in row] for row in plain
    ]


def _as_csv(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case dict():
            return json.dumps({str(key): count for key, count in value.items()}, separators=(",", ":"))
        case _:
            return str(value)


def test_an_export_is_of_the_time_that_was_asked_for(url: str, run: Run) -> None:
    fill(url, *told("old"))
    fill(url, *told("new"), key="other", epoch=time.time() - 1800)
    for since, until, names in (
        ("1h", None, ["new"]),
        (None, "1h", ["old"]),
        (DAY, "2h", ["old"]),
        (None, None, ["old", "new"]),
    ):
        bounds = [*(["--since", since] if since else []), *(["--until", until] if until else [])]
        out = run("export", *bounds, "--ledger", url)[1]
        assert [row["request_id"] for row in csv.DictReader(io.StringIO(out))] == names


def test_pruning_deletes_what_is_old_and_leaves_its_sums(url: str, run: Run) -> None:
    fill(url, *told("old"))
    fill(url, *told("new"), key="other", epoch=time.time())
    assert run("prune", "--older-than", "1d", "--ledger", url)[:2] == (0, "deleted 1 requests and their attempts\n")
    with read.ledger(url) as ledger:
        assert [row.request_id for page in ledger.requests() for row in page] == ["new"]
        assert sum(row.requests for page in ledger.request_hours() for row in page) == 1


def test_the_ledger_is_that_of_the_configuration(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    how = (
        "name the gateway's configuration (--config FILE) or a database "
        "(--ledger sqlite:////var/lib/hedgerow-ledger.db, --ledger postgresql://host/name)\n"
    )
    neither = f"hedgerow: there is neither hedgerow.yaml nor hedgerow-ledger.db in this folder: {how}"
    assert run("show", "r1") == (2, "", neither)
    fill("sqlite:///hedgerow-ledger.db", *told("r0"))
    assert run("show", "r0")[0] == 0
    fill(f"sqlite:///{tmp_path}/mine.db", *told("r1"))
    targets = {"targets": {"a": {"base_url": "http://a.example/v1"}}, "routes": {"r": {"targets": ["a"]}}}
    file = tmp_path / "hedgerow.yaml"
    file.write_text(json.dumps({**targets, "server": {"ledger": {"url": "sqlite:///mine.db"}}}))
    assert run("show", "r1")[0] == 0
    file.write_text(json.dumps(targets))
    assert run("show", "r1")[2] == f"hedgerow: hedgerow.yaml keeps no ledger (server.ledger): {how}"
    file.write_text(json.dumps({**targets, "server": {"ledger": True}}))
    monkeypatch.chdir(tmp_path.parent)
    assert run("show", "r0", "--config", file)[0] == 0  # beside the configuration, wherever it is asked from


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export", "--since", "yesterday"], "--since yesterday: expected a time such as 24h (ago), 2026-12-01"),
        (["export", "--format", "parquet"], "Parquet goes into a file"),
        (["prune", "--older-than", "soon"], "--older-than soon: expected a duration such as 7d"),
    ],
)
def test_what_cannot_be_meant_says_what_can(run: Run, tmp_path: Path, arguments: list[str], said: str) -> None:
    url = fill(f"sqlite:///{tmp_path}/l.db", *told("r1"))
    code, _, err = run(*arguments, "--ledger", url)
    assert (code, said in err) == (2, True)


def test_an_export_that_fails_leaves_what_was_there(
    filled: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "rows.parquet"
    kept.write_text("kept")
    monkeypatch.setitem(sys.modules, "duckdb", None)
    code, _, err = run("export", "-o", kept, "--ledger", filled)
    assert (code, err) == (1, f"hedgerow: Parquet needs duckdb: {install('planner')}\n")
    assert run("export", "-o", tmp_path / "rows.csv", "--since", "soon", "--ledger", filled)[0] == 2
    assert (kept.read_text(), [each.name for each in tmp_path.glob("rows*")]) == ("kept", ["rows.parquet"])


def test_a_file_that_cannot_be_written_is_named(filled: str, run: Run, tmp_path: Path) -> None:
    there = tmp_path / "no" / "rows.csv"
    said = f"hedgerow: {there}: cannot be written: No such file or directory\n"
    assert run("export", "-o", there, "--ledger", filled)[::2] == (2, said)
    assert run("export", "-o", "/dev/full", "--ledger", filled)[::2] == (
        1,
        "hedgerow: /dev/full: No space left on device\n",
    )


@pytest.mark.parametrize("command", [["summary"], ["prune", "--older-than", "1d"], ["show", "r1"]])
@pytest.mark.parametrize("fault", ["locked", "broken", "no tables"])
def test_a_fault_of_the_database_is_one_line(run: Run, tmp_path: Path, command: list[str], fault: str) -> None:
    file = tmp_path / "l.db"
    url = fill(f"sqlite:///{file}", *told("r1"))
    with sqlite3.connect(file) as other:
        if fault == "locked":
            other.execute("PRAGMA journal_mode=DELETE")
            other.execute("PRAGMA locking_mode=EXCLUSIVE")
            other.execute("BEGIN EXCLUSIVE")
        if fault == "no tables":
            other.execute("DROP TABLE hours")
            other.execute("DROP TABLE requests")
        if fault == "broken":
            file.write_bytes(file.read_bytes()[:4096] + b"x" * 20_000)
        code, _, err = run(*command, "--ledger", url)
        other.rollback()
    assert (code, len(err.splitlines())) == (1, 1)
    assert err.startswith("hedgerow: the ledger cannot be ")


@contextmanager
def nobody() -> Iterator[None]:
    """Where the tests run as root, who may write everywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(65534, 65534, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def test_a_ledger_in_a_folder_that_may_not_be_written_to_can_be_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        url = fill(f"sqlite:///{folder}/l #1.db", *told("r1"))
        (folder / "l #1.db").chmod(0o444)
        folder.chmod(0o555)
        with nobody():
            engine = open_store(url)
            with engine.connect() as connection:
                found = connection.execute(select(requests.c.request_id)).scalars().all()
            engine.dispose()
        folder.chmod(0o755)
    assert found == ["r1"]


PAGE = Path(__file__).parents[2] / "docs" / "ledger.md"
QUESTIONS = [
    each.strip()
    for block in re.findall(r"^```sql\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for each in block.split(";")
    if each.strip()
]


@pytest.mark.parametrize("query", QUESTIONS, ids=[each.split("\n")[0][:40] for each in QUESTIONS])
def test_the_questions_of_the_page_are_answered_in_both_databases(filled: str, query: str) -> None:
    if filled.startswith("postgresql"):
        day, said = "date(r.started_at / 1000000, 'unixepoch')", "to_timestamp(r.started_at / 1e6)::date"
        assert f"`{said}`" in PAGE.read_text()
        query = query.replace(day, said)
    engine = open_store(filled)
    with engine.connect() as connection:
        rows = [tuple(row) for row in connection.exec_driver_sql(query)]
    engine.dispose()
    if "not_exact_usd" in query:
        found = [(str(row[0]), *map(float, row[2:])) for row in rows]
        assert found == [(DAY, 2e-6, 0.0, 0.0), (DAY, 1e-7, 7e-8, 0.0)]
    if "AS wins" in query:
        assert [tuple(map(float, row[1:])) for row in rows] == [pytest.approx((1 / 3, 1.0, 70 / 2030))]
    assert rows or "failed" in query


def test_a_file_that_is_no_database_says_so(run: Run, tmp_path: Path) -> None:
    (tmp_path / "l.db").write_text("not a database, and long enough to be seen as none" * 100)
    code, _, err = run("summary", "--ledger", f"sqlite:///{tmp_path}/l.db")
    assert (code, err) == (1, "hedgerow: the ledger cannot be read: file is not a database\n")


@pytest.mark.parametrize(
    ("nano", "shown"), [(0, "$0.00"), (1, "$0.000000001"), (1_230_000_000, "$1.23"), (-5 * 10**8, "-$0.50")]
)
def test_money_is_shown_to_the_last_nano_dollar(nano: int, shown: str) -> None:
    assert usd(nano) == shown
