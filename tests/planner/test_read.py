"""Logs as people have them: columns guessed and said, units, times, and rows that are of no use."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from math import nan
from pathlib import Path

import numpy as np
import pytest

from hedgerow.errors import ConfigError
from hedgerow.planner.columns import guessed
from hedgerow.planner.findings import findings_of
from hedgerow.planner.log import TORN, UNREAD
from hedgerow.planner.read import read
from hedgerow.planner.statistics import statistics_of
from hedgerow.planner.world import failing


def written(tmp_path: Path, text: str, name: str = "log.csv") -> list[Path]:
    (tmp_path / name).write_text(text)
    return [tmp_path / name]


def test_columns_are_found_by_name_and_unit(tmp_path: Path) -> None:
    log, source = read(
        written(
            tmp_path,
            "timestamp,model,ttft_ms,latency_ms,prompt_tokens,status\n"
            "2026-11-30T10:00:00Z,a,500,900,12,200\n"
            "2026-11-30T10:00:01Z,b,250,700,5000,200\n"
            "2026-11-30T09:59:59Z,a,1000,1500,7,500\n",
        )
    )
    assert ("ttft", "ttft_ms", "milliseconds") in source.columns
    assert (source.read, source.used, source.seconds, source.of_first_token) == (3, 3, 2.0, True)
    assert source.started_at == datetime(2026, 11, 30, 9, 59, 59, tzinfo=UTC).timestamp()
    assert list(log.at) == [0.0, 1.0, 2.0]
    assert list(log.failed) == [True, False, False]
    assert np.isnan(log.ttft[0])
    assert list(log.ttft[1:]) == [0.5, 0.25]
    assert list(log.input_tokens) == [7, 12, 5000]
    assert [log.targets[each] for each in log.target] == ["a", "a", "b"]
    assert (log.timed, log.of_first_token, log.read, dict(log.bad)) == (True, True, 3, {})


def test_every_bad_row_is_counted_by_its_reason(tmp_path: Path) -> None:
    rows = [
        "1,0.5,ok",
        "2,nan,ok",
        "3,-1,ok",
        "4,90000,ok",
        "5,,ok",
        "6,0.7,error",
        "7,1,2,3,4",
        ",0.5,ok",
        "8,soon,ok",
    ]
    log, _ = read(written(tmp_path, "at,ttft_s,status\n" + "\n".join(rows) + "\n"))
    assert len(log) == 2
    assert log.read == len(rows)
    assert dict(log.bad) == {
        "a latency of more than a day": 1,
        "a latency that is no number": 1,
        "a negative latency": 1,
        "no latency, or none that is a number": 2,
        "no time": 1,
        "a line that is not like the others": 1,
    }


def test_the_time_to_the_first_token_follows_from_three_points_in_time(tmp_path: Path) -> None:
    """As in LiteLLM's spend logs."""
    line = (
        '{"startTime": "2026-11-30T10:00:00Z", "completionStartTime": "2026-11-30T10:00:02Z", '
        '"endTime": "2026-11-30T10:00:05Z", "model": "gpt", "custom_llm_provider": "openai", "prompt_tokens": 9}\n'
    )
    log, _ = read(written(tmp_path, line * 3, "log.jsonl"))
    assert list(log.ttft) == [2.0, 2.0, 2.0]
    assert list(log.targets) == ["openai gpt"]


@pytest.mark.parametrize(
    ("numbers", "seconds"), [([200, 300, 90_000], 0.2), ([0.2, 0.3, 1.0], 0.2), ([2e8, 3e8, 9e10], 0.2)]
)
def test_a_duration_without_a_unit_is_told_by_its_size(tmp_path: Path, numbers: list[float], seconds: float) -> None:
    log, _ = read(written(tmp_path, "latency\n" + "\n".join(map(str, numbers)) + "\n"))
    assert log.ttft[0] == pytest.approx(seconds)
    assert not log.timed
    assert not log.of_first_token


def test_lines_that_are_torn_are_counted_once(tmp_path: Path) -> None:
    rows = [f"{number},{0.5 if number % 10 else '0.5,0.7'}" for number in range(1, 101)]
    log, source = read(written(tmp_path, "at,ttft\n" + "\n".join(rows) + "\n"))
    assert (len(log), dict(source.bad)) == (90, {TORN: 10})


def test_zero_is_no_time_to_the_first_token_and_no_latency(tmp_path: Path) -> None:
    text = "at,ttft_s,total_s\n1,0,0.5\n2,0,0.75\n3,0.25,1\n4,0,0\n"
    log, source = read(written(tmp_path, text))
    assert list(log.ttft) == [0.5, 0.75, 1.0]
    assert (dict(source.bad), source.of_first_token) == ({"a latency of zero": 1}, False)


def test_costs_below_zero_and_those_that_are_no_number_are_not_known(tmp_path: Path) -> None:
    """One of -1, as some write what they do not know, would pay for hedges of hundreds."""
    text = "at,ttft_s,cost\n1,0.5,0.002\n2,0.5,-1\n3,0.5,inf\n4,0.5,nan\n5,0.5,0\n6,0.5,free\n"
    log, _ = read(written(tmp_path, text))
    assert log.usd is not None
    assert [None if np.isnan(usd) else usd for usd in log.usd] == [0.002, None, None, None, 0.0, None]


def test_what_is_said_wins_over_what_is_guessed(tmp_path: Path) -> None:
    log, source = read(written(tmp_path, "ttft,odd name\n1,500\n2,600\n"), ["ttft=odd name:ms"])
    assert source.columns == (("ttft", "odd name", "milliseconds"),)
    assert list(log.ttft) == [0.5, 0.6]


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("ttft", "FIELD=COLUMN"),
        ("nothing=a", "FIELD is one of at, end"),
        ("ttft=b", "no such column; it has a"),
        ("ttft=a:weeks", "weeks is no unit"),
        ("cost=a:ms", "only times have a unit"),
    ],
)
def test_an_option_that_cannot_be_says_what_can(option: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        guessed(["a"], [option])


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("log.xls", "\0\1", "what kind of log is this"),
        ("log.csv", "\n", "the file is empty"),
        ("log.csv", "a,b\n1,2\n", "no column of it is a latency; it has a, b"),
        ("log.parquet", "PAR1nonsense", "cannot be read as Parquet"),
    ],
)
def test_a_file_of_no_use_says_what_is_missing(tmp_path: Path, name: str, text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read(written(tmp_path, text, name))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        read([tmp_path / "none.csv"])


def test_failures_take_as_long_as_their_rows_say(tmp_path: Path) -> None:
    """The whole time if there is one, which zero is not, else that to the first token."""
    rows = ["1,0.5,0.9,200", "2,,0.02,500", "3,0.3,,500", "4,,0,500", "5,,,timeout", "6,0.2,90000,500"]
    log, _ = read(written(tmp_path, "at,ttft_s,total_s,status\n" + "\n".join(rows) + "\n"))
    assert log.failed_after is not None
    assert log.failed_after.tolist() == pytest.approx([nan, 0.02, 0.3, nan, nan, nan], nan_ok=True)
    assert failing(log).tolist() == pytest.approx([0.16, 0.02, 0.3, 0.16, 0.16, 0.16])  # else the median of the others
    assert failing(replace(log, failed_after=None)).tolist() == [0.5] * 6  # or that of the answers


def test_attempts_that_are_turned_away_are_counted_by_target(tmp_path: Path) -> None:
    words = ["200", "429", "HTTP 429", "RateLimitError", "500", "4290"]
    rows = [f"{number},{target},0.5,{word}" for target in "ab" for number, word in enumerate(words)]
    log, _ = read(written(tmp_path, "at,target,ttft_s,status\n" + "\n".join([*rows, "9,a,0.5,429"]) + "\n"))
    assert log.limited == {"a": 4 / 7, "b": 0.5}


def test_one_is_success_and_zero_is_none(tmp_path: Path) -> None:
    log, _ = read(written(tmp_path, "at,ttft_s,success\n1,0.5,1\n2,0.5,0\n3,0.5,1\n"))
    assert log.failed.tolist() == [False, True, False]


def test_times_that_cannot_be_read_are_counted_apart_from_those_that_are_not_there(tmp_path: Path) -> None:
    times = ["2026-11-30T10:00:00Z", "2026-11-30T10:00:01Z", "2026-11-30T10:00:02Z", "1996-02-30", "", "soon", "NaT"]
    times += ["0001-01-01T00:00:00Z", "2026-11-30T10:00:03Z", "nan", "2026-11-30T10:00:04Z", "2026-11-30T10:00:05Z"]
    times += ["2026-11-30T10:00:06Z", "2026-11-30T10:00:07Z"]
    rows = [f"{time},0.5,{500 if time == 'soon' else 200}" for time in times]
    log, source = read(written(tmp_path, "\n".join(["at,ttft_s,status", *rows]) + "\n"))
    assert dict(source.bad) == {UNREAD: 2, "no time": 4}
    assert (len(log), log.unread, source.seconds) == (8, 2, 7.0)
    told = "2 times cannot be read, such as '1996-02-30': write them as 2026-11-30T10:00:00Z or as a Unix time"
    assert told in source.notes


def test_a_log_of_which_no_time_can_be_read_says_so(tmp_path: Path) -> None:
    rows = [f"{1 + day % 28}. November 2026,{0.5 + day % 7}" for day in range(300)]
    log, source = read(written(tmp_path, "\n".join(["at,ttft_s", *rows]) + "\n"))
    assert (len(log), log.timed, log.unread) == (300, False, 300)
    assert any(note.startswith("300 times cannot be read, such as '1. November 2026': ") for note in source.notes)
    (finding,) = (each for each in findings_of(log, statistics_of(log), []) if each.name == "no_times")
    assert finding.text.startswith("The times of 300 rows cannot be read; they are taken in the order of its rows.")


@pytest.mark.parametrize(
    ("names", "row", "seconds", "units"),
    [
        ("ttft,latency", "45,900", (0.045, 0.9), ("milliseconds", "milliseconds")),  # apart ttft would be 45 s
        ("ttft,latency", "0.4,1.8", (0.4, 1.8), ("seconds", "seconds")),
        ("ttft,latency", "30,50", (30.0, 50.0), ("seconds", "seconds")),
        ("ttft,latency", "0.5,100", (0.5, 100.0), ("seconds", "seconds")),  # long answers; apart they would be 0.1 s
        ("ttft,latency", "0.4,1800", (0.4, 1.8), ("seconds", "milliseconds")),  # 0.4 ms is no time to a first token
        ("ttft_ms,latency", "400,1.8", (0.4, 1.8), ("milliseconds", "seconds")),
        ("ttft_ms,latency", "20,50", (0.02, 0.05), ("milliseconds", "milliseconds")),
        ("ttft,latency_ms", "45,900", (0.045, 0.9), ("milliseconds", "milliseconds")),
        ("ttft_s,latency", "0.2,50", (0.2, 50.0), ("seconds", "seconds")),
    ],
)
def test_units_are_told_together_as_a_first_token_comes_before_the_end(
    tmp_path: Path, names: str, row: str, seconds: tuple[float, float], units: tuple[str, str]
) -> None:
    log, source = read(written(tmp_path, f"{names}\n" + f"{row}\n" * 5))
    assert dict(source.bad) == {}
    assert list(log.ttft) == pytest.approx([seconds[0]] * 5)
    assert {field: unit for field, _, unit in source.columns} == dict(zip(("ttft", "total"), units, strict=True))
    for name, unit in zip(names.split(","), units, strict=True):
        assert (f"`{name}` is taken as {unit}, by the size of its numbers" in source.notes) is ("_" not in name)
    first, total = names.split(",")
    apart = f"`{first}` {units[0]} and `{total}` {units[1]}: by their numbers they are not of one unit; "
    assert any(note.startswith(apart) for note in source.notes) is (units[0] != units[1])


def test_rows_without_a_first_token_do_not_say_what_its_unit_is(tmp_path: Path) -> None:
    log, source = read(written(tmp_path, "ttft,latency\n" + "0,900\n" * 6 + "250,800\n" * 4))
    assert ("ttft", "ttft", "milliseconds") in source.columns
    assert list(log.ttft) == pytest.approx([0.9] * 6 + [0.8] * 4)


def test_units_that_cannot_be_are_refused_or_warned_of(tmp_path: Path) -> None:
    said = r"a first token after the end \(5\); if a unit is wrong, --map ttft=COLUMN:ms"
    with pytest.raises(ConfigError, match=said):
        read(written(tmp_path, "ttft_s,latency_ms\n" + "400,900\n" * 5))
    log, _ = read(written(tmp_path, "ttft_s,latency_ms\n" + "400,900\n" * 50 + "0.5,900\n" * 10))
    found = {each.name: each for each in findings_of(log, statistics_of(log), [])}
    assert found["many_bad_rows"].severity == "stop"
    assert "or are their units others (--map)?" in found["clock"].text


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-30 09:00:00,250",  # Python's logging
        "2026-11-30 10:00:00.25 +0100 CET",  # Go
        "30/Nov/2026:10:00:00 +0100",  # nginx, Apache
        "2026-11-30T09:00:00.250000000Z",
        "1796029200.25",
        "1796029200250",
    ],
)
def test_times_are_read_as_common_programs_write_them(tmp_path: Path, time: str) -> None:
    log, source = read(written(tmp_path, f'at,ttft_s\n"{time}",0.5\n'))
    exact = 1_796_029_200.0 if "/" in time else 1_796_029_200.25
    assert (source.started_at, len(log), dict(source.bad)) == (exact, 1, {})
    naive = "times without a zone are taken as UTC" in source.notes
    assert naive is ("," in time)


def test_the_log_of_a_web_server_in_front_of_providers_is_one(tmp_path: Path) -> None:
    lines = ["time_local,upstream_addr,status,request_time,upstream_header_time,upstream_response_time"]
    lines += ["30/Nov/2026:10:00:00 +0000,10.0.0.1:443,200,0.9,0.25,0.8", "30/Nov/2026:10:00:01 +0000,b:1,502,0.9,,0.1"]
    log, source = read(written(tmp_path, "\n".join(lines) + "\n"))
    assert {field: column for field, column, _ in source.columns} == {
        "at": "time_local",
        "ttft": "upstream_header_time",
        "total": "upstream_response_time",
        "target": "upstream_addr",
        "status": "status",
    }
    assert (log.ttft[0], log.failed.tolist(), list(log.targets)) == (0.25, [False, True], ["10.0.0.1:443", "b:1"])


def test_values_that_say_their_unit_are_shown_as_such(tmp_path: Path) -> None:
    log, source = read(written(tmp_path, "elapsed\n350ms\n1.5s\n"))
    assert list(log.ttft) == pytest.approx([0.35, 1.5])
    assert source.columns == (("total", "elapsed", "each with its unit"),)


def test_latencies_that_cannot_be_read_are_shown(tmp_path: Path) -> None:
    """As a spreadsheet of another country has them; commas might be thousands, too."""
    told = f"{tmp_path}/log.csv: 3 latencies cannot be read, such as '0,532': write them as 0.532 or 532ms"
    with pytest.raises(ConfigError) as refused:
        read(written(tmp_path, "Zeit;Latenz (s)\n1;0,532\n2;0,6\n3;1,2\n4;\n"), ["total=Latenz (s):s"])
    assert refused.value.problems[1:] == [told]
    _, source = read(written(tmp_path, "at,ttft_s,total_s\n1,0.5,0.6\n2,00:00:01,\n3,,soon\n4,,\n5,,0.7\n6,0.5,1\n"))
    assert "2 latencies cannot be read, such as '00:00:01': write them as 0.532 or 532ms" in source.notes


def test_a_file_without_names_of_columns_says_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"it has 1700000000, gpt, 0\.196\. Its first line should name them"):
        read(written(tmp_path, "1700000000,gpt,0.196\n1700000001,gpt,0.2\n"))


def test_one_time_for_all_is_none(tmp_path: Path) -> None:
    log, source = read(written(tmp_path, "date,ttft_s\n2026-11-30,0.5\n2026-11-30,0.25\n"))
    assert (log.timed, list(log.at), source.started_at) == (False, [0.0, 1.0], None)
    assert "all rows have the same time, so they are taken in their order" in source.notes
    log, source = read(written(tmp_path, "date,ttft_s\n2026-11-30,0.5\n2026-12-01,0.25\n"))
    assert (log.timed, source.seconds) == (True, 86_400.0)


def test_rows_of_one_coarse_time_are_spread_until_the_next_in_their_order(tmp_path: Path) -> None:
    """The smallest step between two times is how exact they are: there is none over the weekend."""
    days = [27] * 30 + [28] * 60 + [30] * 20 + [20] * 5
    rows = [f"2026-11-{day:02},{number + 1}" for number, day in enumerate(days)]
    log, source = read(written(tmp_path, "\n".join(["date,ttft_ms", *rows]) + "\n"))
    assert log.stamps == 4
    assert log.at[:6].tolist() == [0.0, 0.2 * 86_400, 0.4 * 86_400, 0.6 * 86_400, 0.8 * 86_400, 7 * 86_400.0]
    assert log.ttft[:6].tolist() == pytest.approx([0.111, 0.112, 0.113, 0.114, 0.115, 0.001])
    assert np.diff(log.at[5:35]) == pytest.approx(86_400 / 30)
    assert np.diff(log.at[35:95]) == pytest.approx(86_400 / 60)
    assert source.seconds == pytest.approx((10 + 19 / 20) * 86_400)


def test_one_exact_time_among_hours_brings_no_hour_at_once(tmp_path: Path) -> None:
    rows = [f"2026-11-30T{hour:02}:00:00Z,0.5" for hour in range(24) for _ in range(100)]
    log, _ = read(written(tmp_path, "\n".join(["at,ttft_s", *rows, "2026-11-30T00:00:01Z,0.25"]) + "\n"))
    assert log.stamps == 25
    assert (np.diff(log.at) >= 0.0).all()
    assert np.diff(log.at[101:]) == pytest.approx(36.0)


def test_calls_made_at_once_stay_so(tmp_path: Path) -> None:
    rows = [f"{second},{target},0.5" for second in range(20) for target in "abcde" * 2]
    log, _ = read(written(tmp_path, "\n".join(["at,target,ttft_s", *rows]) + "\n"))
    assert (log.stamps, log.at.tolist()) == (0, [float(second) for second in range(20) for _ in range(10)])
