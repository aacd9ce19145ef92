"""A running gateway learns what a probe has found, says so, and hedges no more to a target that does not stop."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.raw import ask
from tests.e2e.support import INHERITED, GatewayProcess, chat, config, script, until

pytestmark = pytest.mark.e2e

TOKEN = "an-admins-own-token"
LATE = {"x-lab-script-primary": script(ttft_ms=500, gap_ms=0, tokens=2)}
FAST = ("--p50-ms", "20", "--p95-ms", "30", "--gap-ms", "2", "--jitter", "0")


def probe(gateway: GatewayProcess) -> int:
    """`hedgerow probe backup` beside the gateway's configuration; its exit code."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    command = [sys.executable, "-P", "-m", "hedgerow", "probe", "backup", "--config", str(gateway.file), "--yes"]
    folder = gateway.file.parent
    return subprocess.run(
        [*command, "--model", "m", "--tokens", "100"],
        cwd=folder,
        env=inherited | {"HOME": str(folder)},
        capture_output=True,
        check=False,
        timeout=60,
    ).returncode


def answered(gateway: GatewayProcess) -> tuple[str, str]:
    """The target that answers a request to a late primary, and how many attempts there were."""
    reply = asyncio.run(ask(gateway.address, "POST", "/v1/chat/completions", chat(stream=True), LATE))
    assert reply.status == 200
    return reply.target, reply.headers["x-hedgerow-attempts"]


def cancel(gateway: GatewayProcess) -> dict[str, Any]:
    """What the admin API says of how the backup cancels."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    reply = asyncio.run(ask(gateway.address, "GET", "/admin/api/targets", None, headers))
    view: dict[str, Any] = json.loads(bytes(reply.body))["targets"][1]["cancel"]
    return view


def events(log: Path, kind: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in log.read_text().splitlines()]
    return [event for event in found if event["event"] == kind]


def test_what_a_probe_finds_is_acted_on_without_a_restart(tmp_path: Path) -> None:
    log = tmp_path / "events.jsonl"
    server = {"admin": {"token": TOKEN}, "event_log": str(log)}
    with (
        LabProcess(["--name", "primary"]) as primary,
        LabProcess(["--name", "backup", *FAST, "--ignore-cancel"]) as backup,
    ):
        settings = config(primary.base_url, backup.base_url, delay="100ms", server=server)
        settings["targets"]["backup"]["on_cancel_failure"] = "disable"
        with GatewayProcess(settings) as gateway:
            assert answered(gateway) == ("backup", "2")
            assert cancel(gateway)["streams_stop"] is None
            assert probe(gateway) == 3
            until(lambda: "target backup goes on with what is cancelled there" in gateway.log, within=20.0)
            assert answered(gateway) == ("primary", "1")
            view = cancel(gateway)
            assert (view["streams_stop"], view["whole_answers_stop"], view["on_failure"]) == (False, False, "disable")
            until(lambda: bool(events(log, "hedge_skipped")))
            [skipped] = events(log, "hedge_skipped")
            assert (skipped["reason"], skipped["detail"]) == (
                "cancel_failure",
                "backup goes on when cancelled (on_cancel_failure: disable)",
            )
            [failed] = events(log, "cancel_failed")
            assert (failed["target"], failed["fails"], failed["action"]) == ("backup", True, "disable")

            kept = gateway.file.with_suffix(".probes.json")
            kept.write_text(json.dumps({"version": 1, "targets": {}}))
            until(lambda: "target backup stops what is cancelled there" in gateway.log, within=20.0)
            assert answered(gateway) == ("backup", "2")


def test_results_that_do_not_count_are_told_at_the_start() -> None:
    with LabProcess(["--name", "primary"]) as primary:
        settings = config(primary.base_url)
        result: dict[str, Any] = {
            "at": "2020-01-01T00:00:00Z",
            "base_url": primary.base_url,
            "model": "m",
            "protocol": "openai",
            "witness": None,
            "first_token": 0.1,
            "token_gap": 0.01,
            "findings": [],
        }
        kept = json.dumps({"version": 1, "targets": {"primary": result, "gone": result}})
        with GatewayProcess(settings, files={"hedgerow.probes.json": kept}) as gateway:
            until(lambda: "what is said of target primary does not count" in gateway.log)
            assert "it was probed more than 30 days ago; hedgerow probe primary" in gateway.log
            assert "gone" not in gateway.log


def test_a_broken_file_of_results_keeps_nobody_from_serving() -> None:
    with (
        LabProcess(["--name", "primary"]) as primary,
        GatewayProcess(config(primary.base_url), files={"hedgerow.probes.json": "{"}) as gateway,
    ):
        until(lambda: "is not what hedgerow probe writes" in gateway.log)
        assert answered(gateway) == ("primary", "1")
