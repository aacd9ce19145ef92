"""`hedgerow demo` and `hedgerow serve` as a user runs them: real processes, real sockets, another folder."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from rich.console import Console

from hedgerow.demo import run
from hedgerow.demo.options import DemoOptions
from hedgerow.demo.result import Result
from hedgerow.demo.view import View

pytestmark = pytest.mark.e2e

HEDGEROW = [sys.executable, "-m", "hedgerow"]
SMALL = ["demo", "--requests", "60", "--speed", "20", "--rate", "60"]
LONG = ["demo", "--requests", "1000", "--rate", "200", "--speed", "20"]


def children_of(pid: int) -> list[int]:
    """Direct children, from /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def gone(pids: list[int]) -> bool:
    """Whether all of these processes end within ten seconds."""
    for _ in range(200):
        if not any(Path(f"/proc/{pid}").exists() for pid in pids):
            return True
        time.sleep(0.05)
    return False


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Starter]:
    starter = Starter(tmp_path)
    yield starter
    for process in starter.processes:
        process.kill()
        process.communicate()


class Starter:
    """Starts hedgerow in an empty folder, without keys in its environment."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: list[subprocess.Popen[str]] = []

    def __call__(self, *arguments: str) -> subprocess.Popen[str]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        process = subprocess.Popen(
            [*HEDGEROW, *arguments],
            cwd=self.folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.processes.append(process)
        return process


def test_the_demo_adds_up_and_hedging_lowers_its_p99(started: Starter) -> None:
    process = started(*SMALL, "--json", "--delay", "3s")
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    result: dict[str, Any] = json.loads(out)
    assert result["problems"] == []
    assert result["hedged"]["p99"] < result["without"]["p99"]
    assert result["without"]["p50"] <= result["without"]["p90"] <= result["without"]["p99"] <= result["without"]["max"]
    assert result["hedges"] == round(result["extra_fraction"] * 60) > 0
    assert result["tokens_delivered"] == 60 * 40
    assert result["reproduce"] == "hedgerow demo --seed 13 --requests 60 --rate 60 --speed 20 --delay 3"
    assert "without hedging: 60/60 answered" in err


def test_recorded_latencies_are_replayed_and_set_beside_the_formula(started: Starter) -> None:
    # 19 of 20 are answered at once, one in 20 hangs: a hedge takes p95 and more from 30 s to about the delay.
    rows = ["other,1"] * 5 + ["slow,30000"] + ["slow,1000"] * 19
    (started.folder / "log.csv").write_text("\n".join(["run,ttft_ms", *rows]))
    process = started(*SMALL, "--json", "--latencies", "log.csv", "--where", "run=slow", "--delay", "2s")
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    formula = json.loads(out)["formula"]
    assert formula["samples"] == 20
    assert formula["hedged_fraction"] == pytest.approx(0.05)
    assert formula["without"]["formula"] == 30.0
    assert formula["hedged"]["formula"] == 3.0


def test_the_table_is_shown_without_a_terminal(started: Starter) -> None:
    process = started(*SMALL, "--requests", "20")
    out, err = process.communicate(timeout=90)
    assert process.returncode == 0, err
    for shown in (
        "without hedging",
        "p50",
        "p99",
        "hedge delay",
        "extra attempts",
        "cancel",
        "consistent",
        "--seed 13",
    ):
        assert shown in out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_leaves_no_process_behind(started: Starter, number: int, code: int) -> None:
    process = started(*LONG)
    assert process.stderr is not None
    for line in process.stderr:
        if "answered" in line:
            break
    children = children_of(process.pid)
    assert len(children) == 3
    process.send_signal(number)
    assert process.wait(20) == code
    assert gone(children)


def test_a_child_that_dies_ends_the_demo_with_its_last_words(started: Starter) -> None:
    process = started(*LONG)
    assert process.stderr is not None
    for line in process.stderr:
        if "answered" in line:
            break
    children = children_of(process.pid)
    os.kill(children[0], signal.SIGKILL)
    err = process.stderr.read()
    assert process.wait(20) == 1
    assert "ended with status -9 while it was needed; its last words:" in err
    assert "Traceback" not in err
    assert gone(children)


@pytest.mark.parametrize(("found", "code"), [([], 0), (["phase: 1 requests are still open at the labs"], 1)])
def test_an_inconsistency_is_shown_and_is_exit_code_1(
    found: list[str], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "inconsistencies", lambda *_, **__: found)
    results: list[Result] = []
    view = View(Console(file=io.StringIO()), speed=100.0)
    options = DemoOptions(requests=5, rate=100.0, speed=100.0)
    assert run.run(options, view, lambda result, _: results.append(result)) == code
    assert [one.problems for one in results] == [found * 2]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed: apt-get install curl")
def test_stay_keeps_serving_until_told_to_stop(started: Starter) -> None:
    process = started(*SMALL, "--requests", "10", "--stay")
    assert process.stderr is not None
    command = next(line for line in process.stderr if line.startswith("  curl "))
    children = children_of(process.pid)
    answer = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60, check=True).stdout
    assert answer.endswith("data: [DONE]\n\n")
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 0
    assert gone(children)


def test_serve_says_when_it_is_ready_and_drains_on_sigterm(started: Starter) -> None:
    (started.folder / "hedgerow.yaml").write_text(
        "targets: {a: {base_url: 'http://127.0.0.1:9/v1'}, b: {base_url: 'http://127.0.0.1:9/v1'}}\n"
        "routes: {fast: {targets: [a, b], hedge: {delay: 2s}}}\n"
    )
    process = started("serve", "--listen", "127.0.0.1:0", "--json-ready")
    assert process.stdout is not None
    ready = json.loads(process.stdout.readline())
    assert ready["ready"] is True
    assert ready["pid"] == process.pid
    with urlopen(f"{ready['url']}/livez", timeout=10) as answer:
        assert answer.status == 200
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert f"hedgerow serves {ready['url']}/v1" in err
    assert "fast  a → b, hedge after 2s, at most 10% of requests and 1 a minute, 50 at once" in err
    assert f"curl -N {ready['url']}/v1/chat/completions" in err


def test_serve_on_a_taken_port_says_so(started: Starter) -> None:
    lab = started("lab")
    assert lab.stdout is not None
    taken = json.loads(lab.stdout.readline())["url"].removeprefix("http://")
    (started.folder / "hedgerow.yaml").write_text(
        "targets: {a: {base_url: 'http://127.0.0.1:9/v1'}}\nroutes: {fast: {targets: [a]}}\n"
    )
    process = started("serve", "--listen", taken)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 1
    assert "address already in use" in err
    assert "Traceback" not in err
