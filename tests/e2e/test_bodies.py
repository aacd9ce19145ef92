"""Bytes in bulk: slow readers, large bodies, limits, and what passes through unchanged."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest

from hedgerow.lab.process import LabProcess
from tests.e2e.raw import Client, Reply, ask
from tests.e2e.support import GatewayProcess, chat, config, until
from tests.e2e.upstream import LAST_CHUNK, SSE_HEAD, Received, Upstream, always, chunk, completion, event, whole

pytestmark = pytest.mark.e2e

MIB = 1024 * 1024


@pytest.fixture(scope="module")
def lab() -> Iterator[LabProcess]:
    with LabProcess(["--name", "primary", "--preset", "fast"]) as lab:
        yield lab


@pytest.fixture(scope="module")
def gateway(lab: LabProcess) -> Iterator[GatewayProcess]:
    with GatewayProcess(config(lab.base_url)) as gateway:
        yield gateway


Scripted = tuple[Upstream, GatewayProcess]


@pytest.fixture(scope="module")
def upstream_and_gateway() -> Iterator[Scripted]:
    # The silence of a reader that is slow is its own, not the upstream's: stall is shorter than any pause made here.
    timeouts = {"stall": "500ms", "total": "60s"}
    with (
        Upstream(always(b"")) as upstream,
        Upstream(always(b"")) as backup,
        GatewayProcess(config(upstream.base_url, backup.base_url, timeouts=timeouts)) as gateway,
    ):
        yield upstream, gateway
        assert backup.requests == []


@pytest.fixture
def scripted(upstream_and_gateway: Scripted) -> Scripted:
    """An upstream whose answer the test sets, and a gateway before it."""
    upstream_and_gateway[0].requests.clear()
    return upstream_and_gateway


def asked(gateway: GatewayProcess, method: str, target: str, body: bytes | None = None, **headers: str) -> Reply:
    """One request on a connection of its own; `headers` with underscores."""
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return asyncio.run(ask(gateway.address, method, target, body, fields))


class Flood:
    """An upstream's answer of 100 MiB, and how much of it has been taken."""

    PIECE = event({"content": "x" * 65_000})
    PIECES = 100 * MIB // len(PIECE) + 1

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self, _: Received) -> Iterator[bytes]:
        yield SSE_HEAD
        piece = chunk(self.PIECE)
        for _number in range(self.PIECES):
            yield piece
            self.taken += len(self.PIECE)
        yield chunk(b"data: [DONE]\n\n") + LAST_CHUNK

    def comes_to_rest(self) -> int:
        """What has been taken once nothing more is, for a quarter of a second."""
        taken = -1
        while taken != self.taken:
            taken = self.taken
            time.sleep(0.25)
        return taken


def test_a_slow_reader_holds_its_upstream_back_and_gets_everything(scripted: Scripted) -> None:
    upstream, gateway = scripted
    upstream.answer = flood = Flood()
    expected = sha256(Flood.PIECE * Flood.PIECES + b"data: [DONE]\n\n").hexdigest()

    async def read_all(connection: socket.socket) -> Reply:
        client = Client(*await asyncio.open_connection(sock=connection))
        reply = await client.head()
        await client.body(reply)
        client.leave()
        return reply

    connection = socket.create_connection(gateway.address)
    before = gateway.memory()
    body = chat(stream=True)
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: gateway\r\ncontent-length: {len(body)}\r\n\r\n"
    connection.sendall(head.encode() + body)
    until(lambda: flood.taken > 0)
    taken = flood.comes_to_rest()
    assert taken < 40 * MIB, "kernel buffers hold a few MiB on each side, and the gateway next to nothing"
    time.sleep(1)
    assert flood.taken == taken
    assert gateway.memory() - before < 30 * MIB
    reply = asyncio.run(read_all(connection))
    assert reply.whole
    assert sha256(reply.body).hexdigest() == expected
    assert gateway.memory() - before < 30 * MIB


def test_a_stalled_upstream_is_given_up_all_the_same(scripted: Scripted) -> None:
    def stalls(received: Received) -> Iterator[bytes]:
        yield SSE_HEAD + chunk(event({"content": "A hedge"}))
        done.wait(10)

    done = threading.Event()
    upstream, gateway = scripted
    upstream.answer = stalls
    reply = asked(gateway, "POST", "/v1/chat/completions", chat(stream=True))
    done.set()
    assert not reply.whole
    assert b"nothing came for 0.5 s" in reply.body


def test_a_request_of_20_mb_arrives_byte_for_byte() -> None:
    picture = "data:image/png;base64," + "iVBORw0KGgo" * 2_000_000
    body = json.dumps({"messages": [{"role": "user", "content": picture}], "model": "fast"}, indent=1).encode()
    assert len(body) > 20_000_000
    with (
        Upstream(always(whole(b"{}", status="503 Busy"))) as primary,
        Upstream(always(whole(completion("A hedge.")))) as backup,
    ):
        settings = config(primary.base_url, backup.base_url)
        settings["targets"]["backup"]["model"] = "gpt-5-mini"
        with GatewayProcess(settings) as gateway:
            reply = asked(gateway, "POST", "/v1/chat/completions", body)
    assert (reply.status, reply.target) == (200, "backup")
    assert sha256(primary.requests[0].body).digest() == sha256(body).digest()
    edited = body.replace(b'"model": "fast"', b'"model": "gpt-5-mini"')
    assert sha256(backup.requests[0].body).digest() == sha256(edited).digest()


def test_a_whole_answer_of_20_mb_comes_back_byte_for_byte(scripted: Scripted) -> None:
    body = completion("x" * 20_000_000)
    upstream, gateway = scripted
    upstream.answer = always(whole(body))
    reply = asked(gateway, "POST", "/v1/chat/completions", chat())
    assert reply.whole
    assert sha256(reply.body).digest() == sha256(body).digest()


def problem(reply: Reply) -> dict[str, Any]:
    """An error as OpenAI shapes it."""
    assert reply.headers["content-type"] == "application/json"
    [(key, error)] = json.loads(reply.body).items()
    assert key == "error"
    assert set(error) == {"message", "type", "param", "code"}
    found: dict[str, Any] = error
    return found


def test_beyond_the_limits_the_answer_is_an_error_as_openai_shapes_it(lab: LabProcess) -> None:
    with GatewayProcess(
        config(lab.base_url, server={"limits": {"body_bytes": "10KB", "header_bytes": "4KB"}})
    ) as gateway:
        reply = asked(gateway, "POST", "/v1/chat/completions", chat(padding="x" * 10_000))
        assert (reply.status, reply.last) == (413, True)
        assert problem(reply)["type"] == "invalid_request_error"
        reply = asked(gateway, "POST", "/v1/chat/completions", chat(), x_large="x" * 4_096)
        assert (reply.status, reply.last) == (431, True)
        assert problem(reply)["type"] == "invalid_request_error"
        assert asked(gateway, "POST", "/v1/chat/completions", chat(padding="x" * 9_000)).status == 200


def test_what_holds_no_end_before_the_first_token_is_given_up(lab: LabProcess) -> None:
    endless = SSE_HEAD + chunk(b": still thinking\n\n" * 10_000)
    with (
        Upstream(always(endless)) as upstream,
        GatewayProcess(config(upstream.base_url, lab.base_url, server={"limits": {"held_bytes": "64KiB"}})) as gateway,
    ):
        reply = asked(gateway, "POST", "/v1/chat/completions", chat(stream=True, max_tokens=2))
    assert (reply.status, reply.target, reply.headers["x-hedgerow-hedged"]) == (200, "backup", "false")


UPLOAD = (
    b'--limit\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nbatch\r\n'
    b'--limit\r\ncontent-disposition: form-data; name="file"; filename="a.jsonl"\r\n\r\n'
    + bytes(range(256)) * 1000
    + b"\r\n--limit--\r\n"
)


@pytest.mark.parametrize(
    ("method", "target", "body", "kind"),
    [
        ("POST", "/v1/batches", b'{"input_file_id":"file-1","endpoint":"/v1/responses"}', "application/json"),
        ("POST", "/v1/files", UPLOAD, "multipart/form-data; boundary=limit"),
        ("GET", "/v1/files?limit=2&after=file-%2F&x=1&x=2", None, None),
        ("DELETE", "/v1/files/file-1", None, None),
        ("PUT", "/v1/things/1", b"", "text/plain"),
        ("PATCH", "/v1/things/1", b"\x00\xff", "application/octet-stream"),
        ("POST", "/v1/threads/t%20a/runs", b"{}", "application/json"),
    ],
)
def test_other_paths_pass_through_byte_for_byte(
    gateway: GatewayProcess, lab: LabProcess, method: str, target: str, body: bytes | None, kind: str | None
) -> None:
    headers = {"content-type": kind} if kind else {}

    async def both() -> list[Any]:
        addresses = [("127.0.0.1", int(lab.url.rpartition(":")[2])), gateway.address]
        return [await exact(address, method, target, body, headers | {"x-mine": "1"}) for address in addresses]

    direct, passed = asyncio.run(both())
    assert passed["method"] == method
    assert passed["target"] == target
    assert (passed["body_bytes"], passed["body_sha256"]) == (len(body or b""), sha256(body or b"").hexdigest())
    ours = {"host", "accept-encoding"}
    assert [h for h in passed["headers"] if h[0] not in ours] == [h for h in direct["headers"] if h[0] not in ours]


async def exact(
    address: tuple[str, int], method: str, target: str, body: bytes | None, headers: dict[str, str]
) -> dict[str, Any]:
    """The lab's echo of a request with these very fields."""
    client = await Client.connect(address)
    length = {} if body is None else {"content-length": str(len(body))}
    fields = "".join(f"{name}: {value}\r\n" for name, value in ({"host": "x"} | headers | length).items())
    client.writer.write(f"{method} {target} HTTP/1.1\r\n{fields}\r\n".encode() + (body or b""))
    reply = await client.head()
    await client.body(reply, method)
    client.leave()
    assert reply.status == 200
    echo: dict[str, Any] = json.loads(reply.body)
    return echo


def files(received: Received) -> Iterator[bytes]:
    if received.method == "HEAD":
        yield b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 12345\r\n\r\n"
    elif received.method == "DELETE":
        yield b"HTTP/1.1 204 No Content\r\nx-deleted: yes\r\n\r\n"
    else:
        status = received.target.rpartition("/")[2]
        yield whole(bytes(range(256)), status=f"{status} Whatever", kind="application/x-odd", headers=["x-odd: a\tb"])


def test_other_paths_get_the_upstreams_own_answer_whatever_it_is(scripted: Scripted) -> None:
    statuses = (200, 201, 302, 400, 401, 404, 409, 418, 429, 500, 503, 529)
    upstream, gateway = scripted
    upstream.answer = files
    for status in statuses:
        reply = asked(gateway, "GET", f"/v1/files/{status}")
        assert (reply.status, reply.whole, reply.target) == (status, True, "primary")
        assert reply.body == bytes(range(256))
        assert reply.headers["content-type"] == "application/x-odd"
        assert reply.headers["x-odd"] == "a\tb"
    assert len(upstream.requests) == len(statuses)


def test_answers_without_a_body_pass_through(scripted: Scripted) -> None:
    upstream, gateway = scripted
    upstream.answer = files

    async def story() -> tuple[Reply, Reply]:
        client = await Client.connect(gateway.address)
        replies = await client.ask("HEAD", "/v1/files/1"), await client.ask("DELETE", "/v1/files/1")
        client.leave()
        return replies

    head, deleted = asyncio.run(story())
    assert (head.status, head.headers["content-length"]) == (200, "12345")
    assert (deleted.status, deleted.headers["x-deleted"]) == (204, "yes")
    assert [one.method for one in upstream.requests] == ["HEAD", "DELETE"]


def test_a_path_that_is_nobodys_is_not_asked_of_the_upstream(gateway: GatewayProcess, lab: LabProcess) -> None:
    before = lab.stats()["other_requests"]
    for target in ("/", "/v2/files", "/chat/completions", "/v1", "/lab/stats"):
        reply = asked(gateway, "GET", target)
        assert reply.status == 404
        assert problem(reply)["code"] == "not_found"
    assert lab.stats()["other_requests"] == before
