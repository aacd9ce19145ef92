"""What the log says of events, whether or not an event log is kept."""

from __future__ import annotations

import logging

import pytest

from hedgerow.events import HedgeSkipped, Reason
from hedgerow.gateway.listening import Loudly


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
