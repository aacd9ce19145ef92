"""What the log says of events, whether or not an event log is kept."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

from hedgerow.events import CancelFailed, FailureClass, HedgeSkipped, HedgingThrottled, Reason, TargetTakenOut
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.gateway.listening import Loudly, listeners_of
from hedgerow.telemetry.event_log import EventLog
from tests.effects.support import settings


def test_what_the_route_may_allow_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    hear = Loudly()
    kept = HedgeSkipped("r1", "fast", Reason.SIDE_EFFECTS, 1.0, "store: the answer is kept (hedge.allow: [store])")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            hear(kept)
        hear(HedgeSkipped("r2", "fast", Reason.SIDE_EFFECTS, 1.0, "hosted tool 'web_search'"))
        hear(HedgeSkipped("r3", "fast", Reason.BUDGET, 1.0))
    told = "not hedged, now and in future: store: the answer is kept (hedge.allow: [store])"
    assert [record.getMessage() for record in caplog.records] == [f"route fast: {told}"]


def test_a_key_of_several_that_is_out_is_named(caplog: pytest.LogCaptureFixture) -> None:
    hear = Loudly()
    with caplog.at_level(logging.WARNING):
        hear(TargetTakenOut("k", FailureClass.RATE_LIMITED, "slow down", 1.0, 21.0, 2))
        hear(TargetTakenOut("k", FailureClass.RATE_LIMITED, "slow down", 1.0, 21.0))
    assert [record.getMessage() for record in caplog.records] == [
        "key 2 of target k is out for 20 s: rate_limited (slow down)",
        "target k is out for 20 s: rate_limited (slow down)",
    ]


def test_an_outage_that_holds_hedges_back_is_told_at_both_ends(caplog: pytest.LogCaptureFixture) -> None:
    hear = Loudly()
    with caplog.at_level(logging.INFO):
        hear(HedgingThrottled("fast", True, "too many requests are late or fail: 9 of 20 tokens left", 1.0))
        hear(HedgingThrottled("fast", False, "", 9.0))
    why = "too many requests are late or fail: 9 of 20 tokens left"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"route fast: no hedges for now (hedge.outage): {why}"),
        ("INFO", "route fast: hedges may start again (hedge.outage)"),
    ]


def test_a_target_that_goes_on_with_what_is_cancelled_is_told_and_so_is_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hear = Loudly()
    with caplog.at_level(logging.INFO):
        hear(CancelFailed("a", True, "whole: 400 tokens more", "warn", 1.0))
        hear(CancelFailed("a", False, "probed again", "warn", 9.0))
    told = "target a goes on with what is cancelled there, and is paid for it: whole: 400 tokens more"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", f"{told} (on_cancel_failure: warn)"),
        ("INFO", "target a stops what is cancelled there: probed again"),
    ]


def test_what_cannot_be_closed_keeps_no_other_from_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_log: EventLog) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(EventLog, "close", fail)
    ledger = f"sqlite:///{tmp_path}/l.db"
    told = settings({"server.event_log": str(tmp_path / "e.jsonl"), "server.ledger": {"url": ledger}})

    async def main() -> set[str]:
        hearing = listeners_of(blueprint_of(told).server, asyncio.get_running_loop())
        await hearing.close()
        return {str(task.get_coro()) for task in asyncio.all_tasks() if "_keep_running" in str(task.get_coro())}

    with caplog.at_level(logging.ERROR, "hedgerow.gateway"):
        assert asyncio.run(main()) == set()
    assert "hedgerow itself failed to close what listens" in caplog.text
