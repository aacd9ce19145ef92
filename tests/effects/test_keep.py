"""routes.<name>.losers and keep: what becomes of attempts that lose, and how long their answers can be had."""

from __future__ import annotations

import json

import pytest

from hedgerow.events import AttemptEnded, Outcome
from tests.effects.support import HELLO, WHOLE, Sent, Story, effect_of, settings, tell
from tests.engine.scripted import JSON, Answer

SLOW = Answer([(0.0, HELLO)], headers=JSON, head_after=4.0)
FAST = Answer([(0.0, HELLO)], headers=JSON, head_after=1.0)
KEEPS: dict[str, object] = {
    "routes.<name>.hedge.mode": "race",
    "routes.<name>.losers": "keep",
    **{f"targets.{name}.price": {"request": 2} for name in "abc"},
}


def raced(changes: dict[str, object], *further: Sent) -> Story:
    """A slow and a fast target asked together, and what is asked later."""
    return tell(settings({**KEEPS, **changes}), {"a": SLOW, "b": FAST}, [Sent(body=WHOLE), *further])


def loser(story: Story) -> Outcome:
    return next(event.outcome for event in story.of(AttemptEnded) if event.target == "a")


def page(at: float, request: int = 1) -> Sent:
    return Sent(at, b"", path=b"/v1/hedgerow/requests/r-%d/alternatives" % request, method=b"GET")


@effect_of("routes.<name>.losers")
@pytest.mark.parametrize(
    ("losers", "outcome", "status"),
    [("cancel", Outcome.SUPERSEDED, 404), ("keep", Outcome.KEPT, 200), ("drain", Outcome.KEPT, 404)],
)
def test_losers_are_broken_off_or_kept_or_drained(key: str, losers: str, outcome: Outcome, status: int) -> None:
    story = raced({key: losers}, page(9.0))
    assert (loser(story), story.clients[1].status) == (outcome, status)


@effect_of("routes.<name>.keep.max_time")
@pytest.mark.parametrize(("limit", "outcome"), [("2s", Outcome.SUPERSEDED), ("5s", Outcome.KEPT)])
def test_losers_may_take_so_long(key: str, limit: str, outcome: Outcome) -> None:
    assert loser(raced({key: limit})) is outcome


@effect_of("routes.<name>.keep.max_usd")
@pytest.mark.parametrize(("limit", "outcome"), [(1.99, Outcome.SUPERSEDED), (2, Outcome.KEPT), ("off", Outcome.KEPT)])
def test_losers_may_cost_so_much(key: str, limit: object, outcome: Outcome) -> None:
    assert loser(raced({key: limit})) is outcome


@effect_of("routes.<name>.keep.max_tokens")
@pytest.mark.parametrize(("limit", "outcome"), [(500, Outcome.SUPERSEDED), (600, Outcome.KEPT), ("off", Outcome.KEPT)])
def test_losers_may_come_to_so_many_tokens(key: str, limit: object, outcome: Outcome) -> None:
    assert loser(raced({key: limit})) is outcome


@effect_of("routes.<name>.keep.ttl")
@pytest.mark.parametrize(("ttl", "statuses"), [("1m", [200, 404]), ("2m", [200, 200])])
def test_what_was_said_is_kept_so_long(key: str, ttl: str, statuses: list[int]) -> None:
    story = raced({key: ttl}, page(59.0), page(62.0))
    assert [client.status for client in story.clients[1:]] == statuses


@effect_of("routes.<name>.keep.scope")
@pytest.mark.parametrize(("scope", "agreement"), [("request", 2), ("content", 4)])
def test_the_same_question_sees_the_same_alternatives(key: str, scope: str, agreement: int) -> None:
    story = raced({key: scope}, Sent(10.0, WHOLE), page(20.0, 2))
    assert json.loads(story.clients[2].text)["alternatives"][0]["agreement"] == agreement
