"""Streams: how recorded times are read and drawn, and the laws that stand for what was not recorded one by one."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from bench.streams import NEAR, Recorded, drawn, paired, quantile
from bench.streams_made import LONGEST, MEDIAN, SHARES, SLOW, Endpoint, alike, day, spells
from bench.streams_parquet import NotReadable, read_columns
from bench.streams_recorded import TIMED_OUT, plans

PARQUET = b64decode(
    "UEFSMRUEFRQVJkwVBBUAEgAAKLUv/SAKUQAAAQAAAGEBAAAAYhUAFRIVJCwVCBUQFQYVBhw2AigBYhgBYRERAAAAKLUv/SAJSQAA"
    "AgAAAAMLAQMCFQQVIBUyTBUEFQASAAAotS/9IBCBAAABAAAAAAAAAAMAAAAAAAAAFQAVEhUkLBUIFRAVBhUGHBgIAwAAAAAAAAAY"
    "CAEAAAAAAAAAFgIoCAMAAAAAAAAAGAgBAAAAAAAAABERAAAAKLUv/SAJSQAAAgAAAAMNAQMCFQQVGBUqTBUGFQASAAAotS/9IAxh"
    "AAAAAAA/AADAPwAAIEAVABUUFSYsFQgVEBUGFQYcGAQAACBAGAQAAAA/FgIoBAAAIEAYBAAAAD8REQAAACi1L/0gClEAAAIAAAAD"
    "CwIDJAAVABUOFSAsFQgVABUGFQYcGAEBGAEAFgIoAQEYAQAREQAAACi1L/0gBzkAAAIAAAADCwUVBBlcNQAYBnNjaGVtYRUIABUM"
    "JQIYBG5hbWUlAEwcAAAAFQQlAhgFY291bnQAFQglAhgHc2Vjb25kcwAVACUCGAN5ZXMAFggZHBlMJgAcFQwZNQAGEBkYBG5hbWUV"
    "DBYIFnwWoAEmSiYIHDYCKAFiGAFhEREAGSwVBBUAFQIAFQAVEBUCADwWBhkGGSYCBgAAACYAHBUEGTUABhAZGAVjb3VudBUMFggW"
    "zAEW8AEm9gEmqAEcGAgDAAAAAAAAABgIAQAAAAAAAAAWAigIAwAAAAAAAAAYCAEAAAAAAAAAEREAGSwVBBUAFQIAFQAVEBUCADwp"
    "BhkmAgYAAAAmABwVCBk1AAYQGRgHc2Vjb25kcxUMFggWpgEWygEm3gMmmAMcGAQAACBAGAQAAAA/FgIoBAAAIEAYBAAAAD8REQAZ"
    "LBUEFQAVAgAVABUQFQIAPCkGGSYCBgAAACYAHBUAGSUGABkYA3llcxUMFggWVBZmJuIEPBgBARgBABYCKAEBGAEAEREAGRwVABUA"
    "FQIAPCkGGSYCBgAAABbCBBYIJggWwAUAKCBwYXJxdWV0LWNwcC1hcnJvdyB2ZXJzaW9uIDI2LjAuMRlMHAAAHAAAHAAAHAAAANMB"
    "AABQQVIx"
)
"""Four rows, written by Arrow: a text, a whole number, a number, each with a missing value, and a yes or no."""


def test_a_parquet_file_of_arrow_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(PARQUET)
    assert read_columns(path, ["name", "seconds", "count"]) == {
        "name": ["a", "b", None, "a"],
        "seconds": [0.5, 1.5, None, 2.5],
        "count": [1, None, 3, 1],
    }


@pytest.mark.parametrize(
    ("data", "names", "why"),
    [
        (b"name\na\n", ["name"], "is no Parquet file"),
        (PARQUET, ["other"], "has no column other"),
        (PARQUET, ["yes"], "column yes: compression 6 of type 0 is not known here"),
    ],
)
def test_what_is_not_readable_is_refused_by_name(tmp_path: Path, data: bytes, names: Sequence[str], why: str) -> None:
    path = tmp_path / "a.parquet"
    path.write_bytes(data)
    with pytest.raises(NotReadable, match=why):
        read_columns(path, names)


def test_independent_hedges_come_from_everywhere_and_neighbours_from_near_by() -> None:
    record = [Recorded(float(index), 500, "one") for index in range(400)]
    far = drawn("a", "independent", record, 2_000, Random(1))
    near = drawn("a", "neighbours", record, 2_000, Random(1))
    assert max(abs(x - y) for x, y in zip(far.primary, far.backup, strict=True)) > 300
    gaps = [abs(x - y) for x, y in zip(near.primary, near.backup, strict=True)]
    assert min(gaps) == 1
    assert max(gaps) == NEAR
    steps = [(b - a) % 400 for a, b in zip(near.primary, near.primary[1:], strict=False)]
    assert sum(step == 1 for step in steps) > 0.95 * len(steps)  # spells stay together


def test_neighbours_have_the_same_prompt_length() -> None:
    record = [Recorded(float(index % 2), 500 + index % 2, str(index % 2)) for index in range(100)]
    near = drawn("a", "neighbours", record, 1_000, Random(1))
    assert near.primary == near.backup == drawn("a", "same length", record, 1_000, Random(1)).backup
    assert [tokens - 500 for tokens in near.tokens] == near.primary
    assert 300 < sum(near.primary) < 700


def test_pairs_stay_together() -> None:
    stream = paired("a", [(1.0, 10.0), (2.0, 20.0)], 500, Random(1))
    assert {(x, y) for x, y in zip(stream.primary, stream.backup, strict=True)} == {(1.0, 10.0), (2.0, 20.0)}
    assert not stream.same_provider


def test_an_endpoint_has_its_percentiles_and_a_tail() -> None:
    for share, seconds in zip(SHARES, MEDIAN.seconds, strict=True):
        assert MEDIAN.at(share) == pytest.approx(seconds)
    assert MEDIAN.at(0.925) == pytest.approx((2.45 * 3.5) ** 0.5)
    # Pareto: as far from p99 to p99.8 as from p95 to p99, both being a fifth of what is above
    assert MEDIAN.at(0.998) == pytest.approx(7.4**2 / 3.5)
    assert MEDIAN.at(1.0) == LONGEST * 7.4
    assert Endpoint("flat", (1.0, 1.0, 1.0, 1.0, 1.0)).at(0.9999) == 1.0


def test_two_attempts_go_together_as_far_as_asked_for() -> None:
    def both_slow(correlation: float) -> float:
        stream = alike(MEDIAN, 20_000, Random(1), correlation=correlation)
        return sum(min(pair) > 2.45 for pair in zip(stream.primary, stream.backup, strict=True)) / 20_000

    assert both_slow(0.0) == pytest.approx(0.01, abs=0.003)
    assert both_slow(0.6) == pytest.approx(0.035, abs=0.006)


def test_slow_spells_are_a_tenth_of_the_time_and_the_day_comes_and_goes() -> None:
    flat = Endpoint("flat", (1.0, 1.0, 1.0, 1.0, 1.0))
    both, first = (spells(flat, 60_000, Random(1), both=both) for both in (True, False))
    assert both.primary == both.backup == first.primary
    assert set(first.backup) == {1.0}
    assert sum(each == SLOW for each in first.primary) / 60_000 == pytest.approx(0.1, abs=0.04)
    times = day(flat, 40_000, Random(1)).primary
    assert (times[0], times[10_000], times[20_000]) == pytest.approx((1.0, 1.8, 1.0))


def test_quantiles_are_of_what_is_there() -> None:
    assert [quantile([1.0, 2.0, 3.0, 4.0], p) for p in (0.0, 0.25, 0.26, 0.5, 0.99, 1.0)] == [
        1.0,
        1.0,
        2.0,
        2.0,
        4.0,
        4.0,
    ]


HEAD = "provider,model,started_at,input_tokens,output_tokens,streaming,ttft_ms,total_ms,status,run"


def test_a_folder_is_read(tmp_path: Path) -> None:
    rows = [f"x,m,,550,150,True,{100 + index},900,{'ok' if index else 'error'},run" for index in range(4)]
    (tmp_path / "llmperf_leaderboard_2023.csv").write_text("\n".join([HEAD, *rows]))
    pair = [
        "azure-openai,gpt-4-1106-preview,,60,50,True,,,timeout,r0",
        "openai,gpt-4-1106-preview,,60,50,True,700,900,ok,r0",
    ]
    others = [row.replace("gpt-4-1106-preview", "gpt-3.5-turbo-0613") for row in pair]
    (tmp_path / "scalevoice_openai_azure_2024.csv").write_text("\n".join([HEAD, *pair, *others]))
    found = plans(tmp_path, 2, 1)
    assert [plan.group for plan in found] == ["llmperf"] * 2 + ["pairs"] * 4
    runs = found[0].make(50, Random(1))
    assert set(runs.primary) == {0.101, 0.102, 0.103}
    azure = found[4].make(10, Random(1))
    assert set(azure.primary) == {TIMED_OUT}
    assert set(azure.backup) == {0.7}
