"""Ten thousand requests of every kind, many of them abandoned; afterwards nothing of them is left."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from hedgerow.config import load
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.lab.process import LabProcess
from tests.e2e.leaks import Crowd, Kind, serve_a_crowd
from tests.e2e.raw import ask
from tests.e2e.support import Config, GatewayProcess, chat, config, script, until

pytestmark = pytest.mark.e2e

IDLE = 1.0
"""Seconds a pool of the gateway keeps a connection that nobody uses."""
MIB = 1024 * 1024

Labs = tuple[LabProcess, LabProcess]


def at_primary(**fields: Any) -> dict[str, str]:
    return {"x-lab-script-primary": script(**fields)}


def everywhere(**fields: Any) -> dict[str, str]:
    return {"x-lab-script": script(**fields)}


STREAM, WHOLE, LARGE = chat(stream=True, max_tokens=4), chat(max_tokens=4), chat(max_tokens=2, padding="x" * 100_000)
CHAT = "/v1/chat/completions"
ORDINARY: list[Kind] = [
    ("POST", CHAT, STREAM, {}, {200}),
    ("POST", CHAT, STREAM, {}, {200}),
    ("POST", CHAT, WHOLE, {}, {200}),
    ("POST", CHAT, LARGE, {}, {200}),
]
KINDS: list[Kind] = [
    *ORDINARY,
    ("POST", CHAT, STREAM, at_primary(fault="stall"), {200}),
    ("POST", CHAT, STREAM, at_primary(fault="hang"), {200}),
    ("POST", CHAT, WHOLE, at_primary(fault="hang"), {200}),
    ("POST", CHAT, STREAM, at_primary(status=500), {200}),
    ("POST", CHAT, WHOLE, at_primary(status=429), {200}),
    ("POST", CHAT, WHOLE, everywhere(status=529), {529}),
    ("POST", CHAT, STREAM, everywhere(status=400), {400}),
    ("POST", CHAT, STREAM, everywhere(fault="stall"), {504}),
    ("POST", CHAT, STREAM, everywhere(fault="cut", tokens=6, at=2), {200}),
    ("POST", CHAT, STREAM, everywhere(fault="close", tokens=6, at=2), {200}),
    ("POST", CHAT, STREAM, everywhere(fault="error", tokens=6, at=2), {200}),
    ("POST", CHAT, STREAM, everywhere(fault="stall", tokens=6, at=2), {200}),
    *ORDINARY,
    *ORDINARY,
    ("POST", CHAT, STREAM, everywhere(tokens=300, gap_ms=0), {200}),
    ("POST", CHAT, b"{", {}, {400}),
    ("POST", "/v1/batches", WHOLE, {}, {200}),
    ("GET", "/v1/files?limit=2", None, {}, {200}),
    ("GET", "/v1/models", None, {}, {200}),
    ("GET", "/nowhere", None, {}, {404}),
]


@pytest.fixture(scope="module")
def labs() -> Iterator[Labs]:
    fast = ["--p50-ms", "2", "--p95-ms", "6", "--gap-ms", "0.5"]
    with LabProcess(["--name", "primary", *fast]) as primary, LabProcess(["--name", "backup", *fast]) as backup:
        yield primary, backup


def settings(labs: Labs) -> Config:
    """Everything happens quickly: hedges, timeouts, the end of idle connections."""
    timeouts = {"first_token": "500ms", "stall": "500ms", "total": "2s"}
    made = config(*(lab.base_url for lab in labs), delay="15ms", timeouts=timeouts, server={"log_level": "error"})
    for target in made["targets"].values():
        target["connections"] = {"idle_timeout": f"{IDLE:g}s"}
    return made


def test_ten_thousand_requests_leave_nothing_in_the_process(labs: Labs) -> None:
    def quiet() -> None:
        until(lambda: [lab.stats()["open"] for lab in labs] == [0, 0])

    def load_with(gateway: GatewayProcess, requests: int, seed: int) -> Counter[str]:
        async def story() -> Counter[str]:
            crowd = Crowd(gateway.address, seed, KINDS)
            await crowd.send(requests)
            return crowd.outcomes

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(story())

    with GatewayProcess(settings(labs)) as gateway:
        load_with(gateway, 200, 1)
        quiet()
        time.sleep(IDLE + 0.5)
        base = gateway.fds()
        outcomes = load_with(gateway, 5_000, 2)
        half = gateway.memory()
        outcomes += load_with(gateway, 5_000, 3)
        quiet()
        assert gateway.memory() - half < 4 * MIB
        until(lambda: gateway.fds() == base)
        reply = asyncio.run(ask(gateway.address, "GET", "/livez"))
        assert reply.status == 200
        assert outcomes.total() == 10_000
        assert outcomes["too late"] < 100
        assert min(outcomes["left without an answer"], outcomes["left in the middle"]) > 20, outcomes
    phases = ("cancelled_before_headers", "cancelled_before_token", "cancelled_mid_stream", "failed", "completed")
    counted = {phase: sum(lab.stats()[phase] for lab in labs) for phase in phases}
    assert min(counted.values()) > 100, counted


def test_ten_thousand_requests_leave_no_task_timer_socket_or_object(labs: Labs, tmp_path: Path) -> None:
    file = tmp_path / "hedgerow.yaml"
    file.write_text(json.dumps(settings(labs)))
    assert serve_a_crowd(blueprint_of(load(file)), KINDS, 10_000).total() == 10_000
    until(lambda: [lab.stats()["open"] for lab in labs] == [0, 0])


def every_mode(labs: Labs) -> Config:
    """A route for each of the ways to pick targets and answers."""
    made = settings(labs)
    common = {key: value for key, value in made["routes"]["fast"].items() if key != "hedge"}
    hedge = made["routes"]["fast"]["hedge"]
    race = {"mode": "race"}
    for target in made["targets"].values():
        target["continues"] = "last_message"
    made["targets"]["primary"] |= {"api_keys": ["sk-1", "sk-2"], "idempotency_header": "Idempotency-Key"}
    made["routes"] |= {
        "raced": {**common, "hedge": race},
        "kept": {
            **common,
            "hedge": race,
            "losers": "keep",
            "keep": {"ttl": "1s", "max_time": "200ms", "scope": "content"},
        },
        "late": {**common, "hedge": hedge, "losers": "keep", "keep": {"ttl": "2s", "max_time": "100ms"}},
        "chained": {**common, "hedge": {"mode": "chain"}, "timeouts": {"first_token": "100ms", "total": "2s"}},
        "gated": {**common, "hedge": hedge, "gates": {"require": [{"min_tokens": 4}], "wait": "100ms"}},
        "held": {
            **common,
            "hedge": hedge,
            "losers": "keep",
            "keep": {"ttl": "1s", "max_time": "200ms"},
            "gates": {
                "require": ["non_empty", {"not_matches": "shrubs"}],
                "strict": True,
                "prefix": {"tokens": 8, "time": "1s"},
            },
        },
        "rotated": {**common, "hedge": hedge, "order": "rotate", "sticky": {"by": "x-session", "ttl": "1s"}},
        "fastest": {**common, "hedge": hedge, "order": "fastest"},
        "once": {**common, "hedge": hedge, "idempotency": {"window": "1s", "linger": "1s", "streams": True}},
        "continued": {**common, "hedge": hedge, "on_stall": "continue"},
        "begun anew": {**common, "hedge": hedge, "on_stall": "restart", "nonstream_as_stream": True},
    }
    return made


NAMED = ("rotated", "once", "late")
RESCUED = ("continued", "begun anew")
MORE = {"once": {409, 422}, "held": {502}}
"""What requests of these routes may be answered as well."""


def mixed() -> list[Kind]:
    """What is asked of each route, with and without trouble."""
    troubles: list[tuple[dict[str, str], set[int]]] = [
        ({}, {200}),
        ({}, {200}),
        (at_primary(fault="stall"), {200}),
        (at_primary(fault="hang"), {200}),
        (at_primary(status=500), {200}),
        (everywhere(fault="cut", tokens=6, at=2), {200, 502}),
        (everywhere(status=529), {529}),
        (everywhere(tokens=3), {200}),
        (everywhere(tokens=60), {200}),
    ]
    rescues = [(at_primary(fault=fault, tokens=6, at=2), {200}) for fault in ("cut", "error", "stall")]
    kinds: list[Kind] = []
    models = "fast", "raced", "kept", "late", "chained", "gated", "held", "rotated", "fastest", "once", *RESCUED
    for model in models:
        for headers, statuses in troubles if model not in RESCUED else troubles + rescues:
            for number, stream in enumerate((True, False)):
                if stream and model == "begun anew" and (headers, statuses) in rescues:
                    continue  # a stream is not begun anew
                body = chat(model=model, stream=stream)
                fields = headers | ({} if model not in NAMED else {"x-session": model, "x-hedgerow-request-id": "same"})
                if model == "once":
                    fields["idempotency-key"] = str(number)  # often with another body
                kinds.append(("POST", CHAT, body, fields, statuses | MORE.get(model, set())))
                if number and model in ("kept", "late"):
                    kinds.append(("POST", CHAT, body, {**headers, "cache-control": "no-store"}, statuses))
    return kinds


def test_ten_thousand_requests_of_every_mode_leave_nothing(labs: Labs, tmp_path: Path) -> None:
    file = tmp_path / "hedgerow.yaml"
    file.write_text(json.dumps(every_mode(labs)))
    outcomes = serve_a_crowd(blueprint_of(load(file)), mixed(), 10_000)
    assert outcomes.total() == 10_000
    assert outcomes["too late"] < 500, outcomes
    assert outcomes["200 True"] > 3_000, outcomes
    until(lambda: [lab.stats()["open"] for lab in labs] == [0, 0])
