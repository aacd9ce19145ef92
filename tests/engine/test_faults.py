"""Faults of our own: whoever only listens, learns or judges may fail, and no request is lost by it."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, get_args

import pytest
from opentelemetry.sdk.trace import TracerProvider

import hedgerow.gateway.flight
from hedgerow.events import (
    AttemptEnded,
    AttemptLaunched,
    Event,
    FirstToken,
    Outcome,
    Reason,
    RequestBilled,
    RequestFinished,
    RequestStarted,
)
from hedgerow.gateway import records, used
from hedgerow.gateway.attempt import Attempt
from hedgerow.gateway.landing import Landing
from hedgerow.gateway.target import Target
from hedgerow.ledger.book import Book
from hedgerow.ledger.record import Told
from hedgerow.policy.judge import Judge
from hedgerow.telemetry.metrics import Metrics
from hedgerow.telemetry.traces import Traces
from hedgerow.testing import VirtualLoop, run_virtual
from hedgerow.wire.scan import StreamScanner
from tests.engine.scripted import RecordingExchange
from tests.engine.test_judgement import HUNG, Scripts, Town, after, broken, left_over

HEDGED: Scripts = {"a": after(5.0), "b": after(0.1)}
FAILED_OVER: Scripts = {"a": broken(), "b": after(0.1)}
ALL_FAIL: Scripts = {"a": broken(after=3.0), "b": broken(after=3.0)}
ALL_HANG: Scripts = {"a": HUNG, "b": HUNG}


class Faulty:
    """A judge that fails at one thing."""

    def __init__(self, judge: Judge, at: str) -> None:
        self._judge = judge
        setattr(self, at, self._fail)

    def _fail(self, *_: object) -> None:
        raise RuntimeError("boom")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)


def ask(scripts: Scripts, at: str) -> tuple[Town, RecordingExchange]:
    """One request of a gateway whose judge fails at this, until nothing is left to happen."""

    async def main(loop: VirtualLoop) -> tuple[Town, RecordingExchange]:
        town = Town(loop, {}, scripts)
        judge = town.judge
        for ways in town.parts.routing._routes.values():
            for route in (ways.all, *ways.speaking.values()):
                route.hedger._ask_of(Faulty(judge, at))  # type: ignore[arg-type]  # all else is as with a Judge
        exchange = town.ask()
        await asyncio.sleep(2000)
        assert town.gateway.in_flight == 0
        assert left_over(judge)[1] == 0
        town.gateway.close()
        return town, exchange

    return run_virtual(main)


@pytest.mark.parametrize("at", ["learn", "over"])
@pytest.mark.parametrize(
    ("scripts", "status"),
    [(HEDGED, 200), (FAILED_OVER, 200), (ALL_FAIL, 500), (ALL_HANG, 504)],
    ids=["hedge", "failover", "fail", "hang"],
)
def test_what_cannot_be_learned_changes_no_answer(at: str, scripts: Scripts, status: int) -> None:
    town, client = ask(scripts, at)
    assert (client.status, client.outcome) == (status, "whole")
    assert len(town.of(AttemptEnded)) == 2
    assert len(town.of(FirstToken)) == (status == 200)


@pytest.mark.parametrize(
    ("scripts", "status"),
    [(HEDGED, 200), (FAILED_OVER, 500), (ALL_FAIL, 500), (ALL_HANG, 504)],
    ids=["hedge", "failover", "fail", "hang"],
)
def test_nothing_starts_that_cannot_be_judged(scripts: Scripts, status: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "hedgerow"):
        town, client = ask(scripts, "may")
    assert (client.status, client.outcome) == (status, "whole")
    assert town.pools["b"].requests == []
    assert set(town.refusals) == {Reason.BUDGET}
    assert "hedgerow itself failed to judge a" in caplog.text


def test_a_request_ends_though_its_end_cannot_be_noted() -> None:
    async def main(loop: VirtualLoop) -> None:
        loop.set_exception_handler(lambda _loop, _context: None)
        town = Town(loop, {}, HEDGED)
        for ways in town.parts.routing._routes.values():
            for route in ways.speaking.values():
                route.hedger._ask_of(Faulty(town.judge, "finished"))  # type: ignore[arg-type]
        client = town.ask()
        await asyncio.sleep(10)
        assert (client.status, town.gateway.in_flight) == (200, 0)
        assert [event.outcome for event in town.of(RequestFinished)] == [Outcome.WON]
        town.gateway.close()

    run_virtual(main)


def test_a_listener_that_fails_loses_nobody_else_an_event() -> None:
    async def main(loop: VirtualLoop) -> None:
        town = Town(loop, {}, HEDGED)

        def failing(_event: Event) -> None:
            raise OSError("no space left on device")

        for ways in town.parts.routing._routes.values():
            for route in ways.speaking.values():
                hedger = route.hedger
                hedger._audience = hedger._audience.after(dict.fromkeys(get_args(Event), failing))
                hedger._ask_of(town.judge)
        client = town.ask()
        await asyncio.sleep(10)
        assert client.status == 200
        assert len(town.of(RequestFinished)) == 1
        assert town.gateway.in_flight == 0
        town.gateway.close()

    run_virtual(main)


def _fails(*_args: object, **_more: object) -> None:
    raise RuntimeError("boom")


def _abort(exchange: RecordingExchange) -> None:
    """As the server's: what has ended has ended."""
    if exchange.outcome is None:
        exchange._over("broken")


DRAINED = {"routes.<name>.losers": "drain"}


@pytest.mark.parametrize("changes", [{}, DRAINED], ids=["cancel", "drain"])
@pytest.mark.parametrize("scripts", [HEDGED, FAILED_OVER, ALL_FAIL, ALL_HANG], ids=["hedge", "over", "fail", "hang"])
@pytest.mark.parametrize(
    ("where", "what"),
    [
        (used, "usage"),
        (records, "bills"),
        (StreamScanner, "words"),
        (StreamScanner, "ending"),
        (Attempt, "tally"),
        (Attempt, "cancel"),
        (Attempt, "deliver_to"),
        (Target, "send"),
        (Landing, "_complete"),
        (Landing, "fell"),
        (hedgerow.gateway.flight, "Attempt"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_what_was_told_to_begin_is_told_to_end_and_to_be_billed(
    where: object, what: str, scripts: Scripts, changes: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(where, what, _fails)
    monkeypatch.setattr(RecordingExchange, "abort", _abort)
    told: list[Told] = []

    async def main(loop: VirtualLoop) -> tuple[Town, RecordingExchange]:
        loop.set_exception_handler(lambda _loop, _context: None)
        town = Town(loop, changes, scripts)
        client = town.ask()
        await asyncio.sleep(2000)
        assert town.gateway.in_flight == 0
        town.gateway.close()
        return town, client

    town, client = run_virtual(main)
    assert client.outcome is not None
    book, metrics, traces = Book(told.append), Metrics(), Traces(TracerProvider(), epoch=0.0)
    for event in town.events:
        for listener in (book, metrics, traces):
            if type(event) in listener.kinds:
                listener(event)
    assert (len(book), len(told), traces._open) == (0, 1, {})
    launched, ended = town.of(AttemptLaunched), town.of(AttemptEnded)
    assert sorted(each.attempt for each in ended) == sorted(each.attempt for each in launched)
    (finished,) = town.of(RequestFinished)
    assert finished.status == client.status
    assert [len(town.of(kind)) for kind in (RequestStarted, RequestBilled)] == [1, 1]
    assert isinstance(town.events[-1], RequestBilled)
