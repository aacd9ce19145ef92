"""A provider that dies, and a gateway that is told to stop, both in the middle of the day's work."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass

import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.raw import BROKEN, Client, Reply, ask
from tests.e2e.support import Config, GatewayProcess, chat, config, script, until

pytestmark = pytest.mark.e2e

CLIENTS = 30
PACE = ["--p50-ms", "40", "--p95-ms", "80", "--gap-ms", "2", "--tokens", "30"]


@pytest.fixture
def labs() -> Iterator[tuple[LabProcess, LabProcess]]:
    with LabProcess(["--name", "primary", *PACE]) as primary, LabProcess(["--name", "backup", *PACE]) as backup:
        yield primary, backup


@dataclass
class Seen:
    """What one client got for one request; `reply` is None when not one byte of an answer came."""

    sent_at: float
    reply: Reply | None
    fresh: bool
    """It was the first on its connection."""
    stream: bool


async def busy_client(gateway: GatewayProcess, seen: list[Seen], stop: Callable[[], bool]) -> None:
    """One request after the other, every second one streamed, on as few connections as the gateway allows."""
    client: Client | None = None
    while not stop():
        fresh = client is None
        if client is None:
            try:
                client = await Client.connect(gateway.address)
            except ConnectionRefusedError:
                return
        stream = len(seen) % 2 == 0
        one = Seen(time.monotonic(), None, fresh, stream)
        seen.append(one)
        try:
            client.send("POST", "/v1/chat/completions", chat(stream=stream))
            one.reply = await client.head()
        except BROKEN:
            client.leave()
            client = None
            continue
        await client.body(one.reply)
        if one.reply.last or not one.reply.whole:
            client.leave()
            client = None
    if client is not None:
        client.leave()


async def load(gateway: GatewayProcess, stop: Callable[[], bool], meanwhile: Awaitable[None]) -> list[Seen]:
    """CLIENTS busy clients until all have stopped, while something happens."""
    seen: list[list[Seen]] = [[] for _ in range(CLIENTS)]
    async with asyncio.timeout(30):
        await asyncio.gather(meanwhile, *(busy_client(gateway, each, stop) for each in seen))
    return [one for each in seen for one in each]


def faultless(one: Seen) -> bool:
    """A whole 200, to its very end."""
    reply = one.reply
    if reply is None or not reply.whole or reply.status != 200:
        return False
    return reply.body.endswith(b"data: [DONE]\n\n" if one.stream else b"}")


def test_the_primary_is_killed_in_mid_load(labs: tuple[LabProcess, LabProcess]) -> None:
    primary, backup = labs
    killed_at = 0.0
    committed: list[Reply] = []

    with GatewayProcess(config(primary.base_url, backup.base_url, delay="200ms")) as gateway:

        async def kill() -> None:
            nonlocal killed_at
            await asyncio.sleep(1)
            client = await Client.connect(gateway.address)
            endless = {"x-lab-script-primary": script(ttft_ms=1, gap_ms=20, tokens=10_000), "x-hedgerow-hedge": "off"}
            client.send("POST", "/v1/chat/completions", chat(stream=True), endless)
            committed.append(await client.head())
            killed_at = time.monotonic()
            primary.kill()
            await client.body(committed[0])
            client.leave()

        seen = asyncio.run(load(gateway, lambda: bool(killed_at) and time.monotonic() > killed_at + 1, kill()))
        failed = [one for one in seen if not faultless(one)]
        for one in failed:
            # Only streams that the primary had begun to answer; they are broken, never seemingly whole.
            assert one.reply is not None
            assert (one.reply.status, one.reply.whole, one.reply.target) == (200, False, "primary")
            assert one.stream
            assert one.sent_at <= killed_at
            assert b"[DONE]" not in one.reply.body
        assert len(failed) <= CLIENTS
        assert (committed[0].target, committed[0].whole) == ("primary", False)
        assert b'data: {"error":' in committed[0].body
        by = [one.reply.target for one in seen if one.reply is not None and one.sent_at > killed_at]
        assert set(by) == {"backup"}
        assert len(by) > CLIENTS
        assert backup.stats()["failed"] == 0


def test_sigterm_under_load_loses_nothing(labs: tuple[LabProcess, LabProcess]) -> None:
    primary, backup = labs
    told_at = 0.0
    ready: list[int] = []

    with GatewayProcess(config(primary.base_url, backup.base_url, delay="60ms")) as gateway:

        async def terminate() -> None:
            nonlocal told_at
            await asyncio.sleep(1)
            watcher = await Client.connect(gateway.address)
            told_at = time.monotonic()
            gateway.terminate()
            reply = await watcher.ask("GET", "/readyz")
            while reply.status == 200:  # the signal is on its way
                reply = await watcher.ask("GET", "/readyz")
            ready.append(reply.status)
            watcher.leave()

        seen = asyncio.run(load(gateway, lambda: False, terminate()))
        assert gateway.wait() == 0, gateway.log
        assert time.monotonic() - told_at < 10
        assert ready == [503]
        # A connection that the kernel had set up, but nobody had accepted when listening ended, is reset: like a
        # refusal, that is an answer to connecting, and nothing was lost with it.
        lost = [one for one in seen if not faultless(one) and not (one.fresh and one.reply is None)]
        assert lost == []
        assert sum(one.reply is None for one in seen) < CLIENTS
        in_flight = [
            one for one in seen if one.reply and one.reply.ended_at and one.sent_at < told_at < one.reply.ended_at
        ]
        assert len(in_flight) > CLIENTS / 2
        assert {one.stream for one in in_flight} == {True, False}
        last = [one for one in seen if one.reply is not None and one.reply.last]
        assert len(last) >= CLIENTS
        until(lambda: primary.stats()["open"] == backup.stats()["open"] == 0)


def short_drain(lab: LabProcess) -> Config:
    return config(lab.base_url, server={"timeouts": {"drain": "300ms"}})


def test_the_drain_timeout_cuts_what_will_not_end(labs: tuple[LabProcess, LabProcess]) -> None:
    lab = labs[0]
    with GatewayProcess(short_drain(lab)) as gateway:

        async def story() -> tuple[Reply, Reply]:
            endless = await Client.connect(gateway.address)
            endless.send(
                "POST",
                "/v1/chat/completions",
                chat(stream=True),
                {"x-lab-script": script(ttft_ms=1, gap_ms=1, fault="stall", at=3)},
            )
            cut = await endless.head()
            last = asyncio.ensure_future(
                ask(
                    gateway.address,
                    "POST",
                    "/v1/chat/completions",
                    chat(),
                    {"x-lab-script": script(ttft_ms=100, gap_ms=1, tokens=5)},
                )
            )
            await asyncio.to_thread(until, lambda: lab.stats()["open"] == 2)
            gateway.terminate()
            await endless.body(cut)
            endless.leave()
            return cut, await last

        cut, last = asyncio.run(story())
        assert gateway.wait() == 1
        assert (cut.status, cut.whole) == (200, False)
        assert (last.status, last.whole, last.last) == (200, True, True)
        assert "server.timeouts.drain" in gateway.log
        until(lambda: lab.stats()["open"] == 0)
        assert lab.stats()["cancelled_mid_stream"] == 1


def test_a_second_signal_stops_at_once(labs: tuple[LabProcess, LabProcess]) -> None:
    lab = labs[0]
    with GatewayProcess(config(lab.base_url)) as gateway:

        async def story() -> Reply:
            client = await Client.connect(gateway.address)
            fields = {"x-lab-script": script(ttft_ms=1, gap_ms=1, fault="stall", at=3)}
            client.send("POST", "/v1/chat/completions", chat(stream=True), fields)
            cut = await client.head()
            gateway.terminate()
            await asyncio.to_thread(until, lambda: "1 request under way, for 30 s at most" in gateway.log)
            gateway.terminate()
            await client.body(cut)
            client.leave()
            return cut

        assert not asyncio.run(story()).whole
        assert gateway.wait() == 1
        assert "stopped at once, with 1 request under way" in gateway.log
        until(lambda: lab.stats()["open"] == 0)


async def refused(gateway: GatewayProcess) -> None:
    """Connect until that is refused."""
    with contextlib.suppress(*BROKEN):
        while True:
            await ask(gateway.address, "GET", "/livez")


def test_nobody_can_connect_while_draining(labs: tuple[LabProcess, LabProcess]) -> None:
    lab = labs[0]
    with GatewayProcess(config(lab.base_url)) as gateway:

        async def story() -> Reply:
            slow = asyncio.ensure_future(
                ask(
                    gateway.address,
                    "POST",
                    "/v1/chat/completions",
                    chat(),
                    {"x-lab-script": script(ttft_ms=600, gap_ms=1, tokens=2)},
                )
            )
            await asyncio.to_thread(until, lambda: lab.stats()["open"] == 1)
            gateway.terminate()
            await refused(gateway)
            assert not slow.done()
            return await slow

        reply = asyncio.run(story())
        assert (reply.status, reply.whole) == (200, True)
        assert gateway.wait() == 0
