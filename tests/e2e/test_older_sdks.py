"""The transports in the SDKs that are built on httpx. Those of httpx2 that came after are in test_transports.

They lie in a folder of their own, before the newest in the path of the process that calls them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import Labs, until

pytestmark = pytest.mark.e2e

OLDER = Path(__file__).parent / "older"
"""The calls, and the SDKs' versions and hashes."""
CACHE = Path(__file__).resolve().parents[2] / ".e2e-older-sdks"
"""Where the SDKs are installed, once for each list of versions."""
SPOKEN = "backup A hedge is a row of shrubs planted close together; it marks a border, keeps the wind from the"
STALLED_TWICE_AND_FAILED = ["cancelled_before_headers", "cancelled_before_token", "failed"]


def installed() -> str:
    """The folder of the older SDKs. Skips, and says so, where they cannot be installed."""
    wanted = OLDER / "requirements.txt"
    done = CACHE / "installed.txt"
    if not done.exists() or done.read_bytes() != wanted.read_bytes():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--no-deps", "--no-compile"]
        command += ["--require-hashes", "--upgrade", "--target", str(CACHE), "--requirement", str(wanted)]
        made = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
        if made.returncode != 0:
            pytest.skip(f"NOT RUN: the SDKs of httpx were not tried, for pip could not get them: {made.stderr[-300:]}")
        done.write_bytes(wanted.read_bytes())
    return str(CACHE)


def test_stalled_primaries_are_hedged_and_errors_are_the_sdks_own(labs: Labs) -> None:
    """openai and anthropic, async and sync, groq and mistralai, async; whole and streamed."""
    path = {"PYTHONPATH": installed()}
    command = [sys.executable, "-W", "error", str(OLDER / "client.py"), "httpx", *(lab.url for lab in labs)]
    ran = subprocess.run(command, env=os.environ | path, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    each = {"whole": SPOKEN, "streamed": SPOKEN, "failed": 429}
    found = {sdk: [each, each] for sdk in ("openai", "anthropic", "others")}
    assert json.loads(ran.stdout) == {"versions": [2, 0], **found}
    primary, backup = labs
    until(lambda: all(one["closed_at"] is not None for lab in labs for one in lab.log()))
    assert [one["ending"] for one in primary.log()] == STALLED_TWICE_AND_FAILED * 6
    assert [one["ending"] for one in backup.log()] == ["completed", "completed", "failed"] * 6
