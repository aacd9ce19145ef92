"""How the serving process is started: what it imports, what it inherits, what it says when it cannot serve."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from hedgerow.cli import launch
from hedgerow.cli.process import LaunchRecord
from hedgerow.config import loads
from hedgerow.gateway.drafting import blueprint_of

ONE = """\
targets: {a: {base_url: "https://a.example/v1", api_key: sk-a}}
routes: {fast: {targets: [a]}}
server: {listen: "127.0.0.1:0"}
"""


def run(code: str, *options: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    command = [sys.executable, *options, "-c", code]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=20)


def record() -> LaunchRecord:
    return LaunchRecord(blueprint_of(loads(ONE, {}), environ={}), ("hello {url}",), True)


def test_the_serving_process_imports_no_reader_of_configurations_and_command_lines() -> None:
    done = run("import sys, hedgerow.cli.process, hedgerow.gateway.app, uvloop, aiofastnet; print(*sys.modules)")
    modules = set(done.stdout.split())
    assert "hedgerow.gateway.build" in modules, done.stderr
    assert (
        not {"hedgerow.config", "hedgerow.cli.app", "pydantic", "pydantic_core", "typer", "click", "rich", "yaml"}
        & modules
    )


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_record_is_kept_in_an_open_file_without_a_name(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    descriptor = launch._nameless(msgspec.msgpack.encode(record()))
    try:
        assert os.get_inheritable(descriptor)
        assert os.fstat(descriptor).st_nlink == 0
        assert msgspec.msgpack.decode(os.read(descriptor, 1 << 20), type=LaunchRecord) == record()
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ([], []),
        (["-P"], []),
        (["-I"], ["-E", "-s", "-I"]),
        (["-OO", "-B"], ["-B", "-O", "-O"]),
        (
            ["-X", "utf8", "-Xint_max_str_digits=5000", "-W", "error::BytesWarning"],
            ["-X", "utf8", "-X", "int_max_str_digits=5000", "-Werror::BytesWarning"],
        ),
    ],
)
def test_options_of_the_interpreter_carry_over(given: list[str], kept: list[str]) -> None:
    code = "from hedgerow.cli.launch import interpreter_options as o; print(*o(), sep='\\n')"
    assert run(code, *given).stdout.split("\n")[:-1] == (kept or [""])


def test_a_ctrl_c_in_the_middle_of_the_launch_ends_in_a_word_and_code_130(tmp_path: Path) -> None:
    data = tmp_path / "record"
    data.write_bytes(msgspec.msgpack.encode(record()))
    code = f"""
import os, signal, msgspec
from hedgerow.cli.launch import launch
from hedgerow.cli.process import LaunchRecord
become = os.execv
def interrupted(*command):
    os.kill(os.getpid(), signal.SIGINT)
    become(*command)
os.execv = interrupted
launch(msgspec.msgpack.decode(open({str(data)!r}, "rb").read(), type=LaunchRecord), asked=[])
"""
    done = run(code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "hedgerow: interrupted\n")


def test_where_nothing_can_be_started_ctrl_c_works_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(FileNotFoundError):
        launch.launch(record(), asked=[])
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
