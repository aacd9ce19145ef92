"""The evaluation's own rule, table and exit codes; the replay itself is the demo's, and tested there."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import bench.eval_gateway
import msgspec
import pytest
from bench.eval_gateway import QUIET, Finding, Series, findings, lateness, main, quiet_replay, table, verdict

from hedgerow.demo.formula import Law
from hedgerow.demo.result import Check, Formula, Result, Spread
from hedgerow.demo.source import Source

TIMES = Source("synthetic", [0.5 + i / 1000 for i in range(950)] + [20.0 + i for i in range(50)], 1.45)
SERIES = Series("synthetic", "log.csv", ("run=a",))
NOTHING = Spread(p50=0, p90=0, p95=0, p99=0, max=0)


def result(hedged_p99: float, *, added: float = 0.001, hedged_p50: float = 1.0) -> Result:
    """A replay of `TIMES` by 1,000 requests whose p99 without hedging is as computed."""
    plain, hedging = Law(TIMES.samples, delay=None), Law(TIMES.samples, delay=TIMES.delay)

    def check(law: Law, measured: float) -> Check:
        low, high = law.quantile_interval(0.99, 1000)
        return Check(measured=measured, formula=law.quantile(0.99), low=low, high=high, inside=low <= measured <= high)

    return Result(
        source="synthetic",
        requests=1000,
        rate=50.0,
        seed=1,
        speed=10.0,
        delay=TIMES.delay,
        without=NOTHING,
        hedged=msgspec.structs.replace(NOTHING, p50=hedged_p50),
        hedges=49,
        extra_fraction=0.049,
        tokens_delivered=0,
        tokens_wasted=0,
        prompt_tokens_wasted=0,
        wasted_cost_fraction=0.0,
        cancel=None,
        added=added,
        held_back=0,
        real_seconds=1.0,
        reproduce="",
        formula=Formula(
            samples=1000,
            hedged_fraction=hedging.hedged_fraction(),
            without=check(plain, plain.quantile(0.99)),
            hedged=check(hedging, hedged_p99),
        ),
    )


def hedged(measured: float, *, added: float = 0.001) -> Finding:
    return findings(SERIES, TIMES, result(measured, added=added))[1]


LOW, HIGH = Law(TIMES.samples, delay=TIMES.delay).quantile_interval(0.99, 1000, confidence=0.999)


def test_a_p99_outside_its_interval_is_a_fault_and_one_at_its_edge_is_none() -> None:
    assert not hedged(LOW - 0.001).ok
    assert hedged(LOW).ok
    assert hedged(HIGH).ok
    assert not hedged(HIGH + 0.021).ok


def test_above_the_interval_twice_the_added_time_is_allowed() -> None:
    assert hedged(HIGH + 0.019).ok  # 2 x 1 ms, 10 times faster than life
    assert not hedged(HIGH + 0.019, added=0.0005).ok


def test_the_verdict_names_the_faults_and_gives_no_verdict_on_a_busy_machine(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert verdict(findings(SERIES, TIMES, result(HIGH)), []) == 0
    assert verdict(findings(SERIES, TIMES, result(99.0)), []) == 1
    assert capsys.readouterr().err == "eval: synthetic, hedged: p99 outside its 99.9 % interval\n"
    assert verdict(findings(SERIES, TIMES, result(HIGH)), ["synthetic: inconsistent: x"]) == 1
    assert verdict(findings(SERIES, TIMES, result(99.0, added=QUIET * 1.1)), []) == 3


def test_half_of_the_requests_being_late_shows_in_either_phase() -> None:
    assert lateness(TIMES, result(HIGH, added=0.002)) == 0.002
    _, latest = Law(TIMES.samples, delay=TIMES.delay).quantile_interval(0.5, 1000, confidence=0.999)
    assert lateness(TIMES, result(HIGH, hedged_p50=latest + 0.2)) == pytest.approx(0.02)


def test_a_disturbed_replay_is_run_again_and_a_quiet_one_is_not_whatever_its_p99(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    quiet, disturbed = result(99.0), result(HIGH, added=1.0)
    for runs, taken in (([disturbed, quiet], 1), ([quiet, disturbed], 0), ([disturbed] * 5, 3)):
        told = iter(enumerate(runs))
        last: list[int] = []

        def replay(*_: object, told: Iterator[tuple[int, Result]] = told, last: list[int] = last) -> Result:
            number, one = next(told)
            last.append(number)
            return one

        monkeypatch.setattr(bench.eval_gateway, "replay", replay)
        assert quiet_replay(SERIES, TIMES, Path(), argparse.Namespace()) is runs[taken]
        assert last[-1] == taken


def test_the_table_has_a_row_for_each_phase() -> None:
    lines = table(findings(SERIES, TIMES, result(1.7))).splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[2][:4] == ["synthetic", "1000", "never", "59.0 s"]
    assert cells[3][:4] == ["synthetic", "1000", "1.45 s", "1.70 s"]
    assert cells[3][-3:] == ["4.9 %", "5.0 %", "1.0 ms"]


def test_a_missing_file_is_named_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said == f"eval: {tmp_path}/llmperf_leaderboard_2023.csv: cannot be read: No such file or directory\n"


@pytest.mark.e2e
def test_a_file_of_recorded_times_is_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # Hedged after 1 s. The slowest of 60 is 9 s and not 30 s, so that nothing measured is at the edge of its interval,
    # where a single request that is late by a few milliseconds would break the rule.
    rows = ["a,500"] * 940 + ["a,1000"] * 11 + ["a,9000"] * 48 + ["a,30000", "b,1"]
    (tmp_path / "log.csv").write_text("\n".join(["run,ttft_ms", *rows]))
    monkeypatch.setattr(bench.eval_gateway, "SERIES", (SERIES,))
    monkeypatch.setattr(bench.eval_gateway, "QUIET", 1.0)
    assert main([str(tmp_path), "--requests", "60", "--rate", "60", "--speed", "10", "--seed", "1"]) == 0
    said = capfd.readouterr()
    assert said.out.count("| synthetic |") == 2
    assert "with hedging: 60/60 answered" in said.err
