"""What files a log is made of, how they are packed, where their times are from, and how much memory they take."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import numpy as np
import pytest
from backports import zstd

from hedgerow.errors import ConfigError
from hedgerow.planner.log import TORN
from hedgerow.planner.read import read

ROWS = "at,model,ttft_s\n1,a,0.5\n2,b,0.25\n"
LINES = '{"at": 1, "model": "a", "ttft_s": 0.5}\n{"at": 2, "model": "b", "ttft_s": 0.25}\n'


@pytest.mark.parametrize(
    "text", [ROWS, LINES, LINES.replace("}\n{", "},\n{").join("[]")], ids=["csv", "lines", "array"]
)
@pytest.mark.parametrize(
    ("name", "packed"),
    [
        ("a", bytes),
        ("a.gz", gzip.compress),
        ("a.json", lambda data: b"\xef\xbb\xbf" + data),
        ("a.zst", zstd.compress),
        ("misnamed.csv", zstd.compress),
    ],
)
def test_files_are_told_by_what_is_in_them(
    tmp_path: Path, text: str, name: str, packed: Callable[[bytes], bytes]
) -> None:
    (tmp_path / name).write_bytes(packed(text.encode()))
    log, _ = read([tmp_path / name])
    assert list(log.ttft) == [0.5, 0.25]
    assert list(log.targets) == ["a", "b"]


def test_tabs_and_semicolons(tmp_path: Path) -> None:
    for name, mark in (("a.tsv", "\t"), ("a.csv", ";")):
        (tmp_path / name).write_text(ROWS.replace(",", mark))
        assert list(read([tmp_path / name])[0].ttft) == [0.5, 0.25]


def test_a_folder_and_a_pattern_are_all_their_logs(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "second.csv.gz").write_bytes(gzip.compress(b"ttft_s,at\n0.75,3\n"))
    (tmp_path / "first.csv").write_text("at,ttft_s\n1,0.5\n")
    (tmp_path / "README.md").write_text("not a log")
    (tmp_path / ".hidden.csv").write_text("not a log either")
    for given in (tmp_path, f"{tmp_path}/**/*.csv*"):
        log, source = read([given])
        assert list(log.ttft) == [0.5, 0.75]
        assert list(log.targets) == ["first", "second"]  # where no column says so, each file is one
        assert source.files == (f"{tmp_path}/first.csv", f"{tmp_path}/more/second.csv.gz")


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"at,ttft_s\n1,0.5\n")))
    log, source = read(["-"])
    assert (list(log.ttft), list(log.targets), source.files) == ([0.5], ["all"], ("standard input",))


def test_what_is_not_taken_is_named(tmp_path: Path) -> None:
    (tmp_path / "day.csv").write_text("at,ttft_s,Upstream Name,shade\n1,0.5,a,red\n")
    notes = read([tmp_path / "day.csv"])[1].notes
    assert "of no use here, as far as their names tell: the columns Upstream Name, shade" in notes
    assert "target is the file's name, day, as no column is known to name one (--map target=COLUMN)" in notes
    (tmp_path / "day.csv").write_text("at,ttft_s,target\n1,0.5,a\n")
    assert read([tmp_path / "day.csv"])[1].notes == ("`at` is taken as seconds, by the size of its numbers",)


def test_files_of_several_kinds_are_one_log(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("at,model,ttft_ms\n2,a,500\n")
    (tmp_path / "b.jsonl").write_text(
        '{"sent_at": 1, "meta": {"model": "b"}, "usage": {"prompt_tokens": 7}, "ttft": 2}\n'
    )
    duckdb.sql(
        f"copy (select timestamp '1970-01-01 00:00:03' as start_time, 'c' as model, 0.5 as ttft_s) "
        f"to '{tmp_path}/c.parquet'"
    )
    log, source = read([tmp_path])
    assert list(log.at) == [0.0, 1.0, 2.0]
    assert list(log.ttft) == [2.0, 0.5, 0.5]
    assert [log.targets[each] for each in log.target] == ["b", "a", "c"]
    assert list(log.input_tokens) == [7, 0, 0]
    assert source.format == "CSV + JSON lines + Parquet"
    assert ("input_tokens", "usage.prompt_tokens", "tokens") in source.columns
    assert "`ttft` is taken as seconds, by the size of its numbers" in source.notes


def test_lines_that_are_torn_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(LINES + '{"at": 3, "ttft_s": 0.\n[1]\n\n{"at": 4, "ttft_s": "soon"}\n')
    _, source = read([tmp_path / "a.jsonl"])
    assert (source.read, source.used) == (5, 2)
    assert dict(source.bad) == {TORN: 2, "no latency, or none that is a number": 1}


@pytest.mark.parametrize(
    ("written", "timezone", "hour"),
    [
        ("2026-07-01 12:00:00", "UTC", 12),
        ("2026-07-01 12:00:00", "Europe/Berlin", 10),
        ("2026-07-01T12:00:00.000Z", "Europe/Berlin", 12),
        ("2026-07-01T12:00:00+0530", "Europe/Berlin", 6.5),
        ("1782907200", "Europe/Berlin", 12),
        ("1782907200000", "Europe/Berlin", 12),
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_times_are_where_they_say_or_where_one_says(
    tmp_path: Path, written: str, timezone: str, hour: float, form: str
) -> None:
    path = tmp_path / f"a.{form}"
    if form == "csv":
        path.write_text(f"time,ttft_s\n{written},0.5\n")
    else:
        naive = f"timestamp '{written}'" if len(written) == 19 else f"'{written}'"
        duckdb.sql(f"copy (select {naive} as time, 0.5 as ttft_s) to '{path}'")
    _, source = read([path], timezone=timezone)
    assert source.started_at == datetime(2026, 7, 1, tzinfo=UTC).timestamp() + hour * 3600
    naive_ones = "-" in written and len(written) == 19
    assert (f"times without a zone are taken as {timezone}" in source.notes) == naive_ones


def test_days_of_parquet_are_times(tmp_path: Path) -> None:
    duckdb.sql(f"copy (select date '2026-07-01' as date, 0.5 as ttft_s) to '{tmp_path}/a.parquet'")
    _, source = read([tmp_path / "a.parquet"])
    assert source.started_at == datetime(2026, 7, 1, tzinfo=UTC).timestamp()


def test_a_zone_that_there_is_not(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(ROWS)
    with pytest.raises(ConfigError, match="Nowhere is no time zone"):
        read([tmp_path / "a.csv"], timezone="Nowhere")


def test_values_may_have_units_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("start,latency\n+0.5s,350ms\n+1.5s,1.25s\n+2s,2 min\n")
    log, source = read([tmp_path / "a.csv"])
    assert list(log.at) == [0.0, 1.0, 1.5]
    assert list(log.ttft) == pytest.approx([0.35, 1.25, 120.0])
    assert source.started_at is None


@pytest.mark.parametrize(
    ("status", "ends"),
    [
        ("200", "ok"),
        ("200.0", "ok"),
        ("", "ok"),
        ("tool_calls", "ok"),
        ("True", "ok"),
        ("false", "failed"),
        ("500", "failed"),
        ("429", "failed"),
        ("408", "failed"),
        ("timeout", "failed"),
        ("400", "refused for what was asked (HTTP 4xx)"),
        ("http_400", "refused for what was asked (HTTP 4xx)"),
        ("HTTP 200", "ok"),
        ("404 Not Found", "refused for what was asked (HTTP 4xx)"),
        ("cancelled", "left by its caller before its first token"),
        ("499", "left by its caller before its first token"),
    ],
)
def test_how_a_request_ended(tmp_path: Path, status: str, ends: str) -> None:
    (tmp_path / "a.csv").write_text(f"at,latency_s,status\n1,0.5,ok\n2,0.7,{status}\n")
    log, source = read([tmp_path / "a.csv"])
    found = next(iter(dict(source.bad)), "failed" if log.failed.any() else "ok")
    assert found == ends


def test_an_error_without_a_status_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('at,latency_s,error\n1,0.5,\n2,0.7,"too slow"\n3,0.5,None\n')
    assert list(read([tmp_path / "a.csv"])[0].failed) == [False, True, False]


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "no log is in this folder; the names of logs end with csv"),
        ({"a.csv": "at,ttft_s\n"}, r"a\.csv: there are no rows in it"),
        ({"a.csv": "at,ttft_s\n1,-1\n2,x\n"}, r"none of the 2 rows can be used: a negative latency \(1\), no latency"),
        ({"a.csv": "at,ttft_s,status\n1,1,500\n"}, "no row has a latency to plan by: 1 are failures"),
        ({"a.json": "[[1, 2], [3, 4]]"}, "no column of it is a latency; it has no rows with names"),
        ({"a.json": '[{"a": 1}, {"a":'}, "cannot be read as JSON array"),
        ({"a.csv": "model,ttft_p50_ms,ttft_p99_ms\nm,1,2\n"}, "these rows are no attempts"),
        (
            {"a.csv": "ttft_s,target\n" + "".join(f"1,t{n}\n" for n in range(600))},
            "more than 500 targets, such as 't0'",
        ),
    ],
)
def test_what_cannot_be_used_says_why(tmp_path: Path, files: dict[str, str], says: str) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=says):
        read([tmp_path])


def test_a_file_that_is_broken_off_in_its_packing(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(ROWS.encode() * 9)[:20])
    with pytest.raises(ConfigError, match=r"a.csv.gz: cannot be unpacked: "):
        read([tmp_path / "a.csv.gz"])


def test_many_rows_in_little_memory_with_word_of_how_far_it_is(tmp_path: Path) -> None:
    """40,000 rows of which most is prompts: 320 MB where 250 MB may be used. It is packed, to be written quickly."""
    said = "words " * 1_330
    with zstd.open(tmp_path / "a.jsonl.zst", "wb") as file:
        for number in range(40_000):
            row = f'"timestamp": {1_800_000_000 - number}, "ttft_ms": {200 + number % 100}, "model": "m{number % 3}"'
            file.write(f'{{{row}, "messages": "{said}"}}\n'.encode())
    told: list[float] = []
    log, source = read([tmp_path / "a.jsonl.zst"], progress=lambda _, share: told.append(share), memory="250MB")
    assert (source.read, source.used, source.bad) == (40_000, 40_000, ())
    assert (np.diff(log.at) == 1.0).all()
    assert log.ttft[0] == pytest.approx(0.299)
    assert told == sorted(told)
    assert told[0] == 0.0
    assert told[-1] <= 1.0


def test_the_same_files_give_the_same_log(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    rows = [
        f"1,m{generator.integers(3)},{generator.random() + 0.1:.3f},r{generator.integers(99)}" for _ in range(20_000)
    ]
    (tmp_path / "a.csv").write_text("at,model,ttft_s,request_id\n" + "\n".join(rows) + "\n")
    first, second = (read([tmp_path / "a.csv"])[0] for _ in range(2))
    for column in ("at", "ttft", "target", "request"):
        assert (getattr(first, column) == getattr(second, column)).all()
    assert [f"{each:.3f}" for each in first.ttft] == [row.split(",")[2] for row in rows]  # in their order
