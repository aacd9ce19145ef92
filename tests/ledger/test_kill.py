"""A gateway in mid-load, and who or what of it dies: the ledger against the labs' own books.

Every request has a name that labs and ledger both know it by, so what is missing, double or made up is seen one by one.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from hedgerow.errors import LedgerError
from hedgerow.ledger import read
from hedgerow.ledger.rows import AttemptRow, RequestRow
from tests.e2e.raw import BROKEN, Client
from tests.e2e.support import GatewayProcess, Labs, chat, config, script, until

pytestmark = pytest.mark.e2e

FLUSH = 0.2
CLIENTS = 12
SLACK = 1.0
"""Seconds for a busy machine, on top of a flush: what was sent within them before a kill may be missing."""
Sent = Counter[tuple[str, str]]
"""How often a request came to a target."""


def gateway(labs: Labs, url: str, **route: object) -> GatewayProcess:
    """Hedges after 50 ms."""
    server = {"ledger": {"url": url, "flush": f"{FLUSH:g}s"}}
    return GatewayProcess(config(*(lab.base_url for lab in labs), delay="50ms", server=server, **route))


def writer_of(gateway: GatewayProcess) -> int:
    """The process id of its writer."""
    [child] = Path(f"/proc/{gateway.pid}/task/{gateway.pid}/children").read_text().split()
    return int(child)


def weather(rng: random.Random) -> dict[str, str]:
    """What becomes of a request: mostly well, sometimes hedged, failed over, cut, or left by its client."""
    quick = script(ttft_ms=rng.randrange(20), gap_ms=1, tokens=5)
    slow, broken = script(ttft_ms=120, gap_ms=1, tokens=5), script(status=500)
    cut = script(ttft_ms=1, gap_ms=1, tokens=10, fault="cut")
    primary = rng.choice([*[quick] * 6, slow, broken, script(fault="stall"), cut])
    return {"x-lab-script-primary": primary, "x-lab-script-backup": quick}


class Load:
    """Clients that ask one request after the other, each with its own name, until they are told to stop."""

    def __init__(self, address: tuple[str, int], seed: int) -> None:
        self._address = address
        self._rng = random.Random(seed)
        self.answered: set[str] = set()
        self.asked: set[str] = set()
        self.stop = False

    def end(self) -> None:
        """Ask nothing more."""
        self.stop = True

    async def run(self, clients: int) -> None:
        """Until `stop`, or until the gateway is gone."""
        await asyncio.gather(*(self._client(f"c{number}") for number in range(clients)))

    async def _client(self, name: str) -> None:
        keys = (f"{name}-{number}" for number in count(1))
        with suppress(OSError):  # the gateway is gone
            while not self.stop:
                client = await Client.connect(self._address)
                with suppress(*BROKEN):
                    while await self._ask(client, next(keys)) and not self.stop:
                        pass
                client.leave()

    async def _ask(self, client: Client, key: str) -> bool:
        """Whether the connection may be used again."""
        headers = {"x-lab-key": key, "x-hedgerow-request-id": key, **weather(self._rng)}
        self.asked.add(key)
        reply = await client.chat(chat(stream=self._rng.random() < 0.5), headers)
        self.answered.add(key)
        return reply.whole and not reply.last


def books(labs: Labs, until_: float = float("inf")) -> Sent:
    """The attempts that came to the labs before then, by their own logs."""
    return Counter(
        (lab.name, each["key"]) for lab in labs for each in lab.log() if each["started_at"] < until_ and each["key"]
    )


def ledger(url: str) -> tuple[list[RequestRow], list[AttemptRow]]:
    with read.ledger(url) as found:
        return [row for page in found.requests() for row in page], [row for page in found.attempts() for row in page]


def alive(pid: int) -> bool:
    """Whether there is one; one that has ended may wait for somebody to ask how."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def never_came(rows: tuple[list[RequestRow], list[AttemptRow]]) -> Sent:
    """Attempts that may have been called off before their lab saw them."""
    names = {(row.process, row.number): row.request_id for row in rows[0]}
    off = "superseded", "client_gone", "lost", "open"
    there = (row for row in rows[1] if row.outcome in off and row.headers_at is None)
    return Counter((row.target, names[row.process, row.number]) for row in there)


def written(rows: tuple[list[RequestRow], list[AttemptRow]]) -> Sent:
    """The attempts of a ledger."""
    names = {(row.process, row.number): row.request_id for row in rows[0]}
    assert len(set(names.values())) == len(names), "a request is double"
    return Counter((row.target, names[row.process, row.number]) for row in rows[1])


def assert_sound(url: str) -> None:
    """SQLite itself finds nothing amiss."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        connection.close()


def none_open(url: str) -> bool:
    with suppress(LedgerError):
        rows = ledger(url)
        return bool(rows[0]) and "open" not in {each.outcome for part in rows for each in part}
    return False


async def under_load(
    address: tuple[str, int], seed: int, seconds: float, then: Callable[[Load], object] = Load.end
) -> Load:
    """Load for so long; then something happens, in the midst of it."""
    load = Load(address, seed)
    task = asyncio.create_task(load.run(CLIENTS))
    await asyncio.sleep(seconds)
    then(load)
    await task
    return load


def test_nothing_is_missing_or_double_when_a_gateway_ends_in_good_order(labs: Labs, url: str) -> None:
    with gateway(labs, url) as served:
        load = asyncio.run(under_load(served.address, 1, 1.5))
        assert served.stop() == 0
    rows = ledger(url)
    assert_the_same(labs, rows)
    assert len(load.answered) > 100
    assert load.answered <= {row.request_id for row in rows[0]}
    assert {row.outcome for row in rows[0]} >= {"won", "failed_after_commit"}
    assert all(row.billed_at is not None for row in rows[0])
    assert {row.role for row in rows[1]} == {"primary", "hedge", "failover"}
    assert_sound(url)


def test_a_gateway_that_is_killed_has_all_written_but_the_last_moment(labs: Labs, url: str) -> None:
    served = gateway(labs, url)
    killed: list[float] = []
    writer = writer_of(served)

    def kill(_load: Load) -> None:
        killed.append(time.monotonic())
        os.kill(served.pid, signal.SIGKILL)

    load = asyncio.run(under_load(served.address, 2, 1.0, kill))
    served._end()
    until(lambda: not alive(writer))  # it lives on until all is written
    assert none_open(url)
    assert_complete(labs, url, load, killed[0])


def test_a_gateway_that_is_killed_with_its_writer_loses_a_flush_at_most(labs: Labs, url: str) -> None:
    served = gateway(labs, url)
    killed: list[float] = []

    def kill(_load: Load) -> None:
        writer = writer_of(served)
        killed.append(time.monotonic())
        os.kill(served.pid, signal.SIGKILL)
        os.kill(writer, signal.SIGKILL)

    load = asyncio.run(under_load(served.address, 3, 2.0, kill))
    served._end()
    assert_complete(labs, url, load, killed[0], slack=SLACK)


def assert_the_same(labs: Labs, rows: tuple[list[RequestRow], list[AttemptRow]]) -> None:
    """Attempt by attempt, but for those that were called off on their way to a lab."""
    there, sent = written(rows), books(labs)
    assert sent - there == Counter()
    assert there - sent - never_came(rows) == Counter()


def assert_complete(labs: Labs, url: str, load: Load, killed: float, slack: float = 0.0) -> None:
    """Whatever was sent a flush and the slack before the kill is there, once; and nothing that never was."""
    assert_sound(url)
    rows = ledger(url)
    there, sent = written(rows), books(labs)
    early = books(labs, killed - FLUSH - slack)
    assert sum(early.values()) > 50
    assert early - there == Counter()
    assert there - sent - never_came(rows) == Counter()
    assert {row.request_id for row in rows[0]} <= load.asked


def test_a_writer_that_is_killed_costs_nothing(labs: Labs, url: str) -> None:
    with gateway(labs, url) as served:
        killed: list[int] = []

        async def story() -> Load:
            load = Load(served.address, 7)
            task = asyncio.create_task(load.run(CLIENTS))
            for _ in range(3):
                await asyncio.sleep(0.8)
                with suppress(ValueError, ProcessLookupError):
                    killed.append(writer_of(served))
                    os.kill(killed[-1], signal.SIGKILL)
            await asyncio.sleep(0.3)
            load.stop = True
            await task
            return load

        asyncio.run(story())
        until(lambda: served.log.count("its writer has died and is started again") == len(set(killed)))
        assert served.stop() == 0
    assert_the_same(labs, ledger(url))
    assert_sound(url)


def test_the_next_gateway_ends_what_one_killed_with_its_writer_left_open(labs: Labs, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/l.db"
    hangs = {"x-lab-script": script(fault="hang"), "x-hedgerow-request-id": "left"}
    served = gateway(labs, url)

    async def leave() -> None:
        client = await Client.connect(served.address)
        client.send("POST", "/v1/chat/completions", chat(), hangs)
        await asyncio.to_thread(until, lambda: bool(_rows(url)))
        for pid in (writer_of(served), served.pid):
            os.kill(pid, signal.SIGKILL)
        client.leave()

    asyncio.run(leave())
    served._end()
    assert [row.outcome for row in ledger(url)[0]] == ["open"]
    with sqlite3.connect(tmp_path / "l.db") as connection:  # as if it had been so for a minute
        connection.execute("UPDATE processes SET seen_at = seen_at - 61000000")
    connection.close()
    with gateway(labs, url):
        until(lambda: none_open(url))
    assert [(row.outcome, row.certainty) for row in ledger(url)[0]] == [("lost", "at_least")]


def _rows(url: str) -> list[RequestRow] | None:
    """None while there is no ledger."""
    with suppress(LedgerError):
        return ledger(url)[0]
    return None
