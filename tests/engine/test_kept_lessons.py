"""What a route learns of losers that run on: the same as of those that are broken off, and how long they took."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from hedgerow.events import Outcome
from hedgerow.policy.alternatives import KeepSettings
from hedgerow.policy.outage import Throttle, ThrottleSettings
from hedgerow.policy.settings import Policy
from hedgerow.policy.when import When
from tests.engine.scripted import JSON, Answer, World, play
from tests.engine.test_gates import STOP, STREAM, delta, outcomes

KEEP = KeepSettings(time=20.0, ttl=100.0)
HEDGED = Policy(delay=2.0, first_token=30.0, stall=10.0, total=120.0, throttle=ThrottleSettings())


def after(seconds: float) -> Answer:
    return Answer([(seconds, delta("x")), (0.1, STOP)])


def fails(seconds: float) -> Answer:
    return Answer([(0.0, b"{}")], status=500, headers=JSON, head_after=seconds)


def told(monkeypatch: pytest.MonkeyPatch, kind: type, *names: str) -> list[tuple[Any, ...]]:
    """What these methods are told, with the keywords last."""
    calls: list[tuple[Any, ...]] = []

    def listening(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        def heard(self: object, *given: Any, **more: Any) -> Any:
            calls.append((name, *given, *more.values()))
            return method(self, *given, **more)

        return heard

    for name in names:
        monkeypatch.setattr(kind, name, listening(name, getattr(kind, name)))
    return calls


def ask(a: Answer, b: Answer, keep: KeepSettings | None) -> World:
    """One request that a shows nothing of within the delay; nothing of it may be remembered in the end."""

    async def story(world: World) -> None:
        world.request(STREAM)
        await asyncio.sleep(1.0)
        assert len(world.hedger._judge._lessons) == 0
        await asyncio.sleep(99.0)
        assert len(world.hedger._judge._lessons) == 0

    return play({"a": a, "b": b}, story, policy=HEDGED, keep=keep)


@pytest.mark.parametrize("keep", [None, KEEP], ids=["cancel", "keep"])
def test_a_late_primary_costs_the_throttle_one_token_even_if_it_fails_after_the_win(
    monkeypatch: pytest.MonkeyPatch, keep: KeepSettings | None
) -> None:
    calls = told(monkeypatch, Throttle, "first", "other")
    world = ask(fails(5.0), after(1.0), keep)
    assert calls == [("first", True, 2.0), ("other", False, 3.0)]
    assert outcomes(world) == ([Outcome.SUPERSEDED, Outcome.WON] if keep is None else [Outcome.FAILED, Outcome.WON])


@pytest.mark.parametrize(("hedge", "late"), [(1.8, False), (3.0, True), (50.0, True)])
def test_a_kept_hedge_is_late_by_its_own_first_token(monkeypatch: pytest.MonkeyPatch, hedge: float, late: bool) -> None:
    calls = told(monkeypatch, Throttle, "first", "other")
    ask(after(2.5), after(hedge), KEEP)
    assert [call[:2] for call in calls] == [("first", True), ("other", late)]


@pytest.mark.parametrize(
    ("a", "b", "keep", "primary", "backup"),
    [
        (after(5.0), after(1.0), None, (3.0, False), (1.0, True)),
        (after(5.0), after(1.0), KEEP, (5.0, True), (1.0, True)),
        (after(2.5), after(4.0), None, (2.5, True), (0.5, False)),
        (after(2.5), after(4.0), KEEP, (2.5, True), (4.0, True)),
        (after(2.5), after(90.0), KEEP, (2.5, True), (20.5, False)),  # broken off when `time` was over
    ],
)
def test_winner_and_loser_are_a_pair_and_of_kept_ones_both_times_are_known(
    monkeypatch: pytest.MonkeyPatch,
    a: Answer,
    b: Answer,
    keep: KeepSettings | None,
    primary: tuple[float, bool],
    backup: tuple[float, bool],
) -> None:
    calls = told(monkeypatch, When, "hedged")
    ask(a, b, keep)
    ((_, _, *names, took, hedge_took, _now, done, hedge_done),) = calls
    assert names == ["a", "b"]
    assert ((round(took, 6), done), (round(hedge_took, 6), hedge_done)) == (primary, backup)


def test_a_kept_one_that_fails_is_no_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = told(monkeypatch, When, "hedged")
    ask(fails(5.0), after(1.0), KEEP)
    assert calls == []


def test_of_three_that_race_the_first_to_lose_is_the_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = told(monkeypatch, When, "hedged")

    async def story(world: World) -> None:
        world.request(STREAM)
        await asyncio.sleep(50.0)
        assert len(world.hedger._judge._lessons) == 0

    race = Policy(width=3, max_attempts=3, first_token=50.0, stall=10.0, total=60.0)
    world = play({"a": after(9.0), "b": after(1.0), "c": after(4.0)}, story, policy=race, keep=KEEP)
    assert outcomes(world) == [Outcome.KEPT, Outcome.WON, Outcome.KEPT]
    assert [call[2:4] for call in calls] == [("b", "c")]
