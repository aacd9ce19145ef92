"""`hedgerow simulate` on the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hedgerow.cli import main
from hedgerow.planner.simulation.builtin import BUILTIN, about

CONFIG = """\
targets:
  a: {base_url: "https://a.example/v1", api_key: none}
  b: {base_url: "https://b.example/v1", api_key: none}
routes:
  chat: {targets: [a, b], hedge: {delay: 3s}}
  alone: {targets: [a], hedge: {delay: off}}
"""


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "hedgerow.yaml").write_text(CONFIG)
    return tmp_path


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as end:
        main(["simulate", *arguments])
    assert isinstance(end.value.code, int)
    return end.value.code


def test_same_configuration_scenario_and_seed_same_bytes(folder: Path) -> None:
    """In processes whose hashes differ."""
    command = [sys.executable, "-m", "hedgerow", "simulate", "--route", "chat", "-s", "outage", "--requests", "300"]
    told = [
        subprocess.run(
            [*command, "--format", "json"],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            timeout=60,
        )
        for seed in ("1", "2")
    ]
    assert told[0].stdout == told[1].stdout
    assert told[0].stderr == b""
    found = json.loads(told[0].stdout)
    assert found["scenario"] == "outage"
    assert found["total"]["hedged"]["requests"] == 300
    assert [phase["name"] for phase in found["phases"]] == ["before", "outage", "after"]


def test_a_printed_scenario_is_a_file_to_start_from(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--print", "hang") == 0
    text = capsys.readouterr().out
    (folder / "mine.yaml").write_text(text.replace("hang:0.3", "hang:0.0"))
    common = "--route", "chat", "--requests", "500", "--format", "json"
    told = []
    for name in ("mine.yaml", "steady"):
        assert run("-s", name, *common) == 0
        told.append(json.loads(capsys.readouterr().out)["total"]["hedged"])
    assert told[0]["p99"] == told[1]["p99"]


def test_the_terminal_says_the_verdict_and_each_phase(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("-s", "queue", "--route", "chat", "--requests", "1000", "--output", "it.txt") == 0
    assert capsys.readouterr().err == "wrote it.txt\n"
    text = (folder / "it.txt").read_text()
    assert about("queue") in text
    assert "Hedging " in text
    assert "one draw of many: --seed 2 shows how much of a difference is chance" in " ".join(text.split())
    assert "beyond the share, of 50 that may be" in " ".join(text.split())
    assert re.search(r"from 0:\d\d, for 0:\d\d", text)
    for words in ("usual", "busy", "usual again", "load", "10% of requests and 1 a minute, 50 at once"):
        assert words in text


def test_the_list_names_every_scenario(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(BUILTIN)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "hedgerow.yaml has several routes: choose one with --route NAME; there are chat, alone"),
        (("--route", "fast"), "hedgerow.yaml has no route 'fast'; there are chat, alone"),
        (("--route", "alone"), "routes.alone.targets has no backup to try: add one, such as [a, a]"),
        (("--route", "chat", "-s", "storm"), "there is no scenario 'storm' and no such file; the scenarios are steady"),
        (("--route", "chat", "--preset", "none"), "preset: no 'none'; there are fast"),
        (("--config", "other.yaml"), "other.yaml: there is no such file"),
    ],
)
def test_what_cannot_be_run_is_said(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], says: str
) -> None:
    assert run(*arguments) == 2
    assert says in capsys.readouterr().err


def test_a_preset_is_whose_times_all_targets_have(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    p50 = []
    for preset in ("groq", "moonshot"):
        assert run("--route", "chat", "--requests", "500", "--format", "json", "--preset", preset) == 0
        found = json.loads(capsys.readouterr().out)
        assert f"preset {preset}, published" in found["law"]
        p50.append(found["total"]["without"]["p50"])
    assert p50 == [pytest.approx(0.266, rel=0.1), pytest.approx(3.558, rel=0.1)]
