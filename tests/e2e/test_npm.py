"""The openai npm SDK through the gateway."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.support import GatewayProcess, config

pytestmark = pytest.mark.e2e

NPM = Path(__file__).parent / "npm"
"""The client, and the SDK's version and hash."""
CACHE = Path(__file__).resolve().parents[2] / ".e2e-npm"
"""Where the SDK is installed, once for each lock file."""
SPOKEN = "backup A hedge is a row of shrubs planted close"

Results = tuple[dict[str, Any], LabProcess]


def installed() -> Path:
    """The folder of the client with its SDK. Skips, and says so, where there is no node or no way to install it."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("NOT RUN: the openai npm SDK was not tried, for there is no node and npm on this machine")
    lock = (NPM / "package-lock.json").read_bytes()
    done = CACHE / "node_modules" / "installed.json"
    if not done.exists() or done.read_bytes() != lock:
        CACHE.mkdir(exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(NPM / name, CACHE)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        made = subprocess.run(command, cwd=CACHE, capture_output=True, text=True, check=False, timeout=100)
        if made.returncode != 0:
            pytest.skip(
                f"NOT RUN: the openai npm SDK was not tried, for npm could not install it: {made.stderr[-300:]}"
            )
        done.write_bytes(lock)
    shutil.copy(NPM / "client.mjs", CACHE)
    return CACHE


@pytest.fixture(scope="module")
def run() -> Iterator[Results]:
    """What the client found, and the primary it found it with."""
    folder = installed()
    with (
        LabProcess(["--name", "primary", "--preset", "fast"]) as primary,
        LabProcess(["--name", "backup", "--preset", "fast"]) as backup,
        GatewayProcess(config(primary.base_url, backup.base_url, delay="300ms")) as gateway,
    ):
        command = ["node", "client.mjs", gateway.base_url]
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=60)
        assert ran.returncode == 0, ran.stderr
        yield json.loads(ran.stdout), primary


EXPECTED: dict[str, Any] = {
    "models": ["fast"],
    "chat": "primary A hedge",
    "stream": {"text": SPOKEN, "target": "backup", "attempts": "2"},
    "tools": {"reason": "tool_calls", "name": "weather", "arguments": {"city": SPOKEN}},
    "response": {"text": "primary A hedge", "status": "incomplete"},
    "responseStream": {"text": SPOKEN, "last": "response.completed", "target": "backup", "attempts": "2"},
    "embeddings": [4, 4],
    "brokenStream": {"kind": "APIError", "status": None, "code": "protocol"},
    "badRequest": {"kind": "BadRequestError", "status": 400, "code": "string_too_long"},
    "everywhereDown": {"kind": "InternalServerError", "status": 500, "code": None},
}


@pytest.mark.parametrize("call", EXPECTED)
def test_the_npm_sdk(run: Results, call: str) -> None:
    assert run[0][call] == EXPECTED[call]


def test_nothing_else_was_called(run: Results) -> None:
    assert set(run[0]) == set(EXPECTED)


def test_used_up_attempts_are_not_repeated_by_the_npm_sdk(run: Results) -> None:
    assert len(run[1].log(key="down")) == 1
