"""Who always loses is only ever broken off: nobody knows how long it takes, and it must be there when it is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import pytest

from hedgerow.events import Reason, Role
from tests.effects.support import QUICK, SILENT, Sent, Story, after, every, number, settings, tell
from tests.engine.scripted import Script

REQUESTS, OUTAGE = 1000, 100
RACE_OF: Mapping[str, tuple[Sequence[str], int]] = {
    "2 of 2": ("ab", 2),
    "3 of 3": ("abc", 3),
    "2 of 3": ("abc", 2),
}
EASY = {
    "routes.fast.hedge.outage": {"max_tokens": 1000, "token_ratio": 1, "both_slow": "off"},
    "routes.fast.hedge.budget": "off",
    "targets.a.breaker.failure_ratio": "off",
}
"""No other guard than the deadline has anything to say."""


def story_of(changes: Mapping[str, object], a: Sequence[Script], seconds: float = 1.0, **others: Script) -> Story:
    """Requests as long as `a` has answers before the last one, then `OUTAGE` more."""
    return tell(settings(changes), {"a": a, **others}, every(seconds, len(a) - 1 + OUTAGE))


@pytest.mark.parametrize("losers", ["cancel", "keep"])
@pytest.mark.parametrize("order", ["fixed", "fastest", "rotate"])
@pytest.mark.parametrize("race", RACE_OF)
def test_every_request_is_raced_however_often_b_has_lost(race: str, order: str, losers: str) -> None:
    targets, width = RACE_OF[race]
    hedge = {"mode": "race", "width": width}
    changes = {"targets": list(targets), "hedge": hedge, "order": order, "losers": losers}
    changes = {f"routes.fast.{key}": value for key, value in changes.items()}
    story = story_of(changes, [QUICK] * REQUESTS + [SILENT], b=after(0.3), c=after(0.5))
    assert story.reasons(Role.RACER) == []
    raced = [number(request) for request, _, role, _ in story.launches if role is Role.RACER]
    assert [raced.count(request) for request in range(len(story.clients))] == [width - 1] * len(story.clients)
    assert all(client.status == 200 for client in story.clients)


@pytest.mark.parametrize("order", ["fixed", "fastest"])
def test_every_late_request_is_hedged_however_often_the_hedge_has_lost(order: str) -> None:
    changes = {**EASY, "routes.fast.targets": ["a", "b"], "routes.fast.hedge.delay": "1s", "routes.fast.order": order}
    story = story_of(changes, [QUICK, after(1.5)] * REQUESTS + [SILENT], 2.0, b=after(0.9))
    assert story.reasons() == []
    assert len(story.hedged()) >= (REQUESTS + OUTAGE if order == "fixed" else REQUESTS / 2)
    assert all((client.ended_at or inf) < 2.0 * sent + 2.0 for sent, client in enumerate(story.clients))


def test_a_target_that_mostly_takes_longer_than_there_is_time_is_not_hedged_to_even_if_it_always_loses() -> None:
    changes = {**EASY, "routes.fast.targets": ["a", "b"], "routes.fast.hedge.delay": "1s"}
    slow = [Sent(6.0 * place) for place in range(200)]  # b is broken off after 4 seconds each time
    pressed = [Sent(1200.0 + 10.0 * place, headers=[(b"x-hedgerow-deadline-ms", b"4500")]) for place in range(3)]
    story = tell(settings(changes), {"a": after(5.0), "b": SILENT}, slow + pressed)
    assert len(story.hedged()) == 200
    assert story.reasons() == [Reason.DEADLINE] * 3
