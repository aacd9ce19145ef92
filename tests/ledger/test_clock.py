"""A feed, its real writer, and a clock that is set meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from hedgerow.ledger import read
from hedgerow.ledger.feed import PATIENCE, STEPPED, Feed
from hedgerow.ledger.settings import LedgerSettings
from tests.ledger.support import EPOCH, MICRO, told

HOUR = 3600.0
BASE = int(EPOCH) * MICRO


def feed(url: str, epoch: Callable[[], float]) -> Feed:
    settings = LedgerSettings(url=url, flush=0.01, keep=None, keep_hourly=None, queue=1 << 20)
    return Feed(settings, asyncio.get_running_loop(), epoch)


def times(url: str) -> dict[str, tuple[int, int | None]]:
    with read.ledger(url) as ledger:
        return {row.request_id: (row.started_at, row.ended_at) for page in ledger.requests() for row in page}


async def flushed(one: Feed) -> None:
    """The clock has been looked at, and what was told is in the tables."""
    more = asyncio.Event()
    asyncio.get_running_loop().call_later(0.03, more.set)
    await more.wait()
    while one.backlog.queued:  # noqa: ASYNC110  # nobody tells
        await asyncio.sleep(0.005)


def test_a_clock_that_is_set_is_followed_and_moves_nothing_that_has_begun(url: str) -> None:
    async def story() -> None:
        clock = [EPOCH]
        one = feed(url, lambda: clock[0])
        await one.ready()
        late, early = list(told("late")), list(told("early"))
        for event in (*early, *late[:-1]):
            one.book(event)
        await flushed(one)
        clock[0] = EPOCH + HOUR
        await flushed(one)
        for event in (late[-1], *told("next", 1.0)):
            one.book(event)
        clock[0] = EPOCH + HOUR - STEPPED / 2  # no more than what reading it may be off
        await flushed(one)
        for event in told("last", 2.0):
            one.book(event)
        await one.close()
        assert times(url) == {
            "early": (BASE, BASE + 300_000),
            "late": (BASE, BASE + 300_000),
            "next": (BASE + 3601 * MICRO, BASE + 3601 * MICRO + 300_000),
            "last": (BASE + 3602 * MICRO, BASE + 3602 * MICRO + 300_000),
        }

    asyncio.run(story())


def test_it_is_ready_when_its_writer_would_write(tmp_path: Path) -> None:
    async def story() -> None:
        url = f"sqlite:///{tmp_path}/l.db"
        one = feed(url, lambda: EPOCH)
        await one.ready()
        assert times(url) == {}  # the tables are there
        await one.close()

    asyncio.run(story())


def test_nobody_waits_for_a_database_that_is_away() -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        one = feed("postgresql://127.0.0.1:9/none", lambda: EPOCH)
        began = loop.time()
        await one.ready()
        assert loop.time() - began < 2 * PATIENCE
        await one.close()

    asyncio.run(story())
