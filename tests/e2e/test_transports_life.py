"""Whatever becomes of a client, its caller, its loop or its process: nothing stays open, and the next one works."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
import uvloop

import hedgerow
from hedgerow import HttpTarget, Policy
from hedgerow.client.background import background
from hedgerow.errors import ConfigError
from hedgerow.lab.process import LabProcess
from hedgerow.transports.httpx2 import HedgeTransport, SyncHedgeTransport
from hedgerow.transports.watch import Watch
from tests.descriptors import open_sockets
from tests.e2e.support import MESSAGES, Labs, config, script, until
from tests.e2e.upstream import LAST_CHUNK, SSE_HEAD, Received, Upstream, always, chunk, completion, event, whole

pytestmark = pytest.mark.e2e

SDK = "http://sdk/v1"
URL = f"{SDK}/chat/completions"
http_client: Any = partial(hedgerow.http_client, base_urls=[SDK])
http_client_sync: Any = partial(hedgerow.http_client_sync, base_urls=[SDK])
BODY: dict[str, Any] = {"model": "any", "messages": MESSAGES}
STREAM = BODY | {"stream": True}
ANSWER = whole(completion("A hedge."))
HEDGING = Policy(delay=0.05, budget=None, breaker=False)
STALL = {"x-lab-script": script(fault="stall")}
MID = {"x-lab-script": script(ttft_ms=1, gap_ms=1, fault="stall", at=3)}
QUICK = {"x-lab-script": script(ttft_ms=1, gap_ms=1, tokens=3)}


def at(*places: LabProcess | Upstream) -> list[HttpTarget]:
    return [HttpTarget(base_url=place.base_url) for place in places]


def cancelled(labs: Sequence[LabProcess], ending: str, count: int = 1) -> None:
    for lab in labs:
        until(lambda lab=lab: lab.stats()[ending] == count)  # type: ignore[misc]  # bound here


def sockets() -> int:
    """Open sockets of this process."""
    gc.collect()
    return open_sockets()


def test_a_cancelled_caller_closes_both_attempts(labs: Labs) -> None:
    async def story() -> None:
        async with http_client(at(*labs), HEDGING) as client:
            asking = asyncio.create_task(client.post(URL, json=STREAM, headers=STALL))
            await asyncio.to_thread(until, lambda: labs[1].stats()["requests"] == 1)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            assert asking.cancelled()
            await asyncio.to_thread(cancelled, labs, "cancelled_before_token")

    asyncio.run(story())


@pytest.mark.parametrize("leaving", ["close", "break", "cancel", "forget"])
def test_a_stream_that_is_left_closes_its_connection(labs: Labs, leaving: str) -> None:
    async def read(answer: Any) -> None:
        async for _ in answer.aiter_raw():
            if leaving == "break":
                break

    async def story() -> None:
        async with http_client(at(labs[0])) as client:
            answer = await client.send(client.build_request("POST", URL, json=STREAM, headers=MID), stream=True)
            if leaving == "close":
                await answer.aclose()
            elif leaving == "break":
                await read(answer)
                await answer.aclose()
            elif leaving == "cancel":
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await read(answer)
                await answer.aclose()
            del answer
            gc.collect()
            await asyncio.to_thread(cancelled, labs[:1], "cancelled_mid_stream")

    asyncio.run(story())


@pytest.mark.parametrize("leaving", ["close", "forget"])
def test_a_sync_stream_that_is_left_closes_its_connection(labs: Labs, leaving: str) -> None:
    with http_client_sync(at(labs[0])) as client:
        answer = client.send(client.build_request("POST", URL, json=STREAM, headers=MID), stream=True)
        if leaving == "close":
            answer.close()
        del answer
        gc.collect()
        cancelled(labs[:1], "cancelled_mid_stream")


def test_an_interrupted_sync_caller_closes_its_attempts(labs: Labs, tmp_path: Path) -> None:
    code = f"""
import os, signal, threading, hedgerow
targets = [hedgerow.HttpTarget(base_url=url) for url in {[lab.base_url for lab in labs]!r}]
client = hedgerow.http_client_sync(targets, hedgerow.Policy(delay=0.05, budget=None), base_urls=[{SDK!r}])
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    client.post({URL!r}, json={STREAM!r}, headers={STALL!r})
except KeyboardInterrupt:
    print("interrupted", client.post({URL!r}, json={BODY!r}, headers={QUICK!r}).status_code)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert run.stdout == "interrupted 200\n"
    assert run.stderr == ""
    cancelled(labs, "cancelled_before_token")


@pytest.mark.parametrize("closing", ["aclose", "forget", "end of the loop"])
def test_no_connection_outlives_its_client(closing: str) -> None:
    before = sockets()
    with Upstream(always(ANSWER)) as upstream:

        async def story() -> Any:
            client = http_client(at(upstream))
            for _ in range(3):
                assert (await client.post(URL, json=BODY)).status_code == 200
            if closing == "aclose":
                await client.aclose()
            elif closing == "forget":
                del client
                gc.collect()
                await asyncio.to_thread(until, lambda: upstream.open == 0)
                return None
            return client

        client = asyncio.run(story())
        until(lambda: upstream.open == 0)
        del client
        assert upstream.connections == 1
    assert sockets() == before


@pytest.mark.parametrize("closing", ["close", "forget"])
def test_no_connection_outlives_its_sync_client(closing: str) -> None:
    background()
    with Upstream(always(ANSWER)) as upstream:
        before = sockets()
        client = http_client_sync(at(upstream))
        assert client.post(URL, json=BODY).status_code == 200
        assert upstream.open == 1
        if closing == "close":
            client.close()
        del client
        gc.collect()
        until(lambda: upstream.open == 0)
        until(lambda: sockets() == before)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_client_outlives_its_loop_and_goes_on_with_what_it_has_learned(labs: Labs, run: Callable[[Any], Any]) -> None:
    policy = Policy(delay="p90", budget=None, warmup_delay=None, warmup_samples=20, min_delay=0.02, breaker=False)
    client = http_client(at(*labs), policy, timeout=10)

    async def teach() -> None:
        for _ in range(60):
            answer = await client.post(URL, json=BODY, headers=QUICK)
            assert answer.status_code == 200
        home: Any = client._transport
        for hedger in next(iter(home._door._homes.values())).gateway.parts.hedgers.values():
            list(hedger.refreshing(asyncio.get_running_loop().time()))

    async def ask() -> str:
        answer = await client.post(URL, json=BODY, headers={"x-lab-script-primary": script(fault="hang")})
        return str(answer.headers["x-hedgerow-target"])

    run(teach())
    assert run(ask()).endswith("-2")


def test_one_client_in_several_loops_at_once(labs: Labs) -> None:
    client = http_client(at(labs[0]))
    ready = threading.Barrier(4)

    async def story() -> int:
        ready.wait(10)
        answers = await asyncio.gather(*(client.post(URL, json=BODY, headers=QUICK) for _ in range(10)))
        return sum(answer.status_code == 200 for answer in answers)

    with ThreadPoolExecutor(4) as threads:
        assert [each.result() for each in [threads.submit(asyncio.run, story()) for _ in range(4)]] == [10] * 4
    assert labs[0].stats()["completed"] == 40


def test_one_sync_client_in_many_threads(labs: Labs) -> None:
    with http_client_sync(at(labs[0])) as client, ThreadPoolExecutor(16) as threads:
        codes = list(threads.map(lambda _: client.post(URL, json=STREAM, headers=QUICK).status_code, range(64)))
    assert codes == [200] * 64
    assert labs[0].stats()["completed"] == 64


def test_no_timer_outlives_its_request(labs: Labs) -> None:
    """The SDKs' timeouts are ten minutes: a timer for each request would soon be many."""

    def watches() -> int:
        gc.collect()
        return sum(isinstance(each, Watch) for each in gc.get_objects())

    async def story() -> int:
        async with http_client(at(labs[0]), timeout=600) as client:
            for body in (BODY, STREAM):
                await client.post(URL, json=body, headers=QUICK)
            return watches()

    with http_client_sync(at(labs[0]), timeout=600) as client:
        for body in (BODY, STREAM):
            client.post(URL, json=body, headers=QUICK)
        until(lambda: watches() == 0)
    assert asyncio.run(story()) == 0


def test_a_sync_client_works_on_both_sides_of_a_fork(labs: Labs) -> None:
    code = f"""
import os, hedgerow
client = hedgerow.http_client_sync([hedgerow.HttpTarget(base_url={labs[0].base_url!r})], base_urls=[{SDK!r}])
ask = lambda: client.post({URL!r}, json={STREAM!r}, headers={QUICK!r}).status_code
assert ask() == 200
if (child := os.fork()) == 0:
    assert ask() == 200
    client.close()
    raise SystemExit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print([ask() for _ in range(3)])
"""
    command = [sys.executable, "-X", "faulthandler", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.returncode) == ("[200, 200, 200]\n", 0), run.stderr


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_a_loser_is_closed_though_the_process_has_forked(loop: str) -> None:
    code = f"""
import asyncio, os, socket, threading, hedgerow, uvloop
if {loop!r} == "uvloop":
    uvloop.install()
server = socket.create_server(("127.0.0.1", 0))
url = f"http://127.0.0.1:{{server.getsockname()[1]}}/v1"
client = hedgerow.http_client_sync([hedgerow.HttpTarget(base_url=url)], timeout=0.3)
def ask():
    try:
        client.post(url + "/chat/completions", json={BODY!r})
    except Exception as error:
        print(type(error).__name__)
asking = threading.Thread(target=ask)
asking.start()
peer, _ = server.accept()
peer.recv(65536)
until, done = os.pipe()
if (child := os.fork()) == 0:
    os.close(done)
    os.read(until, 1)
    os._exit(0)
asking.join()
peer.settimeout(5)
print("closed" if peer.recv(1) == b"" else "open")
os.write(done, b"x")
os.waitpid(child, 0)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "ReadTimeout\nclosed\n", run.stderr


def test_a_process_that_closes_nothing_ends_quietly(labs: Labs) -> None:
    code = f"""
import asyncio, hedgerow
targets = [hedgerow.HttpTarget(base_url={labs[0].base_url!r})]
sync = hedgerow.http_client_sync(targets, base_urls=[{SDK!r}])
assert sync.post({URL!r}, json={BODY!r}, headers={QUICK!r}).status_code == 200
held = sync.send(sync.build_request("POST", {URL!r}, json={STREAM!r}, headers={MID!r}), stream=True)
client = hedgerow.http_client(targets, base_urls=[{SDK!r}])
async def main():
    global other
    assert (await client.post({URL!r}, json={BODY!r}, headers={QUICK!r})).status_code == 200
    request = client.build_request("POST", {URL!r}, json={STREAM!r}, headers={MID!r})
    other = await client.send(request, stream=True)
asyncio.run(main())
print("ends")
"""
    command = [sys.executable, "-X", "dev", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (run.stdout, run.stderr, run.returncode) == ("ends\n", "", 0)
    cancelled(labs[:1], "cancelled_mid_stream", 2)


def test_a_slow_reader_holds_the_upstream_back() -> None:
    size, sent = 64 * 1024, [0]
    total = 64 * 16

    def much(_received: Received) -> Iterator[bytes]:
        yield SSE_HEAD + chunk(event({"content": "x"}))
        for _ in range(total):
            yield chunk(event({"content": "x" * size}))
            sent[0] += 1
        yield chunk(event({}, "stop")) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK

    async def story() -> int:
        async with http_client(at(upstream)) as client, client.stream("POST", URL, json=STREAM) as answer:
            pieces = answer.aiter_raw()
            seen = len(await anext(pieces))
            still = -1
            while still != sent[0]:
                still = sent[0]
                await asyncio.sleep(0.3)
            assert sent[0] < total / 2, "all of it was taken in"
            async for piece in pieces:
                seen += len(piece)
            return seen

    with Upstream(much) as upstream:
        assert asyncio.run(story()) > total * size


def test_from_a_configuration(labs: Labs, tmp_path: Path) -> None:
    settings = config(labs[0].base_url, labs[1].base_url, delay="50ms")
    settings["routes"]["calm"] = {"targets": ["backup"]}
    settings["server"] |= {"event_log": str(tmp_path / "events.jsonl"), "api_keys": ["sk-of-the-gateway"]}
    file = tmp_path / "hedgerow.yaml"
    file.write_text(json.dumps(settings))
    stalled = {"x-lab-script-primary": script(fault="hang"), "x-lab-script-backup": script(ttft_ms=1)}

    async def story() -> list[str]:
        seen = []
        for route, model in ((None, "fast"), ("fast", "gpt-x"), (None, "calm"), ("calm", "gpt-x")):
            transport = HedgeTransport.from_config(file, route=route, base_urls=[SDK])
            async with openai.AsyncOpenAI(
                api_key="unused", base_url=SDK, http_client=httpx2.AsyncClient(transport=transport)
            ) as client:
                create = client.chat.completions.with_raw_response.create
                raw = await create(model=model, messages=MESSAGES, extra_headers=stalled)
                seen.append(f"{raw.headers['x-hedgerow-target']} {raw.headers['x-hedgerow-attempts']}")
        return seen

    assert asyncio.run(story()) == ["backup 2", "backup 2", "backup 1", "backup 1"]
    events = (tmp_path / "events.jsonl").read_text()
    assert events.count('"request_finished"') == 4
    with pytest.raises(ConfigError, match="there is no route 'slow': it has 'fast', 'calm'"):
        SyncHedgeTransport.from_config(file, route="slow")


def test_trace_headers_reach_the_target() -> None:
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "a=1"}
    with Upstream(always(ANSWER)) as upstream, http_client_sync(at(upstream)) as client:
        client.post(URL, json=BODY, headers=trace)
    assert upstream.requests[0].headers.items() >= trace.items()


def test_trio_is_told_what_to_do() -> None:
    transport = HedgeTransport([HttpTarget(base_url="http://127.0.0.1:9/v1")], base_urls=[SDK])
    asked = transport.handle_async_request(httpx2.Request("POST", URL, json=BODY))
    with pytest.raises(RuntimeError, match="need a running asyncio loop"):
        asked.send(None)


def test_events_are_told_to_listeners(labs: Labs) -> None:
    told: list[str] = []
    with http_client_sync(at(labs[0]), listeners=[lambda event: told.append(type(event).__name__)]) as client:
        client.post(URL, json=BODY, headers=QUICK)
    assert {"RequestStarted", "AttemptLaunched", "AttemptEnded", "RequestFinished"} <= set(told)
