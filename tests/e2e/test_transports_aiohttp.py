"""Sessions of aiohttp with the hedging connector, against two labs in separate processes."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from hedgerow import HttpTarget, Policy
from hedgerow.transports.aiohttp import HedgeConnector
from tests.e2e.support import MESSAGES, Labs, assert_within, config, script, until
from tests.e2e.upstream import Upstream, always, completion, whole

pytestmark = pytest.mark.e2e

ROUNDS = 9
DELAY = 0.06
FIRST_TOKEN = 0.03
GRAIN = 0.002
SDK = "http://sdk.example/v1"
URL = f"{SDK}/chat/completions"
BODY: dict[str, Any] = {"model": "any", "messages": MESSAGES}
STREAM = BODY | {"stream": True}
HEDGING = Policy(delay=DELAY, budget=None, breaker=False)
STALL = {"x-lab-script-primary": script(fault="stall")}
STALLED = {"x-lab-script": script(fault="stall")}
BACKUP = {"x-lab-script-backup": script(ttft_ms=1000 * FIRST_TOKEN, gap_ms=1, tokens=5)}
MID = {"x-lab-script": script(ttft_ms=1, gap_ms=1, fault="stall", at=3)}
QUICK = {"x-lab-script": script(ttft_ms=1, gap_ms=1, tokens=3)}


def session(*places: Any, policy: Policy = HEDGING, **options: Any) -> aiohttp.ClientSession:
    targets = [HttpTarget(base_url=place.base_url) for place in places]
    return aiohttp.ClientSession(connector=HedgeConnector(targets, policy, base_urls=[SDK]), **options)


def test_the_first_token_comes_at_delay_plus_backups_time(labs: Labs) -> None:
    async def story() -> list[float]:
        firsts = []
        async with session(*labs) as client:
            for _ in range(ROUNDS):
                sent = time.monotonic()
                async with client.post(URL, json=STREAM, headers=STALL | BACKUP) as answer:
                    firsts.append(time.monotonic() - sent)
                    assert answer.headers["x-hedgerow-attempts"] == "2"
                    said = await answer.read()
                    assert b'"content":"backup"' in said
                    assert said.endswith(b"data: [DONE]\n\n")
        return firsts

    firsts = asyncio.run(story())
    until(lambda: all(one["closed_at"] is not None for lab in labs for one in lab.log()))
    pairs = list(zip(*(lab.log() for lab in labs), strict=True))
    assert {loser["ending"] for loser, _ in pairs} == {"cancelled_before_token"}
    assert min(firsts) >= DELAY + FIRST_TOKEN - GRAIN
    assert_within([first - DELAY - FIRST_TOKEN for first in firsts], bound=0.050)
    assert_within([loser["closed_at"] - winner["first_token_at"] for loser, winner in pairs], bound=0.050)


@pytest.mark.parametrize("leaving", ["close", "cancel"])
def test_a_stream_that_is_left_closes_its_connection(labs: Labs, leaving: str) -> None:
    async def story() -> None:
        async with session(labs[0]) as client:
            answer = await client.post(URL, json=STREAM, headers=MID)
            if leaving == "close":
                answer.close()
            else:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await answer.read()
            await asyncio.to_thread(until, lambda: labs[0].stats()["cancelled_mid_stream"] == 1)

    asyncio.run(story())


def test_a_cancelled_caller_closes_both_attempts(labs: Labs) -> None:
    async def story() -> None:
        async with session(*labs) as client:
            asking = asyncio.ensure_future(
                client.post(URL, json=STREAM, headers={"x-lab-script": script(fault="stall")})
            )
            await asyncio.to_thread(until, lambda: labs[1].stats()["requests"] == 1)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await asyncio.to_thread(until, lambda: [lab.stats()["cancelled_before_token"] for lab in labs] == [1, 1])

    asyncio.run(story())


def test_its_own_timeouts_hold(labs: Labs) -> None:
    async def story() -> None:
        async with session(labs[0], timeout=aiohttp.ClientTimeout(sock_read=0.2)) as client:
            with pytest.raises(aiohttp.SocketTimeoutError):
                await client.post(URL, json=STREAM, headers={"x-lab-script": script(fault="hang")})
        await asyncio.to_thread(until, lambda: labs[0].stats()["cancelled_before_headers"] == 1)

    asyncio.run(story())


def test_side_by_side(labs: Labs) -> None:
    async def story() -> list[int]:
        async with session(labs[0], policy=Policy()) as client:

            async def one() -> int:
                async with client.post(URL, json=BODY, headers=QUICK) as answer:
                    await answer.json()
                    return answer.status

            return await asyncio.gather(*(one() for _ in range(100)))

    assert asyncio.run(story()) == [200] * 100
    assert labs[0].stats()["completed"] == 100


def test_errors_and_all_else_and_keys(labs: Labs) -> None:
    async def story() -> None:
        with Upstream(always(whole(completion("A hedge.")))) as upstream:
            async with session(upstream) as client:
                mine = {"authorization": "Bearer sk-mine"}
                async with client.get(f"{labs[0].base_url}/models", headers=mine) as answer:
                    assert answer.status == 200
                async with client.post(f"{labs[0].base_url}/jobs/responses", json=BODY) as answer:
                    assert "x-hedgerow-attempts" not in answer.headers, "it is for another service"
                async with client.post(URL, json=BODY, headers=mine) as answer:
                    assert (await answer.json())["choices"][0]["message"]["content"] == "A hedge."
                assert "authorization" not in upstream.requests[0].headers
        passing = HedgeConnector([HttpTarget(base_url=labs[0].base_url, api_key="passthrough")], base_urls=[SDK])
        async with aiohttp.ClientSession(connector=passing) as client:
            async with client.post(URL, json=BODY, headers=mine) as answer:
                assert answer.status == 400
                assert "key is meant for sdk.example:80" in await answer.text()
            for option in ({"proxy": "http://127.0.0.1:9"}, {"ssl": False}):
                with pytest.raises(ValueError, match=r"no effect on what is hedged: use HttpTarget\("):
                    await client.post(URL, json=BODY, **option)
            refusing = {"x-lab-script": script(status=400, code="string_too_long")}
            async with client.post(f"{labs[0].base_url}/chat/completions", json=BODY, headers=refusing) as answer:
                assert (await answer.json())["error"]["code"] == "string_too_long"
        async with session(upstream) as client, client.post(URL, json=BODY) as answer:
            assert (answer.status, answer.headers["x-hedgerow-failure"]) == (502, "connect")

    asyncio.run(story())
    assert labs[0].stats()["other_requests"] == 2


def test_from_a_configuration(labs: Labs, tmp_path: Path) -> None:
    file = tmp_path / "hedgerow.yaml"
    file.write_text(json.dumps(config(*(lab.base_url for lab in labs), delay="50ms")))

    async def story() -> str:
        connector = HedgeConnector.from_config(file, route="fast", base_urls=[SDK])
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.post(URL, json=STREAM, headers=STALL | BACKUP) as answer,
        ):
            return answer.headers["x-hedgerow-target"]

    assert asyncio.run(story()) == "backup"


def test_a_session_that_trusts_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://me:pw@127.0.0.1:9")

    async def story() -> int:
        async with session(upstream, trust_env=True) as client, client.post(URL, json=BODY) as answer:
            return answer.status

    with Upstream(always(whole(completion("Hi")))) as upstream:
        assert asyncio.run(story()) == 200, "loopback hosts are never proxied"


def test_no_connection_outlives_its_session() -> None:
    async def story() -> None:
        async with session(upstream) as client:
            for _ in range(3):
                async with client.post(URL, json=BODY) as answer:
                    assert answer.status == 200
            assert upstream.open == 1
        await asyncio.to_thread(until, lambda: upstream.open == 0)

    with Upstream(always(whole(completion("Hi")))) as upstream:
        asyncio.run(story())
