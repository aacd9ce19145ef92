"""Set-up says plainly what it lacks; what it does when nothing is lacking, every other test shows by running."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder with what set-up reads, and without a .venv."""
    for name in ("scripts", "requirements"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def pretend(clone: Path, name: str, script: str) -> None:
    """Put a program called `name` on the PATH of `make_in`."""
    program = clone / "bin" / name
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def make_in(clone: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    path = f"{clone / 'bin'}:{os.environ['PATH']}"
    pretend(clone, "id", "echo 1000")
    pretend(clone, "sudo", "exit 1")
    clean = {key: value for key, value in os.environ.items() if key not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    return subprocess.run(
        ["make", "-s", *arguments],
        cwd=clone,
        env=clean | {"PATH": path} | env,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_an_old_python_is_refused_with_what_to_do(clone: Path) -> None:
    pretend(clone, "python-old", "exit 1")
    result = make_in(clone, "setup-run", PYTHON="python-old")
    assert result.returncode != 0
    assert "hedgerow needs Python 3.11 or newer" in result.stderr
    assert not (clone / ".venv").exists()


def test_without_the_venv_module_and_without_root_the_command_to_run_is_said(clone: Path) -> None:
    pretend(clone, "python-bare", 'case "$2" in *ensurepip*) exit 1;; *print*) echo python3.12-venv;; esac')
    result = make_in(clone, "setup-run", PYTHON="python-bare")
    assert result.returncode != 0
    assert "apt-get install python3.12-venv" in result.stderr
    assert not (clone / ".venv").exists()


def test_a_missing_system_program_is_said_loudly_and_stops_nothing(clone: Path) -> None:
    pretend(clone, "id", "echo 1000")
    pretend(clone, "sudo", "exit 1")
    result = subprocess.run(
        ["bash", "scripts/need.sh", "no-such-program"],
        cwd=clone,
        env=os.environ | {"PATH": f"{clone / 'bin'}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert result.returncode == 0
    assert "WILL NOT RUN" in result.stderr
    assert "apt-get install no-such-program" in result.stderr


def test_make_alone_lists_every_documented_target(clone: Path) -> None:
    listed = make_in(clone).stdout
    for target in ("demo", "test", "check", "fmt", "docs", "bench", "eval", "e2e-llm", "lock", "clean"):
        assert f"make {target} " in listed
