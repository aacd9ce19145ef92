"""What the tests of leaks share: clients that ask a lot and often leave, and a gateway in this process to count in."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from random import Random

from hedgerow.engine import Run
from hedgerow.gateway.aftermath import Aftermath, Straggler
from hedgerow.gateway.attempt import Attempt
from hedgerow.gateway.blueprint import Blueprint
from hedgerow.gateway.build import build
from hedgerow.gateway.core import LINGER, Gateway
from hedgerow.gateway.flight import Flight
from hedgerow.gateway.party import Party
from hedgerow.gateway.rescue import Rescue
from hedgerow.gateway.trial import Trial
from hedgerow.http.client_call import ClientCall
from hedgerow.http.client_connection import ClientConnection
from hedgerow.http.server import Server
from hedgerow.http.server_connection import Connection
from hedgerow.http.server_exchange import ServerExchange
from hedgerow.policy.race import Race
from hedgerow.wire.chat_scan import ChatBody
from hedgerow.wire.scan import StreamScanner
from tests.e2e.raw import BROKEN, Client, Reply
from tests.leftovers import leftovers

AT_ONCE = 64
LEAVES = 0.25
"""Share of requests whose client leaves, at a random moment of their life."""
BREAKS = {"cut", "close", "error", "stall"}

Kind = tuple[str, str, bytes | None, dict[str, str], set[int]]
"""Method, path, body, header fields, and the statuses that may answer it."""


class Crowd:
    """AT_ONCE clients, each with a connection that it keeps while it can."""

    def __init__(self, address: tuple[str, int], seed: int, kinds: Sequence[Kind]) -> None:
        self._address = address
        self._kinds = kinds
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
        kind = self._random.choice(self._kinds)
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
        if not (left or "x-hedgerow-replayed" in reply.headers):  # that is another request's answer
            assert reply.whole is not breaks, (kind, reply)
        if reply.whole and reply.status == 200 and b'"stream": true' in (kind[2] or b""):
            assert reply.body.endswith(b"data: [DONE]\n\n"), (kind, reply)
        self.outcomes["left in the middle" if left and not reply.whole else f"{reply.status} {reply.whole}"] += 1


HELD = (
    Aftermath,
    Attempt,
    ChatBody,
    Client,
    ClientCall,
    Flight,
    Party,
    Race,
    Reply,
    Rescue,
    Run,
    ServerExchange,
    Straggler,
    StreamScanner,
    Trial,
)


def serve_a_crowd(blueprint: Blueprint, kinds: Sequence[Kind], requests: int) -> Counter[str]:
    """Serve them in this process and check that nothing of them is left: task, timer, socket, object, memory of any."""

    async def nothing_is_left(gateway: Gateway, server: Server, left: Callable[..., Counter[str]]) -> Counter[str]:
        crowd = Crowd(("127.0.0.1", server.port), 4, kinds)
        await crowd.send(requests)
        outcomes = crowd.outcomes
        del crowd
        await _settle(lambda: gateway.in_flight == server.connections == len(gateway.keeping.stragglers) == 0)
        await _settle(lambda: len(gateway.alarm) == 0)  # it may remember finished requests until their last limit
        await _settle(lambda: len(gateway.keeping) == len(gateway.once._kept) == 0)  # and answers until their time
        await asyncio.sleep(LINGER + 0.1)
        assert gateway._lingering == []
        assert [len(gateway.claimed), len(gateway.once._running), gateway.once._used] == [0, 0, 0]
        assert set(_remembered(gateway)) == {(0, 0)}
        with suppress(TimeoutError):
            await _settle(lambda: not left(*HELD))
        assert not (still := left(*HELD)), still
        await _settle(lambda: left(ClientConnection) == Counter())  # the pools' idle ones, all the same
        assert left(Connection) == Counter()
        return outcomes

    async def story() -> Counter[str]:
        loop = asyncio.get_running_loop()
        gateway, pools = build(blueprint, loop=loop)
        server = Server(gateway)
        await server.start("127.0.0.1", 0)
        try:
            with leftovers() as left:
                outcomes = await nothing_is_left(gateway, server, left)
        finally:
            await server.close()
            gateway.close()
            await asyncio.gather(*(pool.close() for pool in pools))
        assert asyncio.all_tasks() == {asyncio.current_task()}
        timers: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]  # asyncio's own heap
        assert [timer for timer in timers if not timer.cancelled()] == []
        return outcomes

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        return runner.run(story())


async def _settle(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not true():  # noqa: ASYNC110  (what is awaited sets no event)
            await asyncio.sleep(0.01)


def _remembered(gateway: Gateway) -> list[tuple[int, int]]:
    """What each route's judgement still holds of single requests, and what budgets do of single attempts."""
    assert gateway.parts is not None
    judges = [hedger._judge for hedger in gateway.parts.hedgers.values()]
    return [(len(judge._lessons), judge.spend.state(gateway.loop.time())["open"]) for judge in judges]
