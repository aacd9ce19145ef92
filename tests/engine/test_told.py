"""What the events tell of each request and attempt, beside who won and when."""

from __future__ import annotations

import asyncio

import pytest

from hedgerow.events import AttemptEnded, AttemptLaunched, RequestStarted
from tests.engine.scripted import REFUSED, Answer, World, play
from tests.engine.test_flight import STALLED, stream

ASKED = b'{"model":"fast","stream":true,"messages":[]}'


def test_each_attempt_names_the_model_that_its_target_is_asked_for() -> None:
    async def story(world: World) -> None:
        world.request()
        await asyncio.sleep(10.0)

    world = play({"a": STALLED, "b": stream("B")}, story)
    assert [(each.attempt, each.model) for each in world.of(AttemptLaunched)] == [(0, "model-a"), (1, "model-b")]
    assert {each.attempt: each.model for each in world.of(AttemptEnded)} == {0: "model-a", 1: "model-b"}
    assert all(
        each.model.encode() in pool.requests[0][2]
        for each, pool in zip(world.of(AttemptLaunched), world.pools.values(), strict=True)
    )


@pytest.mark.parametrize(
    ("path", "body", "model"),
    [
        (b"/v1/files", b'{"model":"theirs"}', "theirs"),
        (b"/v1/files", b'{"model":"fast"}', "model-a"),
        (b"/v1/files", b'{"purpose":"batch"}', None),
        (b"/v1/files", b"not JSON", None),
        (b"/v1/files", b'{"model":"%b"}' % (b"x" * 1000), "x" * 200),
    ],
    ids=["not a route of ours", "a route of ours", "no model", "no JSON", "endless"],
)
def test_what_is_only_handed_through_names_the_model_that_is_sent(path: bytes, body: bytes, model: str | None) -> None:
    async def story(world: World) -> None:
        world.request(body, target=path)
        await asyncio.sleep(1.0)

    world = play({"a": Answer([(0.1, b"{}")])}, story)
    assert [each.model for each in (*world.of(AttemptLaunched), *world.of(AttemptEnded))] == [model, model]


def test_a_request_tells_whose_it_is_by_a_fingerprint_of_its_key() -> None:
    key, other = b"Bearer sk-the-key", b"Bearer sk-another"

    async def story(world: World) -> None:
        for headers in ([(b"authorization", key)], [(b"x-api-key", b"sk-the-key")], [(b"authorization", other)], []):
            world.request(headers=headers)
            await asyncio.sleep(5.0)

    world = play({"a": stream("A")}, story)
    first, same, another, nobody = [each.tenant for each in world.of(RequestStarted)]
    assert len(first) == 16
    assert "sk-" not in first
    assert same == first != another
    assert nobody == ""


def test_an_attempt_tells_when_it_was_sent_and_that_it_never_was() -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(3.0)
        world.request()
        await asyncio.sleep(5.0)

    world = play({"a": REFUSED, "b": stream("B")}, story)
    refused, won = world.of(AttemptEnded)
    assert (refused.sent_at, won.sent_at) == (None, won.launched_at)
