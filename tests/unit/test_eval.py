"""The evaluation's command: what it says, writes and answers with."""

from __future__ import annotations

from pathlib import Path

import bench.eval
import msgspec
import pytest
from bench.eval import main


def test_streams_are_replayed_and_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench.eval, "CHANGING", 1)
    written, figures = tmp_path / "a.md", tmp_path / "a.json"
    options = [
        "--part=policy",
        "--only=median endpoint",
        "--only=course of",
        "--budgets=0.05",
        "--requests=5000",
        "--jobs=1",
    ]
    code = main([str(tmp_path), *options, f"--markdown={written}", f"--json={figures}"])
    said = capsys.readouterr()
    scores = msgspec.json.decode(figures.read_bytes())["policy"]
    assert [one["stream"] for one in scores] == [
        "median endpoint",
        "median endpoint, r 0.3",
        "median endpoint, course of a day",
    ]
    assert code == (1 if "eval: median" in said.err.replace("left out", "") else 0)
    assert written.read_text() == said.out
    assert said.out.count("\n| median endpoint") == 3
    assert "has no llmperf_leaderboard_2023.csv: its streams are left out" in said.err
    assert "[3/3]" in said.err


def test_what_cannot_be_done_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err == f"eval: {tmp_path}/none is no folder\n"
    assert main([str(tmp_path), "--part=policy", "--only=nobody"]) == 2
    assert "no stream is called so; there are course of a day, median endpoint" in capsys.readouterr().err
    (tmp_path / "openrouter_endpoint_percentiles_2026.parquet").write_bytes(b"x")
    assert main([str(tmp_path), "--part=policy"]) == 2
    assert "is no Parquet file" in capsys.readouterr().err
    for wrong in ("--requests=3999", "--budgets=1.5", "--budgets=0"):
        with pytest.raises(SystemExit, match="2"):
            main([str(tmp_path), wrong])
