"""Gateways that share kept answers over a real Redis, and what becomes of them when it goes away."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from hedgerow.answer import Answer
from hedgerow.gateway.keeping import Record
from hedgerow.gateway.sharing import Shared
from hedgerow.lab.process import LabProcess
from hedgerow.policy.alternatives import Saying
from hedgerow.state.redis_log import RedisLog
from hedgerow.vocabulary import Role
from tests.e2e.redis_server import RedisServer, needs_redis
from tests.e2e.support import GatewayProcess, until
from tests.e2e.test_alternatives import events, pace, racing

pytestmark = [pytest.mark.e2e, needs_redis]

WORD = {"text": "hæk", "to": "en"}
EVENTS = {"accept": "text/event-stream"}


@pytest.fixture(scope="module")
def running() -> Iterator[list[LabProcess]]:
    with ExitStack() as stack:
        yield [stack.enter_context(LabProcess(["--name", name, "--preset", "fast"])) for name in ("primary", "backup")]


@pytest.fixture
def labs(running: list[LabProcess]) -> list[LabProcess]:
    for lab in running:
        lab.reset()
    return running


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def pair(labs: list[LabProcess], redis: RedisServer) -> Iterator[tuple[httpx2.Client, httpx2.Client]]:
    """Clients of two gateways that share a Redis, with the same key."""
    settings = racing(labs, scope="content", ttl="60s")
    settings["server"]["redis"] = redis.url
    with ExitStack() as stack:
        gateways = [stack.enter_context(GatewayProcess(settings)) for _ in range(2)]
        key = {"authorization": "Bearer sk-mine"}
        here, there = (stack.enter_context(httpx2.Client(base_url=each.url, headers=key)) for each in gateways)
        yield here, there


def words(view: Any) -> list[str]:
    return [each["answer"]["translation"] for each in view["alternatives"]]


def test_what_one_gateway_keeps_another_shows(pair: tuple[httpx2.Client, httpx2.Client]) -> None:
    here, there = pair
    where = here.post("/v1/translate", json=WORD, headers=pace(primary=200, backup=10)).headers[
        "x-hedgerow-alternatives"
    ]
    until(lambda: here.get(where).json()["pending"] == 0)
    until(lambda: there.get(where).json()["pending"] == 0)
    assert there.get(where).json() == here.get(where).json()
    assert words(there.get(where).json()) == ["hedge", "hedgerow"]
    assert there.get(where, headers={"authorization": "Bearer sk-other"}).status_code == 404
    assert there.get("/v1/hedgerow/requests/nothing/alternatives").status_code == 404


def test_another_gateway_tells_of_late_answers_as_they_come(pair: tuple[httpx2.Client, httpx2.Client]) -> None:
    here, there = pair
    where = here.post("/v1/translate", json=WORD, headers=pace(primary=800, backup=10)).headers[
        "x-hedgerow-alternatives"
    ]
    until(lambda: there.get(where).status_code == 200)
    with there.stream("GET", where, headers=EVENTS) as answer:
        told = events(answer)
        name, first = next(told)
        assert (name, first["answer"]) == ("alternative", {"translation": "hedge"})
        assert here.get(where).json()["pending"] == 1
        name, second = next(told)
        assert (name, second["answer"], second["number"]) == ("alternative", {"translation": "hedgerow"}, 2)
        assert list(told) == [("done", {"alternatives": 2, "disagreement": True, "pending": 0})]


def test_the_same_question_is_known_to_all(labs: list[LabProcess], pair: tuple[httpx2.Client, httpx2.Client]) -> None:
    here, there = pair
    where = here.post("/v1/translate", json=WORD, headers=pace(primary=50, backup=10)).headers[
        "x-hedgerow-alternatives"
    ]
    until(lambda: there.get(where).json().get("pending") == 0)
    labs[0].behave(script={"fault": "hang"})
    labs[1].behave(script={"ttft_ms": 200})
    again = there.post("/v1/translate", json=WORD).headers["x-hedgerow-alternatives"]
    view = there.get(again).json()
    assert words(view) == ["hedge", "hedgerow"]
    assert len({said["request_id"] for said in view["alternatives"][0]["said_by"]}) == 2


def test_a_redis_that_is_away_costs_no_answer(redis: RedisServer, pair: tuple[httpx2.Client, httpx2.Client]) -> None:
    here, there = pair
    redis.stop()
    answer = here.post("/v1/translate", json=WORD, headers=pace(primary=50, backup=10))
    where = answer.headers["x-hedgerow-alternatives"]
    assert answer.json() == {"translation": "hedge"}
    until(lambda: here.get(where).json()["pending"] == 0)
    assert there.get(where).status_code == 404
    redis.start()
    where = here.post("/v1/translate", json=WORD, headers=pace(primary=50, backup=10)).headers[
        "x-hedgerow-alternatives"
    ]
    until(lambda: there.get(where).status_code == 200)


def test_what_is_shared_is_gone_after_its_time(redis: RedisServer) -> None:
    async def story() -> None:
        log = RedisLog(redis.url)
        log.append("a", b"one", 0.3)
        log.append("a", b"two", 0.3)
        log.append("b", b"kept", 60.0, keep=1)
        log.append("b", b"last", 60.0, keep=1)
        async with asyncio.timeout(5):
            while (await log.read("b"))[0] != [b"last"]:  # noqa: ASYNC110  # what is awaited sets no event
                await asyncio.sleep(0.01)
        assert (await log.read("a"))[0] == [b"one", b"two"]
        async with asyncio.timeout(5):
            while (await log.read("a"))[0]:  # noqa: ASYNC110  # nor here
                await asyncio.sleep(0.01)
        log.append("a", b"three", 60.0)
        await log.close()
        with redis.client() as client:
            assert sorted(client.keys()) == [b"hedgerow:a", b"hedgerow:b"]

    asyncio.run(story())


def test_nothing_that_was_said_or_who_asked_is_in_a_name(
    redis: RedisServer, pair: tuple[httpx2.Client, httpx2.Client]
) -> None:
    here, _ = pair
    here.post("/v1/translate", json=WORD, headers=pace(primary=50, backup=10) | {"x-hedgerow-request-id": "mine"})
    with redis.client() as client:
        until(lambda: len(client.keys()) == 2)
        names = client.keys()
        assert b"mine" not in b" ".join(names)
        assert all(0 < client.ttl(name) <= 60 for name in names)


def test_many_listen_over_one_connection(redis: RedisServer) -> None:
    async def story() -> None:
        log = RedisLog(redis.url)
        told: list[bytes] = []

        async def listen(key: str) -> None:
            async for entry in log.follow(key, b"0", 20.0):
                told.append(entry)
                if entry == b"last":
                    return

        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for number in range(300):
                group.create_task(listen(f"k{number % 3}"))
            leaver = group.create_task(listen("nothing"))
            await asyncio.sleep(0)
            for key in ("k0", "k1", "k2"):
                log.append(key, b"first", 60.0)
                log.append(key, b"last", 60.0)
            while len(told) < 600:  # noqa: ASYNC110  # what is awaited sets no event
                await asyncio.sleep(0.01)
            with redis.client() as client:
                assert len(client.client_list()) <= 4
            leaver.cancel()
        assert told.count(b"first") == told.count(b"last") == 300
        await log.close()

    asyncio.run(story())


def test_who_follows_is_told_when_redis_goes_away(redis: RedisServer) -> None:
    async def story() -> None:
        log = RedisLog(redis.url)

        async def listen() -> list[bytes]:
            return [entry async for entry in log.follow("k", b"0", 20.0)]

        task = asyncio.create_task(listen())
        log.append("k", b"one", 60.0)
        await asyncio.sleep(0.3)
        redis.stop()
        async with asyncio.timeout(10):
            assert await task == [b"one"]
        await log.close()
        redis.start()

    asyncio.run(story())


def test_a_client_that_leaves_takes_its_listening_with_it(pair: tuple[httpx2.Client, httpx2.Client]) -> None:
    here, there = pair
    where = here.post("/v1/translate", json=WORD, headers=pace(primary=1_500, backup=10)).headers[
        "x-hedgerow-alternatives"
    ]
    until(lambda: there.get(where).status_code == 200)
    for _ in range(5):
        with there.stream("GET", where, headers=EVENTS) as answer:
            assert next(events(answer))[0] == "alternative"
    with there.stream("GET", where, headers=EVENTS) as answer:
        assert [name for name, _ in events(answer)] == ["alternative", "alternative", "done"]


def test_a_listener_whose_redis_goes_away_is_told_that_more_was_pending(
    redis: RedisServer, pair: tuple[httpx2.Client, httpx2.Client]
) -> None:
    here, there = pair
    where = here.post("/v1/translate", json=WORD, headers=pace(primary=5_000, backup=10)).headers[
        "x-hedgerow-alternatives"
    ]
    until(lambda: there.get(where).status_code == 200)
    with there.stream("GET", where, headers=EVENTS) as answer:
        heard = events(answer)
        assert next(heard)[0] == "alternative"
        redis.stop()
        assert list(heard) == [("done", {"alternatives": 1, "disagreement": False, "pending": 1})]
    redis.start()


def test_what_is_taken_over_is_as_old_as_it_is(redis: RedisServer) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        here, there = (Shared(RedisLog(redis.url), loop) for _ in range(2))
        record = Record("r", "route", "tenant", ("tenant", b"asks"), 1, 60.0)
        here.opened(record)
        old = Saying("q", 0, "a", Role.PRIMARY, True, None, 1.0, loop.time() - 50.0, Answer("hedge"))
        here.said(record, old)
        async with asyncio.timeout(5):
            while not (said := await there.asked_before(("tenant", b"asks"))):  # noqa: ASYNC110  # what is awaited sets no event
                await asyncio.sleep(0.01)
        assert [saying.answer.text for saying in said] == ["hedge"]
        assert loop.time() - said[0].at >= 50.0
        await here.close()
        await there.close()

    asyncio.run(story())
