"""What the events tell of each request and attempt, beside who won and when."""

from __future__ import annotations

import asyncio

import pytest

from hedgerow.events import AttemptEnded, AttemptLaunched, RequestFinished, RequestStarted, Usage, UsageSource
from tests.engine.scripted import JSON, REFUSED, Answer, Script, Scripts, World, play
from tests.engine.test_flight import DONE, STALLED, stream, token

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


WHOLE = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"%b"},"finish_reason":"length"}]%b}'
PLAIN = b'{"model":"fast","messages":[]}'
USED = b',"usage":{"prompt_tokens":12,"completion_tokens":4},"service_tier":"flex"'


def ends(scripts: Scripts, body: bytes = ASKED, *, leave_after: float = 60.0) -> dict[str, AttemptEnded]:
    """What is told of each target's attempt for one request, whose client leaves if it takes too long."""

    async def story(world: World) -> None:
        client = world.request(body)
        await asyncio.sleep(leave_after)
        if client.outcome is None:
            client.leave()

    world = play(scripts, story)
    finished = world.of(RequestFinished)[0]
    told = {each.target: each for each in world.of(AttemptEnded)}
    won = [each.usage for each in world.of(AttemptEnded) if each.attempt == finished.winner]
    assert won == ([finished.usage] if won else []), "the request has its winner's tokens"
    return told


def guess(made: int | None, body: bytes = ASKED) -> Usage:
    return Usage(len(body) >> 2, made, source=UsageSource.ESTIMATED)


def test_whoever_reports_nothing_has_its_tokens_estimated() -> None:
    said = [(0.1, token("abc")), (0.1, token("def"))]
    silent = Answer(head_after=500.0)
    assert ends({"a": STALLED, "b": stream("B")})["a"].usage == guess(0), "broken off before its first token"
    assert ends({"a": silent, "b": stream("B")})["a"].usage == guess(0), "before its head"
    assert ends({"a": Answer(said, end="hang")}, leave_after=1.0)["a"].usage == guess(2), "its client left"
    assert ends({"a": silent}, leave_after=1.0)["a"].usage == guess(0), "its client left before its head"
    assert ends({"a": Answer(said, end="reset")})["a"].usage == guess(2), "it broke off"
    assert ends({"a": Answer(said, end="hang")})["a"].usage == guess(2), "it stalled"
    assert ends({"a": Answer([*said, (0.1, DONE)])})["a"].usage == guess(2), "it won and did not say"


def test_a_whole_answer_that_does_not_say_has_as_many_tokens_as_its_text_is_long() -> None:
    for text, made in ((b"Hi", 1), (b"x" * 400, 100), (b"x" * 401, 101)):
        answer = Answer([(0.1, WHOLE % (text, b""))], headers=JSON)
        assert ends({"a": answer}, PLAIN)["a"].usage == guess(made, PLAIN)
        assert ends({"a": answer})["a"].usage == guess(made), "in place of a stream"


def test_embeddings_are_no_tokens_of_an_answer() -> None:
    body = b'{"model":"fast","input":"a text of some length"}'
    vectors = b'{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1.0]}]%b}'

    async def story(world: World) -> None:
        world.request(body, target=b"/v1/embeddings")
        await asyncio.sleep(10.0)

    for reported, usage in ((b',"usage":{"prompt_tokens":5,"total_tokens":5}', Usage(5, 0)), (b"", guess(0, body))):
        loser, winner = Answer(head_after=500.0), Answer([(0.1, vectors % reported)], headers=JSON)
        world = play({"a": loser, "b": winner}, story)
        assert {each.target: each.usage for each in world.of(AttemptEnded)} == {"a": guess(0, body), "b": usage}


def test_of_what_is_only_handed_through_no_tokens_are_counted() -> None:
    async def story(world: World) -> None:
        world.request(PLAIN, target=b"/v1/files")
        await asyncio.sleep(1.0)

    world = play({"a": Answer([(0.1, b'{"usage":{"prompt_tokens":5}}')], headers=JSON)}, story)
    assert [each.usage for each in world.of(AttemptEnded)] == [None]


def test_nothing_is_estimated_of_what_was_not_sent_or_not_taken() -> None:
    refusals: list[Script] = [REFUSED, Answer([(0.1, b"{}")], status=503, headers=JSON)]
    for refused in refusals:
        told = ends({"a": refused, "b": stream("B")})["a"]
        assert told.usage is None
        assert (told.finish_reason, told.service_tier) == (None, None)


def test_what_the_upstream_says_is_told_in_its_own_words() -> None:
    told = ends({"a": Answer([(0.1, WHOLE % (b"Hi", USED))], headers=JSON)}, PLAIN)["a"]
    assert (told.usage, told.finish_reason, told.service_tier) == (Usage(12, 4), "length", "flex")
    told = ends({"a": stream("A")})["a"]
    assert (told.finish_reason, told.service_tier) == ("stop", None)
    endless = Answer([(0.1, (WHOLE % (b"Hi", USED)).replace(b"length", b"x" * 1000))], headers=JSON)
    assert ends({"a": endless}, PLAIN)["a"].finish_reason == "x" * 200


def test_what_was_reported_before_an_answer_broke_off_is_no_estimate() -> None:
    started = b'data: {"type":"message_start","message":{"usage":{"input_tokens":1500,"service_tier":"priority"}}}\n\n'
    said = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Red"}}\n\n'

    async def story(world: World) -> None:
        client = world.request(target=b"/v1/messages")
        await asyncio.sleep(1.0)
        client.leave()

    world = play({"a": Answer([(0.1, started), (0.1, said), (0.1, said)], end="hang")}, story)
    (told,) = world.of(AttemptEnded)
    assert told.usage == Usage(1500, 2, source=UsageSource.PARTIAL)
    assert told.service_tier == "priority"
