"""Exactly once, with the official SDK: requests that come again with their `Idempotency-Key`."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e.support import MESSAGES, GatewayProcess, chat, config, until
from tests.e2e.upstream import Received, Upstream, completion, event, stream, whole

pytestmark = pytest.mark.e2e

KEY = {"Idempotency-Key": "order-7"}


class Scene:
    """A gateway before one upstream, which answers its requests one after the other once it is `told` to."""

    def __init__(self, gateway: GatewayProcess, upstream: Upstream, told: threading.Semaphore, log: Path) -> None:
        self.gateway = gateway
        self.upstream = upstream
        self.told = told
        self._log = log
        self._pool = ThreadPoolExecutor(8)

    def events(self, name: str) -> list[dict[str, Any]]:
        """What the event log has of one kind."""
        return [each for each in map(json.loads, self._log.read_text().splitlines()) if each["event"] == name]

    def ask(self, client: openai.OpenAI, **fields: Any) -> Future[Any]:
        """A chat completion, asked for from a thread of its own."""
        fields = {"model": "fast", "messages": MESSAGES, "extra_headers": KEY} | fields
        create: Any = client.chat.completions.with_raw_response.create
        return self._pool.submit(create, **fields)

    def joined(self, count: int) -> None:
        """Wait until so many have asked again."""
        until(lambda: len(self.events("request_repeated")) == count)

    def begun(self, count: int = 1) -> None:
        """Wait until the upstream has so many requests."""
        until(lambda: len(self.upstream.requests) == count)

    def close(self) -> None:
        self._pool.shutdown()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    told = threading.Semaphore(0)

    def answer(received: Received) -> Iterable[bytes]:
        number = len(upstream.requests)
        assert told.acquire(timeout=20)
        text = f"answer {number}"
        if received.json.get("stream"):
            yield stream(event({"role": "assistant"}), event({"content": text}), event({}, "stop"))
        else:
            yield whole(completion(text).replace(b'"c1"', b'"c-%d"' % number))

    log = tmp_path / "events"
    again = {"window": "1m", "streams": True, "linger": "20s"}
    with (
        Upstream(answer) as upstream,
        GatewayProcess(config(upstream.base_url, server={"event_log": str(log)}, idempotency=again)) as gateway,
    ):
        scene = Scene(gateway, upstream, told, log)
        yield scene
        scene.close()


@pytest.fixture
def client(scene: Scene) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=scene.gateway.base_url, api_key="sk-any", max_retries=0) as client:
        yield client


def text(answer: Future[Any]) -> str:
    content = answer.result(20).parse().choices[0].message.content
    assert isinstance(content, str)
    return content


def mark(answer: Future[Any]) -> str | None:
    found: str | None = answer.result(20).headers.get("x-hedgerow-replayed")
    return found


def test_the_same_key_at_the_same_time_and_afterwards_is_one_request(scene: Scene, client: openai.OpenAI) -> None:
    first = scene.ask(client)
    scene.begun()
    others = [scene.ask(client) for _ in range(3)]
    scene.joined(3)
    scene.told.release()
    assert [text(answer) for answer in (first, *others)] == ["answer 1"] * 4
    assert [mark(answer) for answer in (first, *others)] == [None, "joined", "joined", "joined"]
    assert [mark(scene.ask(client)) for _ in range(2)] == ["stored", "stored"]
    assert len(scene.upstream.requests) == 1
    until(lambda: len(scene.events("request_finished")) == 1)
    assert len(scene.events("attempt_launched")) == 1


def test_the_same_key_with_another_body_is_refused(scene: Scene, client: openai.OpenAI) -> None:
    scene.told.release()
    assert text(scene.ask(client)) == "answer 1"
    with pytest.raises(openai.UnprocessableEntityError, match="was used with another body") as raised:
        scene.ask(client, max_tokens=5).result(20)
    assert raised.value.code == "idempotency_key_reused"
    assert len(scene.upstream.requests) == 1


def test_clients_of_other_keys_do_not_see_each_others_answers(scene: Scene, client: openai.OpenAI) -> None:
    for _ in range(2):
        scene.told.release()
    assert text(scene.ask(client)) == "answer 1"
    assert text(scene.ask(client.with_options(api_key="sk-another"))) == "answer 2"


def test_the_first_client_leaves_and_who_has_joined_gets_the_answer(scene: Scene, client: openai.OpenAI) -> None:
    body = chat()
    with socket.create_connection(scene.gateway.address) as first:
        fields = "host: x", "authorization: Bearer sk-any", "idempotency-key: k", f"content-length: {len(body)}"
        head = "\r\n".join(("POST /v1/chat/completions HTTP/1.1", *fields, "", ""))
        first.sendall(head.encode() + body)
        scene.begun()
        with socket.create_connection(scene.gateway.address) as second:
            second.sendall(head.encode() + body)
            scene.joined(1)
            first.shutdown(socket.SHUT_RDWR)
            first.close()
            scene.told.release()
            second.settimeout(20)
            assert b'"answer 1"' in second.recv(65536)
    assert len(scene.upstream.requests) == 1


def test_an_sdk_that_loses_patience_and_retries_finds_its_own_request(scene: Scene, client: openai.OpenAI) -> None:
    hasty = client.with_options(timeout=0.5, max_retries=10)
    answer = scene.ask(hasty)
    until(lambda: len(scene.events("request_repeated")) >= 1)
    scene.told.release()
    assert text(answer) == "answer 1"
    assert len(scene.upstream.requests) == 1
    assert scene.upstream.requests[0].headers["x-stainless-retry-count"] == "0"
    assert "idempotency-key" not in scene.upstream.requests[0].headers


def test_a_stream_is_joined_and_given_again_whole(scene: Scene, client: openai.OpenAI) -> None:
    def read() -> str:
        chunks = client.chat.completions.create(model="fast", messages=MESSAGES, stream=True, extra_headers=KEY)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(read)
        scene.begun()
        second = pool.submit(read)
        scene.joined(1)
        scene.told.release()
        assert (first.result(20), second.result(20), read()) == ("answer 1",) * 3
    assert len(scene.upstream.requests) == 1


def test_a_request_may_be_named_by_its_client(scene: Scene, client: openai.OpenAI) -> None:
    scene.told.release()
    raw = scene.ask(client, extra_headers={"x-hedgerow-request-id": "ticket-4711"}).result(20)
    assert raw.headers["x-hedgerow-request-id"] == "ticket-4711"
    until(lambda: bool(scene.events("request_finished")))
    assert {each["request_id"] for each in scene.events("attempt_launched")} == {"ticket-4711"}
