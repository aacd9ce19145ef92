"""From a request in the gateway to a line of the report: events, a ledger on disk, the command and its formats."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest

from hedgerow.cli import main
from hedgerow.events import Event
from hedgerow.extras import install
from hedgerow.ledger.book import Book
from hedgerow.ledger.store import migrate, open_store
from hedgerow.ledger.tables import Tables
from hedgerow.report.analysis import analyse
from hedgerow.report.page import render
from tests.effects.support import BROKEN, Document, Sent, after, settings, tell
from tests.ledger.support import EPOCH, batches, hello, records
from tests.unit.report_support import request

COUNT = 1_200
ROUTE: Document = {
    "routes.<name>.targets": ["a", "b"],
    "routes.<name>.hedge.delay": "2s",
    "routes.<name>.hedge.budget": "off",
    "routes.<name>.hedge.outage.max_tokens": 1000,
    "routes.<name>.experiment.holdout": "50%",
    "targets.<name>.price": {"input": 1, "output": 4},
    "targets.b.price": {"input": 1, "output": 4},
    "targets.<name>.breaker.failure_ratio": "off",
}
CONFIG = """\
targets:
  a: {base_url: "http://127.0.0.1:9001/v1"}
  b: {base_url: "http://127.0.0.1:9002/v1"}
routes:
  fast: {targets: [a, b], hedge: {delay: 2s}, experiment: {holdout: 50%}}
server: {ledger: "on"}
"""


def events() -> Sequence[Event]:
    """One request in seven is slow, one in two hundred fails at its first target."""
    random = Random(5)
    first = [BROKEN if random.random() < 0.005 else after(8.0 if random.random() < 0.15 else 0.5) for _ in range(COUNT)]
    sent = [Sent(at=5.0 * index) for index in range(COUNT)]
    return [
        each for each in tell(settings(ROUTE), {"a": first, "b": after(0.7)}, sent).events if type(each) in Book.kinds
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a ledger and a configuration."""
    folder = tmp_path_factory.mktemp("report")
    url = f"sqlite:///{folder / 'hedgerow-ledger.db'}"
    engine = open_store(url, writes=True)
    migrate(engine)
    Tables(engine, hello(url), round(EPOCH * 1e6)).write(batches(*records(*events())), round(EPOCH * 1e6))
    engine.dispose()
    (folder / "hedgerow.yaml").write_text(CONFIG)
    return folder


class Command:
    """`hedgerow report` in that folder."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.err = ""

    def __call__(self, *arguments: str, code: int = 0) -> str:
        with pytest.raises(SystemExit) as end:
            main(["report", *arguments])
        out, self.err = self._capsys.readouterr()
        assert end.value.code == code, self.err
        return out

    def json(self, *arguments: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self("--format", "json", "--since", "2026-01-01", *arguments))
        return found


@pytest.fixture
def report(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "160")
    return Command(capsys)


def test_every_request_is_counted_on_its_side(report: Command) -> None:
    (route,) = report.json()["routes"]
    assert route["hedged"]["requests"] + route["holdout"]["requests"] == COUNT
    assert route["holdout_share"] == 0.5
    assert route["mismatch"] > 0.01
    assert (route["holdout"]["hedges"], route["hedged"]["failed"], route["holdout"]["failed"]) == (0, 0, 0)
    assert route["holdout"]["failovers"] > 0
    assert route["hedged"]["hedges"] == route["hedged"]["hedge_wins"] > 50
    assert route["holdout"]["skipped"] == {"holdout": pytest.approx(route["hedged"]["hedges"], rel=0.4)}


def test_the_percentiles_are_what_the_script_says(report: Command) -> None:
    """Slow ones take 8 s, or the delay and 0.7 s."""
    (route,) = report.json()["routes"]
    p95 = next(each for each in route["first_token"] if each["percentile"] == 95)
    assert (p95["hedged"], p95["holdout"]) == (pytest.approx(2.7), pytest.approx(8.0))
    assert p95["modelled"] == pytest.approx(8.0, rel=0.02)
    assert p95["change"]["value"] == pytest.approx(2.7 / 8.0 - 1.0)
    assert p95["change"]["interval"] == {"low": pytest.approx(2.7 / 8.0 - 1.0), "high": pytest.approx(2.7 / 8.0 - 1.0)}
    assert route["verdict"]["word"] == "not_enough_data"  # p99 of 600 on each side has too few beyond it


def test_costs_and_seconds_are_those_of_the_ledger(report: Command) -> None:
    (route,) = report.json()["routes"]
    hedges, cost = route["hedged"]["hedges"], route["cost"]
    assert sum(cost["extra"].values()) > 0
    assert cost["unpriced_attempts"] == 0
    # Each saves 5.3 s; a target is known, and with it the time that is saved, after a hundred attempts.
    assert 0.8 * hedges * 5.3 < cost["seconds_saved"] < hedges * 5.3 * 1.02
    assert cost["measured_seconds"]["value"] == pytest.approx(5.3 * hedges / route["hedged"]["requests"], rel=0.4)


def test_the_same_ledger_and_seed_give_the_same_bytes(report: Command) -> None:
    for made in ("json", "html", "terminal"):
        arguments = ("--format", made, "--since", "2026-01-01")
        assert report(*arguments) == report(*arguments)
    assert report.json("--seed", "2") != report.json()


def test_time_and_route_choose_requests(report: Command) -> None:
    (whole,) = report.json()["routes"]
    middle = (whole["since"] + whole["until"]) / 2
    text = datetime.fromtimestamp(middle, UTC).isoformat()
    (early,), (late,) = report.json("--until", text)["routes"], report.json("--since", text)["routes"]
    counts = [each["hedged"]["requests"] + each["holdout"]["requests"] for each in (early, late)]
    assert sum(counts) == COUNT
    assert min(counts) > COUNT * 0.4
    assert report.json("--route", "fast")["routes"] == [whole]
    assert report.json("--route", "none")["routes"] == []
    assert "no requests" in report("--route", "none")


def test_on_a_terminal_it_says_the_verdict_first(report: Command) -> None:
    lines = report("--since", "2026-01-01").splitlines()
    assert lines[0].startswith("route fast ")
    assert lines[2].startswith("not enough data: about ")
    assert any(line.startswith("│ p99 ") and "more held out" in line for line in lines)


def test_a_page_goes_where_it_is_asked_to(report: Command, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    assert report("--since", "2026-01-01", "--output", str(page)) == ""
    assert report.err == f"wrote {page}\n"
    assert page.read_text() == report("--since", "2026-01-01", "--format", "html")


def test_a_page_needs_nothing_else(report: Command) -> None:
    page = report("--since", "2026-01-01", "--format", "html")
    assert "http:" not in page
    assert "https:" not in page
    links = re.findall(r"""(?:href|src|url|srcset|action)\s*[=(]\s*["']?([^"'\s)>]*)""", page)
    assert links
    assert {each[:1] if each.startswith("#") else each for each in links} == {"#", "data:,"}
    assert "<script" not in page
    assert "@import" not in page
    assert page.count("<svg") == 5
    targets = set(re.findall(r'id="([^"]+)"', page))
    assert {each[1:] for each in links if each.startswith("#")} <= targets


def test_names_are_shown_and_never_obeyed() -> None:
    made = render(analyse([request(route="<script>alert(1)</script>")], 1))
    assert "<script" not in made
    assert "&lt;script&gt;alert(1)" in made


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: nobody has looked at the report's page")
@pytest.mark.parametrize("dark", [False, True])
def test_a_browser_has_nothing_to_complain_of(report: Command, tmp_path: Path, dark: bool) -> None:
    page = tmp_path / "report.html"
    report("--since", "2026-01-01", "--output", str(page))
    asked = ["--headless=new", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--window-size=1240,2300"]
    asked += ["--force-dark-mode"] * dark + [f"--user-data-dir={tmp_path / 'profile'}"]
    picture = tmp_path / "page.png"
    assert CHROMIUM is not None
    ran = subprocess.run(
        [CHROMIUM, *asked, f"--screenshot={picture}", page.as_uri()], capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr
    assert not [line for line in ran.stderr.splitlines() if "CONSOLE" in line]
    assert picture.stat().st_size > 50_000  # plots and tables: an empty page has a few thousand bytes


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--ledger", "sqlite:///nowhere.db"], 1, "there is no ledger at nowhere.db"),
        (["--since", "yesterday"], 2, "--since yesterday: expected a time such as 24h (ago)"),
        (["--config", "other.yaml"], 2, "other.yaml"),
        (["--output", "no/such/folder.html"], 2, "no/such/folder.html: cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said(report: Command, arguments: list[str], code: int, said: str) -> None:
    report(*arguments, code=code)
    assert said in report.err


def test_where_nothing_is_configured_the_cure_is_said(
    report: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hedgerow.yaml").write_text(CONFIG.replace('server: {ledger: "on"}\n', ""))
    monkeypatch.chdir(tmp_path)
    report(code=2)
    assert "hedgerow.yaml keeps no ledger (server.ledger): name the gateway's configuration (--config" in report.err
    (tmp_path / "hedgerow.yaml").unlink()
    report(code=2)
    assert "neither hedgerow.yaml nor hedgerow-ledger.db in this folder: name the gateway's" in report.err


@pytest.mark.parametrize("missing", ["numpy", "matplotlib", "jinja2"])
def test_what_is_not_installed_is_named(report: Command, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.setattr("hedgerow.cli.making.find_spec", lambda name: None if name == missing else object())
    report("--format", "html", code=2)
    assert f"the report needs {missing}: {install('report')}" in report.err
