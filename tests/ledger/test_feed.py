"""What feeds a ledger's writer goes on, whatever befalls it: a record that cannot be written costs no other."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from hedgerow.events import AttemptEnded, Event
from hedgerow.ledger import feed, read
from hedgerow.ledger.feed import Feed
from hedgerow.ledger.settings import LedgerSettings
from tests.ledger.support import EPOCH, told


def settings(folder: Path) -> LedgerSettings:
    return LedgerSettings(url=f"sqlite:///{folder}/l.db", flush=0.02, queue=1 << 20, keep=None, keep_hourly=None)


def unfit(request_id: str) -> list[Event]:
    """A request of which nothing can be written once its attempt has ended."""
    events = list(told(request_id))
    at = next(index for index, event in enumerate(events) if isinstance(event, AttemptEnded))
    events[at] = msgspec.structs.replace(events[at], finish_reason="\ud800")
    return events


def names(folder: Path) -> list[str]:
    with read.ledger(f"sqlite:///{folder}/l.db") as ledger:
        return [row.request_id for batch in ledger.requests() for row in batch]


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not true():  # noqa: ASYNC110  # a writer in another process has no event to wait for
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("done", [False, True], ids=["under way", "complete"])
def test_what_cannot_be_encoded_is_lost_alone(done: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        fed = Feed(settings(tmp_path), asyncio.get_running_loop(), lambda: EPOCH)

        def hear(events: Sequence[Event]) -> None:
            for event in events:
                fed.book(event)

        hear(unfit("bad")[: 5 if done else 3])
        hear(list(told("beside"))[:3])  # under way when all are told
        await until(lambda: fed.backlog.lost == 1)
        for number in range(50):
            hear(list(told(f"n{number}")))
        await until(lambda: fed.backlog.written == 51)
        await fed.close()

    with caplog.at_level(logging.ERROR, "hedgerow.ledger"):
        asyncio.run(main())
    assert sorted(names(tmp_path)) == sorted(["beside", *(f"n{number}" for number in range(50))])
    assert "1 records are lost" in caplog.text
    assert "hedgerow itself cannot put them into bytes" in caplog.text


def writer() -> int:
    [pid] = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return int(pid)


async def starved(folder: Path) -> tuple[Feed, int]:
    """A feed whose writer, with this process id, never has its turn."""
    fed = Feed(settings(folder), asyncio.get_running_loop(), lambda: EPOCH)
    await fed.ready()
    lazy = writer()
    await until(lambda: os.sched_getscheduler(lazy) == os.SCHED_IDLE)
    os.kill(lazy, signal.SIGSTOP)
    return fed, lazy


needs_idle = pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="this system has no SCHED_IDLE")


@needs_idle
def test_a_writer_lets_all_else_go_first_for_as_long_as_it_keeps_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        fed, lazy = await starved(tmp_path)
        told_of = 0
        while fed.backlog.size <= (1 << 20) // 4:
            for event in told(f"n{told_of}"):
                fed.book(event)
            told_of += 1
        await until(lambda: fed.backlog.written == told_of)
        assert writer() != lazy
        assert os.sched_getscheduler(writer()) == os.SCHED_OTHER
        await fed.close()
        assert fed.backlog.lost == 0

    with caplog.at_level(logging.WARNING, "hedgerow.ledger"):
        asyncio.run(main())
    assert "the writer no longer lets all else go first" in caplog.text
    assert "has died" not in caplog.text


@needs_idle
def test_a_writer_that_never_has_its_turn_writes_all_at_the_end(tmp_path: Path) -> None:
    async def main() -> None:
        fed, _ = await starved(tmp_path)
        for event in told("last"):
            fed.book(event)
        await fed.close()
        assert fed.backlog.lost == 0

    asyncio.run(main())
    assert names(tmp_path) == ["last"]


def test_a_fault_of_ours_does_not_end_the_keeper(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, faults = Feed._obey, iter([ValueError("boom")])

    def obey(fed: Feed, *told: object) -> None:
        if (fault := next(faults, None)) is not None:
            raise fault
        real(fed, *told)  # type: ignore[arg-type]

    monkeypatch.setattr(Feed, "_obey", obey)
    monkeypatch.setattr(feed, "RESTART", 0.01)

    async def main() -> None:
        fed = Feed(settings(tmp_path), asyncio.get_running_loop(), lambda: EPOCH)
        for event in told("one"):
            fed.book(event)
        await until(lambda: fed.backlog.written == 1)
        await fed.close()

    with caplog.at_level(logging.ERROR, "hedgerow.ledger"):
        asyncio.run(main())
    assert names(tmp_path) == ["one"]
    assert "hedgerow itself failed to feed its writer" in caplog.text
