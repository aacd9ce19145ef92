"""Ten thousand requests of every kind, many of them abandoned; afterwards nothing of them is left."""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
import uvloop

from hedgerow.config import load
from hedgerow.engine import Run
from hedgerow.gateway.attempt import Attempt
from hedgerow.gateway.build import build
from hedgerow.gateway.core import LINGER, Gateway
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.gateway.flight import Flight
from hedgerow.http.client_call import ClientCall
from hedgerow.http.client_connection import ClientConnection
from hedgerow.http.server import Server
from hedgerow.http.server_connection import Connection
from hedgerow.http.server_exchange import ServerExchange
from hedgerow.lab.process import LabProcess
from hedgerow.policy.race import Race
from hedgerow.wire.chat_scan import ChatBody
from hedgerow.wire.scan import StreamScanner
from tests.e2e.raw import BROKEN, Client, Reply, ask
from tests.e2e.support import Config, GatewayProcess, chat, config, script, until

pytestmark = pytest.mark.e2e

AT_ONCE = 64
LEAVES = 0.25
"""Share of requests whose client leaves, at a random moment of their life."""
IDLE = 1.0
"""Seconds a pool of the gateway keeps a connection that nobody uses."""
MIB = 1024 * 1024

Labs = tuple[LabProcess, LabProcess]


def at_primary(**fields: Any) -> dict[str, str]:
    return {"x-lab-script-primary": script(**fields)}


def everywhere(**fields: Any) -> dict[str, str]:
    return {"x-lab-script": script(**fields)}


Kind = tuple[str, str, bytes | None, dict[str, str], set[int]]
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
BREAKS = {"cut", "close", "error", "stall"}


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


class Crowd:
    """AT_ONCE clients, each with a connection that it keeps while it can."""

    def __init__(self, address: tuple[str, int], seed: int) -> None:
        self._address = address
        self._random = Random(seed)
        self._loop = asyncio.get_running_loop()
        self.outcomes: Counter[str] = Counter()

    async def send(self, requests: int) -> None:
        """So many requests, shared among the clients."""
        numbers = iter(range(requests))
        async with asyncio.timeout(60):
            async with asyncio.TaskGroup() as group:
                for _ in range(AT_ONCE):
                    group.create_task(self._client(numbers))

    async def _client(self, numbers: Iterator[int]) -> None:
        client: Client | None = None
        try:
            for _ in numbers:
                client = client or await Client.connect(self._address)
                if not await self._request(client):
                    client.leave()
                    client = None
        finally:
            if client is not None:
                client.leave()

    async def _request(self, client: Client) -> bool:
        """One request of a random kind; whether the connection can carry another."""
        kind = self._random.choice(KINDS)
        leaves = self._random.random() < LEAVES
        timer = self._loop.call_later(self._random.uniform(0, 0.03), client.leave) if leaves else None
        try:
            reply = await client.ask(*kind[:4])
        except BROKEN:
            assert leaves, kind
            self.outcomes["left without an answer"] += 1
            return False
        if timer is not None:
            timer.cancel()
        self._note(kind, reply, leaves)
        return reply.whole and not (leaves or reply.last)

    def _note(self, kind: Kind, reply: Reply, left: bool) -> None:
        """Every answer that came is the right one, and whole exactly where it should be."""
        if reply.status not in kind[4]:
            # The backup's first token met its time limit: on a busy machine that may happen, now and then.
            assert kind[3] or reply.status == 504, (kind, reply)
            self.outcomes["too late"] += 1
            return
        behaviour = json.loads(kind[3].get("x-lab-script", "{}"))
        breaks = reply.status == 200 and behaviour.get("fault") in BREAKS
        if not left:
            assert reply.whole is not breaks, (kind, reply)
        if reply.whole and reply.status == 200 and kind[2] is STREAM:
            assert reply.body.endswith(b"data: [DONE]\n\n"), (kind, reply)
        self.outcomes["left in the middle" if left and not reply.whole else f"{reply.status} {reply.whole}"] += 1


def test_ten_thousand_requests_leave_nothing_in_the_process(labs: Labs) -> None:
    def quiet() -> None:
        until(lambda: [lab.stats()["open"] for lab in labs] == [0, 0])

    def load_with(gateway: GatewayProcess, requests: int, seed: int) -> Counter[str]:
        async def story() -> Counter[str]:
            crowd = Crowd(gateway.address, seed)
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


HELD = (Flight, Attempt, Run, Race, StreamScanner, ChatBody, ServerExchange, ClientCall, Client, Reply)


def left(*kinds: type) -> Counter[str]:
    """How many objects of these kinds exist, without asking the collector to help."""
    return Counter(type(each).__name__ for each in gc.get_objects() if isinstance(each, kinds))


def test_ten_thousand_requests_leave_no_task_timer_socket_or_object(labs: Labs, tmp_path: Path) -> None:
    file = tmp_path / "hedgerow.yaml"
    file.write_text(json.dumps(settings(labs)))
    blueprint = blueprint_of(load(file))

    async def settle(true: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not true():  # noqa: ASYNC110  (what is awaited sets no event)
                await asyncio.sleep(0.01)

    async def nothing_is_left(gateway: Gateway, server: Server) -> None:
        await Crowd(("127.0.0.1", server.port), 4).send(10_000)
        await settle(lambda: gateway.in_flight == server.connections == 0)
        await settle(lambda: len(gateway.alarm) == 0)  # it may remember finished requests until their last limit
        await asyncio.sleep(LINGER + 0.1)
        assert _lingering(gateway) == []
        assert _remembered(gateway) == [(0, 0)]
        assert left(*HELD) == Counter()
        await settle(lambda: left(ClientConnection) == Counter())  # the pools' idle ones, all the same
        assert left(Connection) == Counter()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        gateway, pools = build(blueprint, loop=loop)
        server = Server(gateway)
        await server.start("127.0.0.1", 0)
        gc.collect()
        gc.disable()
        try:
            await nothing_is_left(gateway, server)
        finally:
            await server.close()
            gateway.close()
            await asyncio.gather(*(pool.close() for pool in pools))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        timers: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]  # asyncio's own heap
        assert [timer for timer in timers if not timer.cancelled()] == []

    try:
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            runner.run(story())
    finally:
        gc.enable()
    until(lambda: [lab.stats()["open"] for lab in labs] == [0, 0])


def _remembered(gateway: Gateway) -> list[tuple[int, int]]:
    """What each route's judgement still holds of single requests, and what budgets do of single attempts."""
    assert gateway.parts is not None
    judges = [hedger._judge for hedger in gateway.parts.hedgers.values()]
    return [(len(judge._lessons), judge.spend.state(gateway.loop.time())["open"]) for judge in judges]


def _lingering(gateway: Gateway) -> list[Any]:
    waiting: list[Any] = gateway._lingering
    return waiting
