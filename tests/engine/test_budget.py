"""The cap on hedges at work: who is hedged when many requests are slow, in virtual time."""

from __future__ import annotations

import asyncio

from hedgerow.events import AttemptLaunched, HedgeSkipped, Reason, Role
from hedgerow.policy.account import Limits
from hedgerow.policy.budget import Share
from hedgerow.policy.settings import Policy
from tests.engine.scripted import JSON, RecordingExchange, World, play
from tests.engine.test_flight import STALLED, error, stream

POLICY = Policy(delay=2.0, first_token=20.0, total=120.0, limits=Limits(Share(0.1)))
SLOW = stream("P", first_after=5.0)
OFF = [(b"x-hedgerow-hedge", b"off")]


def hedges(world: World) -> int:
    return sum(event.role is Role.HEDGE for event in world.of(AttemptLaunched))


def refused(world: World) -> list[str]:
    """The requests that were not hedged for want of budget."""
    return [event.request_id for event in world.of(HedgeSkipped) if event.reason is Reason.BUDGET]


def ask(world: World, count: int) -> list[RecordingExchange]:
    return [world.request() for _ in range(count)]


def test_the_eleventh_hedge_in_a_row_is_refused_and_its_primary_goes_on_alone() -> None:
    clients: list[RecordingExchange] = []

    async def story(world: World) -> None:
        clients.extend(ask(world, 11))

    world = play({"a": SLOW, "b": stream("B", first_after=0.5)}, story, policy=POLICY)
    assert [client.pieces[0][0] for client in clients] == [2.5] * 10 + [5.0]
    assert clients[10].answer_headers[b"x-hedgerow-attempts"] == b"1"
    (skipped,) = world.of(HedgeSkipped)
    assert (skipped.reason, skipped.at, skipped.detail) == (Reason.BUDGET, 2.0, "route fast: 10% of requests")


def test_ten_more_requests_earn_the_next_hedge() -> None:
    """failsafe-go ended what was running when its budget was used up (its issue 141); here it waits and earns."""

    async def story(world: World) -> None:
        ask(world, 10)
        await asyncio.sleep(50)
        assert (hedges(world), refused(world)) == (10, [])
        ask(world, 9)
        await asyncio.sleep(50)
        assert (hedges(world), len(refused(world))) == (10, 9)
        ask(world, 2)
        await asyncio.sleep(50)
        assert (hedges(world), len(refused(world))) == (11, 10)

    play({"a": SLOW, "b": stream("B")}, story, policy=POLICY)


def test_failovers_cost_nothing() -> None:
    async def story(world: World) -> None:
        ask(world, 50)
        await asyncio.sleep(50)
        assert len(world.pools["b"].requests) == 50
        world.pools["a"].scripts = [SLOW]
        ask(world, 10)

    world = play({"a": error(500, "broken"), "b": stream("B")}, story, policy=POLICY)
    assert (hedges(world), refused(world)) == (10, [])


def test_what_is_not_hedged_for_other_reasons_costs_nothing() -> None:
    async def story(world: World) -> None:
        for _ in range(20):
            world.request(headers=OFF)
            world.request(b'{"model":"fast","stream":true,"store":true,"messages":[]}')
        await asyncio.sleep(50)
        assert hedges(world) == 0
        ask(world, 10)

    world = play({"a": SLOW, "b": stream("B")}, story, policy=POLICY)
    assert (hedges(world), refused(world)) == (10, [])


def test_a_hedge_without_a_place_to_go_costs_nothing() -> None:
    async def story(world: World) -> None:
        ask(world, 9)
        await asyncio.sleep(200)  # until the target is asked again
        world.pools["a"].scripts, world.pools["b"].scripts = [SLOW], [stream("B")]
        ask(world, 10)

    policy = Policy(delay=2.0, max_hedges=2, max_attempts=3, first_token=20.0, total=10.0, limits=Limits(Share(0.1)))
    gone = error(404, "no such model")
    world = play({"a": gone, "b": STALLED}, story, policy=policy)
    assert {event.reason for event in world.of(HedgeSkipped)} == {Reason.TARGETS}
    assert (hedges(world), refused(world)) == (10, [])


def test_requests_to_other_paths_earn_nothing() -> None:
    async def story(world: World) -> None:
        ask(world, 10)
        await asyncio.sleep(50)
        world.pools["a"].scripts = [error(200, "fine", JSON)]
        for _ in range(100):
            world.request(b'{"model":"fast","input":"x"}', target=b"/v1/images/generations")
        await asyncio.sleep(50)
        world.pools["a"].scripts = [SLOW]
        ask(world, 1)

    world = play({"a": SLOW, "b": stream("B")}, story, policy=POLICY)
    assert (hedges(world), len(refused(world))) == (10, 1)


def test_every_second_hedge_of_one_request_counts() -> None:
    async def story(world: World) -> None:
        ask(world, 6)

    policy = Policy(delay=2.0, max_hedges=2, max_attempts=3, first_token=20.0, total=10.0, limits=Limits(Share(0.1)))
    world = play({"a": STALLED, "b": STALLED, "c": STALLED}, story, policy=policy)
    assert (hedges(world), len(refused(world))) == (10, 2)


def test_without_a_budget_every_request_may_be_hedged() -> None:
    async def story(world: World) -> None:
        ask(world, 50)

    world = play({"a": SLOW, "b": stream("B")}, story)
    assert (hedges(world), refused(world)) == (50, [])
