"""Recorded latencies: what is read from a CSV file, and what is said when it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from hedgerow.errors import ConfigError
from hedgerow.lab.recorded import read_times

TABLE = "run,status,ttft_ms,total_s\na,ok,100,1.5\na,error,,2\nb,ok,250.5,3\na,ok,NaN,4\na,ok,50,5\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "times.csv"
    path.write_text(TABLE)
    return path


def test_a_column_is_read_in_order_without_its_gaps(table: Path) -> None:
    assert read_times(table, "ttft_ms") == pytest.approx([0.1, 0.2505, 0.05])


def test_a_column_named_in_seconds_is_in_seconds(table: Path) -> None:
    assert read_times(table, "total_s") == [1.5, 2, 3, 4, 5]


def test_rows_must_pass_every_condition(table: Path) -> None:
    assert read_times(table, "total_s", ["run=a", "status=ok"]) == [1.5, 4, 5]


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    path = tmp_path / "bom.csv"
    path.write_bytes(b"\xef\xbb\xbfttft_ms\r\n20\r\n")
    assert read_times(path, "ttft_ms") == pytest.approx([0.02])


@pytest.mark.parametrize(
    ("text", "column", "where", "message"),
    [
        (TABLE, "ttft", (), "has no column 'ttft'; its columns are run, status, ttft_ms, total_s"),
        (TABLE, "ttft_ms", ("ran=a",), "has no column 'ran'; its columns are run, status"),
        (TABLE, "ttft_ms", ("run",), "where: expected COLUMN=VALUE, e.g. status=ok; got 'run'"),
        (TABLE, "ttft_ms", ("run=c",), "column 'ttft_ms' has no times in the rows where run=c"),
        (TABLE, "run", (), ":2: column 'run' holds 'a'; expected a time, a number from 0 up"),
        ("ttft_ms\n5\n-1\n", "ttft_ms", (), ":3: column 'ttft_ms' holds '-1'"),
        ("ttft_ms\ninf\n", "ttft_ms", (), ":2: column 'ttft_ms' holds 'inf'"),
        ("ttft_ms\n", "ttft_ms", (), "column 'ttft_ms' has no times"),
        ("", "ttft_ms", (), "is empty; expected a header row"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(
    tmp_path: Path, text: str, column: str, where: tuple[str, ...], message: str
) -> None:
    path = tmp_path / "times.csv"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        read_times(path, column, where)
    assert message in str(raised.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.csv: cannot be read: No such file"):
        read_times(tmp_path / "gone.csv", "ttft_ms")


def test_a_file_that_is_not_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_bytes(b"ttft_ms\n\xff\xfe\n")
    with pytest.raises(ConfigError, match="is not a CSV file in UTF-8"):
        read_times(path, "ttft_ms")
