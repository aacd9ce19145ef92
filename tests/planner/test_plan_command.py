"""`hedgerow plan` as people call it: from a log to what is made of it, and what it says when it cannot."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from math import inf
from pathlib import Path
from random import Random

import numpy as np
import pytest

from hedgerow.cli import main
from hedgerow.config import loads
from hedgerow.extras import install
from hedgerow.planner.compare import served
from hedgerow.planner.plan import Outcome
from hedgerow.planner.trial import Flown, outcome_of

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "latency-log.csv"
Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """`hedgerow plan` in an empty folder: what it says on standard output, or on standard error where it fails."""
    monkeypatch.chdir(tmp_path)

    def plan(*arguments: str | Path, code: int = 0) -> str:
        with pytest.raises(SystemExit) as end:
            main(["plan", *map(str, arguments)])
        said = capsys.readouterr()
        assert end.value.code == code, said.err
        return said.err if code else said.out

    return plan


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A thousand attempts at each of two targets, one in twenty of them slow."""
    random = Random(3)
    lines = ["started_at,endpoint,latency_ms,prompt_tokens"]
    for second in range(2_000):
        took = round(random.lognormvariate(6.0, 0.3) * (12.0 if random.random() < 0.05 else 1.0))
        lines.append(f"2026-11-30T10:{second // 60:02}:{second % 60:02}Z,{'ab'[second % 2]},{took},100")
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_example_is_what_its_generator_makes() -> None:
    spec = importlib.util.spec_from_file_location("latency_log", ROOT / "examples" / "latency_log.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made = io.StringIO()
    with redirect_stdout(made), pytest.MonkeyPatch.context() as patched:
        patched.setattr(sys, "argv", ["latency_log.py", "--seed", "7"])
        module.main()
    assert made.getvalue() == EXAMPLE.read_text()


def test_a_newcomer_has_a_page_and_a_configuration_of_it(run: Run, tmp_path: Path) -> None:
    run(EXAMPLE, "--budget", "10%", "--output", "plan.html", "--write-config", "plan.yaml")
    page, config = (tmp_path / "plan.html").read_text(), (tmp_path / "plan.yaml").read_text()
    verdict = re.search(r'<p class="verdict pays">(.*?)</p>', page)
    assert verdict is not None
    assert verdict[1].startswith("Hedge to lab-west")
    assert page.count("<figcaption>") == 6
    assert "(outage)" in page
    route = loads(config, {}).routes["*"]
    assert route.targets == ("lab-east", "lab-west")
    assert route.hedges
    assert "is there already; name another file" in run(EXAMPLE, "--write-config", "plan.yaml", code=2)


def test_the_same_log_and_seed_give_the_same_bytes_and_a_terminal_sees_how_far_it_is(
    run: Run, log: Path, tmp_path: Path
) -> None:
    asked = (str(log), "--budget", "10%", "--backup", "b", "--format", "json")
    told = run(*asked, "--jobs", "1")
    ours, theirs = pty.openpty()
    command = [
        sys.executable,
        "-m",
        "hedgerow",
        "plan",
        *asked,
        "--jobs",
        "2",
        "--output",
        str(tmp_path / "again.json"),
    ]
    env = os.environ | {"PYTHONHASHSEED": "5", "TZ": "Asia/Tokyo", "TERM": "xterm"}
    with subprocess.Popen(command, stderr=theirs, env=env) as process:
        os.close(theirs)
        seen = written_to(ours)
    assert process.returncode == 0
    assert (tmp_path / "again.json").read_text() == told
    plan = json.loads(told)
    assert plan["source"]["columns"][0][:2] == ["at", "started_at"]
    assert [route["primary"] for route in plan["routes"]] == ["a"]
    assert b"100%" in seen
    assert b"judging" in seen


def written_to(terminal: int) -> bytes:
    """All of it, once nobody has its other end any more."""
    seen = b""
    with suppress(OSError):  # that is how Linux says it
        while part := os.read(terminal, 65_536):
            seen += part
    os.close(terminal)
    return seen


COMPARED = """\
targets:
  a: {base_url: "http://127.0.0.1:9001/v1", api_key: "${NO_SUCH_KEY}"}
  west: {base_url: "http://127.0.0.1:9002/v1"}
  gone: {base_url: "http://127.0.0.1:9003/v1"}
routes:
  fast: {targets: [a, west], hedge: {delay: DELAY, budget: 10%}}
  lost: {targets: [gone, a]}
  both: {targets: [west, a], hedge: {mode: race}}
"""


def test_configurations_are_judged_side_by_side(run: Run, log: Path, tmp_path: Path) -> None:
    for name, delay in (("late.yaml", "20s"), ("good.yaml", "1s")):
        (tmp_path / name).write_text(COMPARED.replace("DELAY", delay))
    named = ("--as", "b=west", "--jobs", "1")
    found = json.loads(run(log, "--compare", "late.yaml", "good.yaml", *named, "--format", "json"))
    good, late, race, _ = found["judged"]
    assert (good["config"], good["targets"], good["delay"]) == ("good.yaml", ["a", "b"], "1s")
    assert late["expected"] == late["without"] == good["without"]
    assert (race["targets"], race["delay"], race["budget"]) == (["b", "a"], "0 (a race of 2)", None)
    assert race["expected"]["extra"] > 0.99
    assert value(good["expected"]) < value(good["without"]) * 0.7
    assert 0.02 < good["expected"]["extra"] < 0.1
    assert [note for note in found["notes"] if "route lost is left out: the log knows nothing of gone" in note]
    text = run(log, "--compare", "late.yaml", "good.yaml", *named)
    assert "By p99 requests of a fare best with fast of good.yaml: " in " ".join(text.split())
    page = tmp_path / "page.html"
    run(log, "--compare", "good.yaml", *named, "--output", page)
    assert "Configurations on a log" in page.read_text()
    assert "the log has a, b; --as NAME=TARGET says" in run(log, "--compare", "good.yaml", "--jobs", "1", code=2)


def test_a_route_that_cannot_be_judged_is_left_out_of_those_that_can(run: Run, log: Path, tmp_path: Path) -> None:
    rare = [f"2026-11-30T10:{minute:02}:00Z,rare,500,100" for minute in range(30)]
    (tmp_path / "log.csv").write_text(log.read_text() + "\n".join(rare) + "\n")
    target = '{base_url: "http://127.0.0.1:9001/v1", api_key: none}'
    targets = "".join(f"  {name}: {target}\n" for name in ("a", "b", "rare"))
    routes = "  fine: {targets: [a, b]}\n  thrice: {targets: [a, b, b]}\n  few: {targets: [a, rare]}\n"
    (tmp_path / "mine.yaml").write_text(f"targets:\n{targets}routes:\n{routes}")
    asked = ("log.csv", "--compare", "mine.yaml", "--price", "a=1/0", "--price", "b=1/0", "--jobs", "1")
    found = json.loads(run(*asked, "--format", "json"))
    assert [each["route"] for each in found["judged"]] == ["fine"]
    assert found["notes"] == [
        "mine.yaml: route thrice is left out: a route that is judged may name each target once, and the primary twice",
        "mine.yaml: route few is left out: rare: too few attempts in this log to judge anything by",
    ]
    assert "extra cost per 1,000" in run(*asked)
    assert "extra cost per 1,000" not in run(*asked[:3], *asked[-2:])
    (tmp_path / "mine.yaml").write_text(f"targets:\n{targets}routes:\n  few: {{targets: [rare]}}\n")
    assert "route few is left out: rare: too few attempts" in run(*asked, code=2)


def value(outcome: dict[str, list[dict[str, float]]]) -> float:
    return next(each["value"] for each in outcome["quantiles"] if each["p"] == 0.99)


def test_a_failure_is_slower_than_any_answer() -> None:
    """Of a thousand requests: who gives up on the slow ones gains nothing by it."""

    def outcome(answers: int, slowest: float = 1_000.0) -> Outcome:
        took = np.append(np.linspace(1.0, slowest, 1_000)[:answers], np.full(1_000 - answers, np.nan))
        none = np.zeros(1_000, dtype=np.int64)
        return outcome_of([Flown(took, none, none, none, ())], 0.99)

    whole, hasty, rash, rasher = outcome(1_000), outcome(992, 1_001.0), outcome(980), outcome(900)
    answers = [next(each.value for each in one.quantiles if each.p == 0.99) for one in (whole, hasty, rash, rasher)]
    assert answers == sorted(answers, reverse=True)
    assert (whole.of_all, rash.of_all, rasher.of_all) == (990.0, inf, inf)
    assert 990.0 < hasty.of_all < 992.0
    assert sorted([rasher, hasty, rash, whole], key=served) == [whole, hasty, rash, rasher]


def test_who_fails_many_requests_is_not_the_fastest(run: Run, tmp_path: Path) -> None:
    random = Random(4)
    lines = ["started_at,endpoint,latency_ms,status"]
    for second in range(2_000):
        status = 500 if second % 2 == 0 and random.random() < 0.04 else 200
        took = 300 if second % 2 == 0 else 3_000
        lines.append(f"2026-11-30T10:{second // 60:02}:{second % 60:02}Z,{'ab'[second % 2]},{took},{status}")
    (tmp_path / "failing.csv").write_text("\n".join(lines) + "\n")
    target = '  NAME: {base_url: "http://127.0.0.1:9001/v1", api_key: none}\n'
    targets = f"targets:\n{target.replace('NAME', 'a')}{target.replace('NAME', 'b')}"
    (tmp_path / "alone.yaml").write_text(f"{targets}routes:\n  alone: {{targets: [a], hedge: {{delay: off}}}}\n")
    (tmp_path / "both.yaml").write_text(f"{targets}routes:\n  both: {{targets: [a, b], hedge: {{delay: off}}}}\n")
    asked = ("failing.csv", "--compare", "alone.yaml", "both.yaml", "--jobs", "1")
    both, alone = json.loads(run(*asked, "--format", "json"))["judged"]
    assert (both["route"], both["expected"]["failed"]) == ("both", 0.0)
    assert both["expected"]["of_all"] == value(both["expected"]) == pytest.approx(3.3)
    assert value(alone["expected"]) == pytest.approx(0.3)
    assert alone["expected"]["of_all"] is alone["without"]["of_all"] is None
    said = " ".join(run(*asked).split())
    assert "By p99 (a failure counts as slower than any answer) requests of a fare best with both of both.yaml:" in said
    assert "then alone of alone.yaml: a failure, 300 ms of answers for 0 % extra attempts, and 4." in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no.csv"], "no.csv: there is no such file"),
        (["LOG", "--budget", "5"], "--budget 5: expected a share of requests"),
        (["LOG", "--budget", "0usd"], "such as 2usd"),
        (["LOG", "--budget", "2usd"], "a budget in money needs prices"),
        (["LOG", "--price", "a=cheap"], "--price a=cheap: expected TARGET=INPUT/OUTPUT in dollars per million tokens"),
        (["LOG", "--target-quantile", "0.99"], "--target-quantile 0.99: expected a percentile"),
        (["LOG", "--primary", "c"], "c: the log has no such target; it has a, b"),
        (["LOG", "--map", "speed=latency_ms"], "--map speed=latency_ms"),
        (["LOG", "now.yaml"], "now.yaml is no log; to judge configurations: --compare now.yaml"),
        (["now.yaml", "--compare", "new.yaml"], "name one before it"),
        (["LOG", "--compare", "no.yaml"], "no.yaml: there is no such file"),
        (["LOG", "--compare", "now.yaml", "--as", "c"], "--as c: expected NAME=TARGET"),
        (["LOG", "--compare", "now.yaml", "--as", "c=a"], "--as c=a: the log has no such target"),
        (["LOG", "--compare", "now.yaml", "--as", "a=east"], "--as a=east: no configuration has such a target"),
        (["LOG", "--compare", "now.yaml", "--write-config", "w.yaml"], "--write-config goes with no --compare"),
        (["LOG", "--as", "a=b"], "--as goes with --compare"),
        (["LOG", "--price", "c=1/2"], "c: the log has no such target; it has a, b"),
        (
            ["LOG", "--compare", "now.yaml", "--as", "b=west", "--price", "west=1/2"],
            "--price west=...: the log has no such target; it has a, b",
        ),
        (["LOG", "--compare", "now.yaml", "--budget", "5%", "--primary", "a"], "--budget and --primary: not with"),
        (["LOG", "--output", "LOG"], "that is read from; name another file"),
        (["LOG", "--output", "p.html", "--write-config", "p.html"], "both say p.html; name two files"),
    ],
)
def test_what_cannot_be_done_is_said(run: Run, log: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "now.yaml").write_text(COMPARED.replace("DELAY", "1s"))
    assert said in run(*[str(log) if each == "LOG" else each for each in arguments], code=2)


def test_names_in_a_log_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    rows = (
        f"2026-11-30T00:{at // 60:02}:{at % 60:02}Z,{0.5 + at % 7},\x1b]0;owned\x07\x1b[31mred" for at in range(300)
    )
    (tmp_path / "odd.csv").write_text("at,ttft_s,target\n" + "\n".join(rows) + "\n")
    said = run(tmp_path / "odd.csv")
    assert "\x1b]" not in said
    assert r"\x1b]0;owned\x07\x1b[31mred" in said.replace("\n", "")


@pytest.mark.parametrize(("missing", "extra"), [("duckdb", "planner"), ("numpy", "planner"), ("jinja2", "report")])
def test_what_is_not_installed_is_named(
    run: Run, log: Path, monkeypatch: pytest.MonkeyPatch, missing: str, extra: str
) -> None:
    monkeypatch.setattr("hedgerow.cli.making.find_spec", lambda name: None if name == missing else object())
    said = run(log, "--format", "html", code=2)
    assert f"the planner needs {missing}: {install(extra)}" in said


def test_help_needs_nothing_of_what_plans_need() -> None:
    code = (
        "import sys; from hedgerow.cli.app import build; build(); print(sorted({'numpy', 'duckdb'} & {*sys.modules}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "[]\n"


def test_money_and_prices_are_understood(run: Run, log: Path) -> None:
    told = json.loads(
        run(
            log,
            "--budget",
            "$0.4",
            "--price",
            "a=5/0",
            "--price",
            "b=5/0",
            "--backup",
            "b",
            "--jobs",
            "1",
            "--format",
            "json",
        )
    )
    (option,) = told["routes"][0]["options"]
    assert option["budget"] == {"share": None, "usd_per_1000": 0.4}
    assert option["choice"]["backup"] == "b"
    assert 0.0 < option["expected"]["usd_per_1000"] <= 0.41
