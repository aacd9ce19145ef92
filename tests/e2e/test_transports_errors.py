"""What the transports do when things go wrong: the client library's own errors, within the client's own timeouts."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import httpx2
import openai
import pytest
import trustme

import hedgerow
from hedgerow import HttpTarget, Policy
from tests.e2e.support import MESSAGES, until
from tests.e2e.upstream import LAST_CHUNK, SSE_HEAD, Cut, Received, Upstream, always, chunk, completion, event, whole

pytestmark = pytest.mark.e2e

ANSWER = whole(completion("A hedge."))
PATIENT = Policy(delay=30.0, budget=None, breaker=False)
SDK = "http://sdk/v1"
URL = f"{SDK}/chat/completions"
http_client: Any = partial(hedgerow.http_client, base_urls=[SDK])
http_client_sync: Any = partial(hedgerow.http_client_sync, base_urls=[SDK])
BODY = {"model": "any", "messages": MESSAGES}
LIBRARIES: dict[str, ModuleType] = {"httpx2": httpx2, "httpx": httpx}

Ask = Callable[..., bytes]


def ask_async(library: str, targets: Sequence[HttpTarget], *, stream: bool, timeout: Any) -> bytes:
    async def story() -> bytes:
        made = http_client(targets, PATIENT, library=library, timeout=timeout)
        async with made as client, client.stream("POST", URL, json=BODY | {"stream": stream}) as answer:
            return b"".join([piece async for piece in answer.aiter_raw()])

    return asyncio.run(story())


def ask_sync(library: str, targets: Sequence[HttpTarget], *, stream: bool, timeout: Any) -> bytes:
    made = http_client_sync(targets, PATIENT, library=library, timeout=timeout)
    with made as client, client.stream("POST", URL, json=BODY | {"stream": stream}) as answer:
        return b"".join(answer.iter_raw())


@pytest.fixture(params=[f"{way}-{library}" for way in ("async", "sync") for library in LIBRARIES])
def way(request: pytest.FixtureRequest) -> tuple[ModuleType, Ask]:
    """The library, and a request by it of targets: (targets, stream, timeout) -> the body."""
    kind, _, library = request.param.partition("-")
    ask = ask_async if kind == "async" else ask_sync

    def asking(*targets: HttpTarget, stream: bool = False, timeout: Any = 10.0) -> bytes:
        return ask(library, targets, stream=stream, timeout=timeout)

    return LIBRARIES[library], asking


def at(upstream: Upstream, **fields: Any) -> HttpTarget:
    return HttpTarget(base_url=upstream.base_url, **fields)


def refusing() -> HttpTarget:
    """Nobody listens there."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return HttpTarget(base_url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1", name=f"gone-{id(taken)}")


@pytest.fixture
def deaf() -> Iterator[HttpTarget]:
    """Takes connections and says nothing, not even of TLS: whoever asks it never has a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield HttpTarget(base_url=f"https://127.0.0.1:{listening.getsockname()[1]}/v1", name="deaf")


def waits(_: Received) -> Iterator[bytes]:
    """Says nothing for longer than anybody here waits."""
    time.sleep(0.8)
    yield b""


def test_refused_is_a_connect_error(way: tuple[ModuleType, Ask]) -> None:
    library, ask = way
    with pytest.raises(library.ConnectError, match=r"No usable answer from target 'gone-.*Connection refused"):
        ask(refusing())
    with pytest.raises(library.ConnectError, match=r"last of 2 attempts.*Connection refused"):
        ask(refusing(), refusing())


def test_silence_is_a_read_timeout(way: tuple[ModuleType, Ask]) -> None:
    library, ask = way
    with Upstream(waits) as upstream:
        began = time.monotonic()
        with pytest.raises(library.ReadTimeout, match=r"nothing came for 0\.3 s") as raised:
            ask(at(upstream), timeout=library.Timeout(10.0, read=0.3))
        assert 0.3 <= time.monotonic() - began < 5.0
        assert raised.value.request.url.path == "/v1/chat/completions"


def test_a_stream_that_stalls_is_a_read_timeout(way: tuple[ModuleType, Ask]) -> None:
    library, ask = way

    def stalls(_: Received) -> Iterator[bytes]:
        yield SSE_HEAD + chunk(event({"content": "Hi"}))
        time.sleep(1.0)

    with Upstream(stalls) as upstream, pytest.raises(library.ReadTimeout):
        ask(at(upstream), stream=True, timeout=library.Timeout(10.0, read=0.3))


def test_a_stall_is_counted_from_the_last_that_came() -> None:
    def stalls(_: Received) -> Iterator[bytes]:
        yield SSE_HEAD + chunk(event({"role": "assistant"}))
        time.sleep(1.0)
        yield b""

    with Upstream(stalls) as upstream:
        began = time.monotonic()
        with pytest.raises(httpx2.ReadTimeout):
            ask_async("httpx2", [at(upstream)], stream=True, timeout=httpx2.Timeout(10.0, read=0.5))
        assert 0.5 <= time.monotonic() - began < 0.95, "1.0 s where it is counted from the first look"


def test_signs_of_life_are_no_silence(way: tuple[ModuleType, Ask]) -> None:
    library, ask = way

    def thinks(_received: Received) -> Iterator[bytes]:
        yield SSE_HEAD
        for _ in range(30):
            time.sleep(0.05)
            yield chunk(b": thinking\n\n")
        for delta, finish in (({"content": "Hi"}, None), ({}, "stop")):
            yield chunk(event(delta, finish))
        yield chunk(b"data: [DONE]\n\n") + LAST_CHUNK

    with Upstream(thinks) as upstream:
        said = ask(at(upstream), stream=True, timeout=library.Timeout(10.0, read=0.6))
    assert b'"content": "Hi"' in said


def test_a_stream_may_be_longer_than_its_timeout(way: tuple[ModuleType, Ask]) -> None:
    library, ask = way

    def long(_received: Received) -> Iterator[bytes]:
        yield SSE_HEAD
        for _ in range(20):
            yield chunk(event({"content": "word "}))
            time.sleep(0.05)
        yield chunk(event({}, "stop")) + chunk(b"data: [DONE]\n\n") + LAST_CHUNK

    with Upstream(long) as upstream:
        assert ask(at(upstream), stream=True, timeout=library.Timeout(10.0, read=0.6)).count(b"word") == 20


def test_no_connection_is_a_connect_timeout(way: tuple[ModuleType, Ask], deaf: HttpTarget) -> None:
    library, ask = way
    began = time.monotonic()
    with pytest.raises(library.ConnectTimeout, match=r"no connection within 0\.2 s"):
        ask(deaf, timeout=library.Timeout(10.0, connect=0.2))
    assert time.monotonic() - began < 5.0


def test_a_connect_timeout_asks_the_next_target(way: tuple[ModuleType, Ask], deaf: HttpTarget) -> None:
    library, ask = way
    with Upstream(always(ANSWER)) as upstream:
        assert b"A hedge." in ask(deaf, at(upstream), timeout=library.Timeout(10.0, connect=0.2))


def test_a_full_pool_is_a_pool_timeout() -> None:
    async def story() -> None:
        with Upstream(lambda _: iter((SSE_HEAD + chunk(event({"content": "Hi"})), silent_piece()))) as upstream:
            made = http_client([at(upstream, max_connections=1)], PATIENT, timeout=httpx2.Timeout(10.0, pool=0.2))
            async with made as client, client.stream("POST", URL, json=BODY | {"stream": True}) as first:
                assert first.status_code == 200
                with pytest.raises(httpx2.PoolTimeout, match=r"no connection came free within 0\.2 s"):
                    await client.post(URL, json=BODY)

    def silent_piece() -> bytes:
        time.sleep(1.0)
        return b""

    asyncio.run(story())


def cut(_: Received) -> Iterator[bytes]:
    yield b""
    raise Cut


def closes(_: Received) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"
    raise Cut


def gibberish(_: Received) -> Iterator[bytes]:
    yield b"220 smtp.example.com ready\r\n\r\n"


@pytest.mark.parametrize("broken", [cut, closes, gibberish])
def test_a_broken_answer_is_a_remote_protocol_error(way: tuple[ModuleType, Ask], broken: Any) -> None:
    library, ask = way
    with Upstream(broken) as upstream, pytest.raises(library.RemoteProtocolError):
        ask(at(upstream))


def test_a_stream_that_breaks_says_so_and_raises(way: tuple[ModuleType, Ask]) -> None:
    library, ask = way

    def breaks(_: Received) -> Iterator[bytes]:
        yield SSE_HEAD + chunk(event({"content": "Hi"}))
        raise Cut

    with Upstream(breaks) as upstream, pytest.raises(library.RemoteProtocolError, match="broke off"):
        ask(at(upstream), stream=True)


def test_an_error_of_an_upstream_is_an_answer(way: tuple[ModuleType, Ask]) -> None:
    _, ask = way
    refused = whole(b'{"error": {"message": "too long", "code": "context_length_exceeded"}}', status="400 Bad Request")
    with Upstream(always(refused)) as upstream:
        assert json.loads(ask(at(upstream)))["error"]["message"] == "too long"


def test_the_sdks_errors_and_retries_when_nobody_can_be_reached() -> None:
    """A lone attempt is the SDK's to repeat; several are used up, and told by an answer that says so."""

    def create(*targets: HttpTarget) -> None:
        made = http_client_sync(targets, PATIENT)
        with openai.OpenAI(api_key="k", base_url=SDK, http_client=made, max_retries=1) as client:
            client.chat.completions.create(model="any", messages=MESSAGES)

    with Upstream(cut) as upstream:
        with pytest.raises(openai.APIConnectionError):
            create(at(upstream))
        assert len(upstream.requests) == 2
    with Upstream(cut) as first, Upstream(cut) as second:
        with pytest.raises(openai.InternalServerError, match="last of 2 attempts") as raised:
            create(at(first), at(second, name="second"))
        assert (len(first.requests), len(second.requests)) == (1, 1)
    assert raised.value.status_code == 502
    assert raised.value.response.headers["x-hedgerow-failure"] == "closed"


def test_the_sdks_timeout_is_its_own_error() -> None:
    with Upstream(waits) as upstream:
        made = http_client_sync([at(upstream)], PATIENT)
        with (
            openai.OpenAI(api_key="k", base_url=SDK, http_client=made, max_retries=0, timeout=0.3) as client,
            pytest.raises(openai.APITimeoutError),
        ):
            client.chat.completions.create(model="any", messages=MESSAGES)


def test_an_api_that_no_target_speaks_is_refused() -> None:
    with http_client_sync([HttpTarget(base_url="http://127.0.0.1:9/v1", protocol="openai")]) as client:
        answer = client.post("http://sdk/v1/messages", json={"model": "any", "max_tokens": 1, "messages": MESSAGES})
    assert answer.status_code == 400
    assert "speaks the anthropic API" in answer.json()["error"]["message"]


def test_targets_behind_a_private_authority(way: tuple[ModuleType, Ask], tmp_path: Path) -> None:
    library, ask = way
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with Upstream(always(ANSWER), tls=context) as upstream:
        assert b"A hedge." in ask(at(upstream, ca_file=str(tmp_path / "ca.pem")))
        assert b"A hedge." in ask(at(upstream, verify=False))
        with pytest.raises(library.ConnectError, match="certificate is not trusted"):
            ask(at(upstream))
        for trusting in ({"ca_file": str(tmp_path / "ca.pem")}, {"verify": False}):
            with http_client_sync([at(upstream, **trusting)]) as client:
                assert client.get(f"{upstream.base_url}/models").status_code == 200, "unhedged, and trusted likewise"


def test_a_target_behind_a_proxy(way: tuple[ModuleType, Ask], monkeypatch: pytest.MonkeyPatch) -> None:
    _, ask = way
    with Upstream(always(ANSWER)) as proxy:
        through = proxy.base_url.removesuffix("/v1")
        assert b"A hedge." in ask(HttpTarget(base_url="http://llm.example/v1", proxy=through))
        monkeypatch.setenv("HTTP_PROXY", through)
        assert b"A hedge." in ask(HttpTarget(base_url="http://llm.example/v1"))
        assert [one.target for one in proxy.requests] == ["http://llm.example/v1/chat/completions"] * 2
    until(lambda: proxy.open == 0)
