"""Requests as a ledger is told of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from hedgerow.cost import Bill, Certainty
from hedgerow.events import (
    AttemptEnded,
    AttemptLaunched,
    Event,
    Outcome,
    RequestBilled,
    RequestFinished,
    RequestStarted,
    Role,
    Usage,
)
from hedgerow.ledger.backlog import Backlog
from hedgerow.ledger.book import Book
from hedgerow.ledger.record import FRAME, Hello, Told

EPOCH = 1_780_000_000.0
"""The Unix time when the clock of the events showed 0; the beginning of no hour."""
MICRO = 1_000_000


def hello(url: str, key: str = "k", **fields: Any) -> Hello:
    """What a writer is told at first."""
    told: dict[str, Any] = {"host": "h", "pid": 7, "version": "1", "keep": None, "keep_hourly": None}
    return Hello(url=url, key=key, **(told | fields))


def bill(attempt: int = 0, nanousd: int | None = 1000, **fields: Any) -> Bill:
    """What an attempt comes to."""
    told: dict[str, Any] = {
        "target": "primary",
        "role": Role.PRIMARY,
        "outcome": Outcome.WON,
        "usage": Usage(10, 20),
        "certainty": Certainty.EXACT,
        "least": nanousd,
        "most": nanousd,
    }
    return Bill(attempt=attempt, nanousd=nanousd, **(told | fields))


def told(request_id: str, at: float = 0.0, bills: Sequence[Bill] | None = None, **fields: Any) -> Iterator[Event]:
    """A request whose only attempt wins: 0.1 s to the head, 0.2 s to the first token, 0.3 s in all."""
    yield RequestStarted(request_id, "fast", "openai_chat", True, at, "m", "abc")
    yield AttemptLaunched(request_id, 0, "primary", Role.PRIMARY, at, "gpt")
    times: dict[str, Any] = {
        "launched_at": at,
        "headers_at": at + 0.1,
        "first_token_at": at + 0.2,
        "ended_at": at + 0.3,
    }
    end: dict[str, Any] = {"usage": Usage(10, 20), "model": "gpt", "sent_at": at + 0.01, "finish_reason": "stop"}
    yield AttemptEnded(
        request_id,
        0,
        "primary",
        Role.PRIMARY,
        Outcome.WON,
        status=200,
        received_bytes=1000,
        service_tier="default",
        **times,
        **end,
    )
    yield RequestFinished(
        request_id,
        "fast",
        "openai_chat",
        True,
        at,
        at + 0.2,
        at + 0.3,
        200,
        0,
        1,
        Outcome.WON,
        usage=Usage(10, 20),
        **fields,
    )
    yield RequestBilled(request_id, "fast", at + 0.3, tuple([bill()] if bills is None else bills))


def records(*events: Event, epoch: float = EPOCH) -> list[Told]:
    """What a book makes of events."""
    found: list[Told] = []
    book = Book(found.append, epoch)
    for event in events:
        book(event)
    return [*found, *book.unfinished()]


def batches(*some: Told, first: int = 1) -> list[tuple[int, bytes]]:
    """Each record as a batch of its own, numbered from `first`."""
    backlog = Backlog(1 << 30)
    found: list[tuple[int, bytes]] = []
    for record in some:
        backlog.add(record)
        backlog.close_batch()
        frame = backlog.next()
        assert frame is not None
        found.append((first + len(found), frame[FRAME.size :]))
    return found
