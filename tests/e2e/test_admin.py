"""An operator changes a running gateway, over the admin API and by signal; requests and the event log show it."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hedgerow.gateway.access import Token
from hedgerow.lab.process import LabProcess
from tests.e2e.raw import ask
from tests.e2e.support import GatewayProcess, chat, config, script, until

pytestmark = pytest.mark.e2e

TOKEN = "an-admins-own-token"
HANG = {"x-lab-script-primary": script(fault="hang")}
SLOW = {"x-lab-script-primary": script(ttft_ms=600, gap_ms=0, tokens=2)}


class Operated:
    """A gateway with an admin API and an event log."""

    def __init__(self, gateway: GatewayProcess, event_log: Path) -> None:
        self.gateway = gateway
        self._event_log = event_log

    def admin(self, method: str, path: str = "", body: object = None) -> tuple[int, Any]:
        """Status and body of a request to the admin API."""
        sent = None if body is None else json.dumps(body).encode()
        headers = {"authorization": f"Bearer {TOKEN}"}
        reply = asyncio.run(ask(self.gateway.address, method, f"/admin/api{path}", sent, headers))
        return reply.status, json.loads(bytes(reply.body))

    def target(self, headers: dict[str, str]) -> str:
        """Which target answered a request."""
        reply = asyncio.run(ask(self.gateway.address, "POST", "/v1/chat/completions", chat(), headers))
        assert reply.status == 200
        return reply.target

    def logged(self, words: str) -> None:
        """Wait until the log says this."""
        until(lambda: words in self.gateway.log)

    def changes(self, wanted: int) -> list[dict[str, Any]]:
        """So many changes, as the event log tells them."""

        def told() -> list[dict[str, Any]]:
            lines = [json.loads(line) for line in self._event_log.read_text().splitlines()]
            return [line for line in lines if line["event"] == "controls_changed"]

        until(lambda: len(told()) >= wanted)
        return told()


@pytest.fixture
def operated(tmp_path: Path) -> Iterator[Operated]:
    events = tmp_path / "events.jsonl"
    server = {"admin": {"token": TOKEN}, "event_log": str(events)}
    fast = ["--p50-ms", "5", "--p95-ms", "10"]
    with (
        LabProcess(["--name", "primary", *fast]) as primary,
        LabProcess(["--name", "backup", *fast]) as backup,
        GatewayProcess(config(primary.base_url, backup.base_url, delay="50ms", server=server)) as gateway,
    ):
        yield Operated(gateway, events)


def test_the_kill_switch_of_a_route_over_the_admin_api(operated: Operated) -> None:
    assert operated.target(SLOW) == "backup"
    status, told = operated.admin("PATCH", "/routes/fast", {"kill_switch": True})
    assert (status, told["controls"]["kill_switch"]) == (200, True)
    assert operated.target(SLOW) == "primary"
    assert operated.admin("PATCH", "/routes/fast", {"kill_switch": False})[0] == 200
    assert operated.target(SLOW) == "backup"


def test_the_kill_switch_of_all_routes_by_signal_is_loud_and_on_record(operated: Operated) -> None:
    for on, target, word in ((True, "primary", "ON"), (False, "backup", "OFF")):
        operated.gateway.process.send_signal(signal.SIGUSR1)
        operated.logged(f"WARNING hedgerow.gateway all routes: KILL SWITCH {word}")
        assert operated.admin("GET")[1]["controls"]["kill_switch"] is on
        assert operated.target(SLOW) == target
    first, second = operated.changes(2)
    assert (first["route"], first["changes"], first["by"]) == (None, {"kill_switch": True}, "SIGUSR1")
    assert second["changes"] == {"kill_switch": False}
    assert second["time"] > first["time"] > 1e9


def test_another_delay_holds_at_once_and_who_set_it_is_on_record(operated: Operated) -> None:
    assert operated.admin("PATCH", "/routes/fast", {"delay": "5s"})[0] == 200
    assert operated.target(SLOW) == "primary"
    assert operated.admin("PATCH", "/routes/fast", {"delay": "10ms"})[0] == 200
    assert operated.target(HANG) == "backup"
    first, _ = operated.changes(2)
    assert (first["route"], first["changes"], first["by"]) == ("fast", {"delay": "5s"}, Token(TOKEN).fingerprint)
    assert TOKEN not in operated.gateway.log


def test_the_gateway_under_load_shows_itself(operated: Operated) -> None:
    assert operated.target(SLOW) == "backup"
    (route,) = operated.admin("GET", "/routes")[1]["routes"]
    assert (route["name"], route["targets"], route["in_flight"]) == ("fast", ["primary", "backup"], 0)
    first, second = operated.admin("GET", "/targets")[1]["targets"]
    assert (first["name"], second["name"]) == ("primary", "backup")
    assert second["connections"]["open"] == 1
    assert second["out_for"] is None
