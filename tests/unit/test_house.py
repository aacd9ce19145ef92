"""The house rules bite: what the linters are set up to catch is caught, and what no linter knows is checked here."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def run(*command: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, env=os.environ | (env or {}), capture_output=True, text=True, check=False, timeout=60
    )


def tool(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def test_ruff_refuses_clocks_and_global_randomness_in_src(tmp_path: Path) -> None:
    banned = [
        "time.time()",
        "time.monotonic()",
        "time.perf_counter()",
        "time.sleep(1)",
        "datetime.datetime.now(datetime.UTC)",
        "datetime.date.today()",
        "random.random()",
        "random.choice([1])",
        "random.lognormvariate(0, 1)",
    ]
    planted = tmp_path / "src" / "hedgerow" / "planted.py"
    planted.parent.mkdir(parents=True)
    header = ["import datetime", "import random", "import time", "from time import monotonic", ""]
    planted.write_text("\n".join([*header, *banned, "random.Random(7).random()", ""]))

    config = str(ROOT / "pyproject.toml")
    ruff = [tool("ruff"), "check", "--no-cache", "--config", config, "--select", "TID251", "--output-format", "json"]
    found = json.loads(run(*ruff, str(planted)).stdout)

    lines = planted.read_text().splitlines()
    caught = {lines[item["location"]["row"] - 1] for item in found}
    assert caught == {*banned, "from time import monotonic"}


@pytest.mark.parametrize(
    ("module", "line", "verdict"),
    [
        ("policy/planted.py", "import hedgerow.gateway", "Arrows run only downwards BROKEN"),
        ("policy/planted.py", "import asyncio", "Decisions do no I/O and read no clock BROKEN"),
        ("wire/planted.py", "import time", "Decisions do no I/O and read no clock BROKEN"),
        ("gateway/answers.py", "import hedgerow.config", "The serving process stays lean BROKEN"),
        ("loose_end.py", "", "not listed as layers"),
    ],
)
def test_import_linter_refuses_a_planted_module(tmp_path: Path, module: str, line: str, verdict: str) -> None:
    shutil.copytree(ROOT / "src" / "hedgerow", tmp_path / "hedgerow", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    (tmp_path / "hedgerow" / module).write_text(line + "\n")

    result = run(tool("lint-imports"), "--no-cache", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})

    assert result.returncode == 1
    assert verdict in " ".join((result.stdout + result.stderr).split())


def test_modules_stay_under_300_lines() -> None:
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: length for name, length in lengths.items() if length > 300} == {}


def test_functions_stay_within_40_lines_below_their_signature() -> None:
    long = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                length = node.end_lineno - node.body[0].lineno + 1
                if length > 40:
                    long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = length
    assert long == {}


def tracked_text() -> dict[str, str]:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout, or no git: what is tracked cannot be listed")
    listed = run("git", "-c", f"safe.directory={ROOT}", "ls-files", "-z")
    assert listed.returncode == 0, listed.stderr
    texts = {}
    for name in filter(None, listed.stdout.split("\0")):
        try:
            texts[name] = (ROOT / name).read_text()
        except (UnicodeDecodeError, FileNotFoundError, IsADirectoryError):
            continue
    return texts


# A letter stands in brackets here and there, so that this file does not match itself.
FORBIDDEN = {
    "a path of somebody's machine": r"""(?:^|[\s"'`=(:])/(?:home|root|Users|work|workspace)/\w""",
    "a package index": r"(?<!no-emit-)(?:[i]ndex-url|[f]ind-links|[t]rusted-host)\b|files\.[p]ythonhosted",
    "unfinished work": r"\b(?:[T]ODO|[F]IXME|[X]XX)\b",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_tracked_file_holds(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what], re.MULTILINE)
    found = [
        f"{name}:{text.count(chr(10), 0, match.start(0)) + 1}: {match.group(0).strip()}"
        for name, text in tracked_text().items()
        for match in pattern.finditer(text)
    ]
    assert found == []


def test_locks_pin_every_package_with_hashes_and_agree_with_each_other() -> None:
    pins = {}
    for name in ("dev", "run"):
        text = (ROOT / "requirements" / f"{name}.txt").read_text()
        entries = re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE | re.IGNORECASE)[1:]
        assert entries
        for entry in entries:
            assert re.match(r"[\w.-]+==\S+", entry), entry
            assert "--hash=sha256:" in entry, entry
        pins[name] = {entry.split()[0] for entry in entries}
    assert pins["run"] <= pins["dev"]


def test_locks_hold_what_pyproject_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    run = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["gateway"]]
    dev = [line for group in groups.values() for line in group if isinstance(line, str)]
    for lock, asked in (("run", [*run, *groups["build"]]), ("dev", [*run, *dev])):
        text = (ROOT / "requirements" / f"{lock}.txt").read_text().lower()
        pinned = dict(re.findall(r"(?m)^([\w.-]+)==(\S+)", text))
        for requirement in map(Requirement, asked):
            name = re.sub(r"[-_.]+", "-", requirement.name.lower())  # as lock files spell it
            assert name in pinned, f"{name} is not in {lock}.txt: run `make lock`"
            assert requirement.specifier.contains(pinned[name]), f"{name} {pinned[name]} in {lock}.txt: run `make lock`"
