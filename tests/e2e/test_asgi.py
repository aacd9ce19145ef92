"""`hedgerow.asgi`: the same gateway behind somebody else's server, driven by hand and by uvicorn."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import pytest
import uvicorn

from hedgerow.asgi import AnswerBroken, Application, Message, application
from hedgerow.config import load
from hedgerow.lab.process import LabProcess
from tests.e2e.raw import Client, Reply, ask
from tests.e2e.support import Config, chat, config, script, until
from tests.e2e.upstream import LAST_CHUNK, SSE_HEAD, Received, Upstream, always, chunk, event, stream

pytestmark = pytest.mark.e2e

T = TypeVar("T")
Labs = tuple[LabProcess, LabProcess]
CHAT = "/v1/chat/completions"
STREAM = stream(event({"role": "assistant", "content": ""}), event({"content": "A hedge."}), event({}, "stop"))


@pytest.fixture(scope="module")
def running() -> Iterator[Labs]:
    fast = ["--preset", "fast"]
    with LabProcess(["--name", "primary", *fast]) as primary, LabProcess(["--name", "backup", *fast]) as backup:
        yield primary, backup


@pytest.fixture
def labs(running: Labs) -> Labs:
    for lab in running:
        lab.reset()
    return running


class Driver:
    """An ASGI server without a network: one request after the other, every message kept."""

    def __init__(self, app: Application) -> None:
        self.app = app
        self.body_taken = 0
        self.left = asyncio.Event()
        """Set: the client has gone."""
        self.open_gate = asyncio.Event()
        """Cleared: `send` does not return, as with a client that does not read."""
        self.open_gate.set()
        self.sent: list[Message] = []

    async def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        headers: dict[str, str] | None = None,
        *,
        root: str = "",
        piece: int = 65_536,
        raw_path: bool = True,
    ) -> list[Message]:
        """What the application sends; raises what it raises. `raw_path` False: the server tells the path decoded."""
        path, _, query = target.partition("?")
        scope: Message = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "path": unquote(root + path),
            "raw_path": (root + path).encode() if raw_path else None,
            "root_path": root,
            "query_string": query.encode(),
            "headers": [(name.encode(), value.encode()) for name, value in (headers or {}).items()],
            "client": ("127.0.0.1", 1),
        }
        pieces = [body[at : at + piece] for at in range(0, len(body), piece)] or [b""]
        self.sent = []

        async def receive() -> Message:
            if pieces:
                self.body_taken += len(pieces[0])
                return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}
            await self.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            self.sent.append(message)
            await self.open_gate.wait()

        await self.app(scope, receive, send)
        return self.sent

    async def until_sent(self, count: int) -> None:
        """Wait for so many messages."""
        while len(self.sent) < count:  # noqa: ASYNC110  (the application sets no event)
            await asyncio.sleep(0.001)


def body_of(messages: list[Message]) -> bytes:
    return b"".join(message["body"] for message in messages[1:])


def whole(messages: list[Message]) -> bool:
    """A start, bodies, and exactly one end."""
    kinds = [message["type"] for message in messages]
    ends = [not message["more_body"] for message in messages[1:]]
    return (
        kinds[0] == "http.response.start"
        and set(kinds[1:]) == {"http.response.body"}
        and ends.index(True) == len(ends) - 1
    )


def drive(settings: Config, folder: Path, story: Callable[[Driver], Awaitable[T]]) -> T:
    """Run a story with an application, within its lifespan; no task is left, and no timer with work."""
    file = folder / "hedgerow.yaml"
    file.write_text(json.dumps(settings))
    app = application(load(file))

    async def main() -> T:
        inbox: asyncio.Queue[str] = asyncio.Queue()
        said: asyncio.Queue[str] = asyncio.Queue()

        async def receive() -> Message:
            return {"type": await inbox.get()}

        async def send(message: Message) -> None:
            said.put_nowait(message["type"])

        async with asyncio.timeout(30):
            lifespan = asyncio.ensure_future(app({"type": "lifespan"}, receive, send))
            inbox.put_nowait("lifespan.startup")
            assert await said.get() == "lifespan.startup.complete"
            result = await story(Driver(app))
            inbox.put_nowait("lifespan.shutdown")
            assert await said.get() == "lifespan.shutdown.complete"
            await lifespan
        assert asyncio.all_tasks() == {asyncio.current_task()}
        timers: list[asyncio.TimerHandle] = asyncio.get_running_loop()._scheduled  # type: ignore[attr-defined]
        left = [timer for timer in timers if not timer.cancelled()]
        assert [timer for timer in left if "Alarm._ring" not in repr(timer)] == []  # the alarm finds nothing to do
        return result

    return asyncio.run(main())


def test_a_stream_comes_byte_for_byte_and_the_lifespan_closes_the_pools(tmp_path: Path) -> None:
    with Upstream(always(STREAM)) as upstream:

        async def story(server: Driver) -> list[Message]:
            await server.ask("POST", CHAT, chat(stream=True))
            messages = await server.ask("POST", CHAT, chat(stream=True))
            assert upstream.open == 1
            return messages

        messages = drive(config(upstream.base_url), tmp_path, story)
        assert whole(messages)
        headers = dict(messages[0]["headers"])
        assert messages[0]["status"] == 200
        assert headers[b"x-hedgerow-target"] == b"primary"
        assert headers[b"content-type"] == b"text/event-stream"
        assert b"transfer-encoding" not in headers
        events = [event({"role": "assistant", "content": ""}), event({"content": "A hedge."}), event({}, "stop")]
        assert body_of(messages) == b"".join(events) + b"data: [DONE]\n\n"
        until(lambda: upstream.open == 0)


def test_a_whole_answer_is_hedged(labs: Labs, tmp_path: Path) -> None:
    async def story(server: Driver) -> list[Message]:
        return await server.ask("POST", CHAT, chat(), {"X-Lab-Script-Primary": script(fault="hang")})

    messages = drive(config(*(lab.base_url for lab in labs), delay="30ms"), tmp_path, story)
    assert whole(messages)
    headers = dict(messages[0]["headers"])
    assert headers[b"x-hedgerow-hedged"] == b"true"
    assert int(headers[b"content-length"]) == len(body_of(messages))
    assert json.loads(body_of(messages))["choices"][0]["message"]["content"].startswith("backup ")
    until(lambda: labs[0].stats()["cancelled_before_headers"] == 1)


@pytest.mark.parametrize(
    ("behaviour", "messages", "ending"),
    [
        (script(fault="hang"), 0, "cancelled_before_headers"),
        (script(fault="stall"), 0, "cancelled_before_token"),
        (script(ttft_ms=1, gap_ms=1, fault="stall", at=3), 2, "cancelled_mid_stream"),
    ],
)
def test_a_client_that_leaves_closes_the_upstream(
    labs: Labs, tmp_path: Path, behaviour: str, messages: int, ending: str
) -> None:
    async def story(server: Driver) -> float:
        asked = asyncio.ensure_future(server.ask("POST", CHAT, chat(stream=True), {"x-lab-script": behaviour}))
        await asyncio.to_thread(until, lambda: bool(labs[0].log()))
        await server.until_sent(messages)
        server.left.set()
        left = time.monotonic()
        sent = await asked
        assert len(sent) >= messages
        assert all(message.get("more_body", True) for message in sent)
        await asyncio.to_thread(until, lambda: labs[0].stats()[ending] == 1)
        return left

    left = drive(config(labs[0].base_url), tmp_path, story)
    assert labs[0].log()[0]["closed_at"] - left < 1.0


@pytest.mark.parametrize("fault", ["cut", "close"])
def test_a_broken_stream_is_an_exception_to_the_server(labs: Labs, tmp_path: Path, fault: str) -> None:
    behaviour = {"x-lab-script": script(ttft_ms=1, gap_ms=1, tokens=6, fault=fault, at=3)}

    async def story(server: Driver) -> list[Message]:
        with pytest.raises(AnswerBroken):
            await server.ask("POST", CHAT, chat(stream=True), behaviour)
        return server.sent

    messages = drive(config(labs[0].base_url), tmp_path, story)
    assert all(message["more_body"] for message in messages[1:])
    assert b'"content":" hedge"' in body_of(messages)
    assert b'data: {"error":' in body_of(messages)
    assert b"[DONE]" not in body_of(messages)


def test_a_body_beyond_the_limit_is_refused_and_not_read_to_its_end(labs: Labs, tmp_path: Path) -> None:
    async def story(server: Driver) -> list[Message]:
        messages = await server.ask("POST", CHAT, b"x" * 1_000_000, piece=1_000)
        assert server.body_taken == 11_000
        return messages

    messages = drive(config(labs[0].base_url, server={"limits": {"body_bytes": "10KB"}}), tmp_path, story)
    assert messages[0]["status"] == 413
    assert json.loads(body_of(messages))["error"]["type"] == "invalid_request_error"
    assert labs[0].stats()["requests"] == 0


def test_a_client_that_leaves_while_uploading_starts_nothing(labs: Labs, tmp_path: Path) -> None:
    async def story(server: Driver) -> list[Message]:
        async def receive() -> Message:
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            raise AssertionError(message)

        scope = {"type": "http", "method": "POST", "path": CHAT, "query_string": b"", "headers": []}
        await server.app(scope, receive, send)
        return server.sent

    drive(config(labs[0].base_url), tmp_path, story)
    assert labs[0].stats()["requests"] == 0


def test_a_slow_client_holds_its_upstream_back(tmp_path: Path) -> None:
    piece = event({"content": "x" * 65_000})
    pieces = 500
    taken = 0

    def flood(_: Received) -> Iterator[bytes]:
        nonlocal taken
        yield SSE_HEAD
        for taken in range(1, pieces + 1):  # noqa: B007  (read by the test)
            yield chunk(piece)
        yield chunk(b"data: [DONE]\n\n") + LAST_CHUNK

    async def story(server: Driver) -> list[Message]:
        server.open_gate.clear()
        asked = asyncio.ensure_future(server.ask("POST", CHAT, chat(stream=True)))
        seen = -1
        while seen != taken or not taken:
            seen = taken
            await asyncio.sleep(0.25)
        assert len(server.sent) == 1
        server.open_gate.set()
        messages = await asked
        assert seen < pieces, "kernel buffers hold a few MiB, and the application next to nothing"
        return messages

    with Upstream(flood) as upstream:
        messages = drive(config(upstream.base_url), tmp_path, story)
    assert whole(messages)
    expected = sha256(piece * pieces + b"data: [DONE]\n\n").digest()
    assert sha256(body_of(messages)).digest() == expected


@pytest.mark.parametrize("root", ["", "/llm"])
def test_it_can_be_mounted_below_a_path(labs: Labs, tmp_path: Path, root: str) -> None:
    async def story(server: Driver) -> list[list[Message]]:
        return [
            await server.ask("GET", "/v1/models", root=root),
            await server.ask("GET", "/v1/files?limit=2", root=root),
            await server.ask("GET", "/livez", root=root),
        ]

    models, files, live = drive(config(labs[0].base_url), tmp_path, story)
    assert [one["id"] for one in json.loads(body_of(models))["data"]] == ["fast"]
    assert json.loads(body_of(files))["target"] == "/v1/files?limit=2"
    assert live[0]["status"] == 200


def test_a_path_that_comes_decoded_is_sent_on_encoded(tmp_path: Path) -> None:
    path = "/v1/files/a%20HTTP/1.1%0D%0Ahost:%20evil%0D%0A%0D%0A%C3%A9%3F"

    async def story(server: Driver) -> list[Message]:
        return await server.ask("GET", path, raw_path=False)

    with Upstream(always(STREAM)) as upstream:
        assert drive(config(upstream.base_url), tmp_path, story)[0]["status"] == 200
        assert [one.target for one in upstream.requests] == [path]


def test_other_kinds_of_connection_are_refused(labs: Labs, tmp_path: Path) -> None:
    async def story(server: Driver) -> None:
        async def nothing(*_: object) -> Any:
            raise AssertionError

        with pytest.raises(NotImplementedError, match="serves http, not websocket"):
            await server.app({"type": "websocket"}, nothing, nothing)

    drive(config(labs[0].base_url), tmp_path, story)


def test_under_uvicorn(labs: Labs, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "hedgerow.yaml"
    file.write_text(json.dumps(config(*(lab.base_url for lab in labs), delay="500ms")))
    options = uvicorn.Config(application(load(file)), host="127.0.0.1", port=0, ws="none", log_config=None)

    async def story() -> tuple[Reply, Reply, Reply]:
        server = uvicorn.Server(options)
        serving = asyncio.ensure_future(server.serve())
        while not server.started:  # noqa: ASYNC110  (uvicorn sets no event)
            await asyncio.sleep(0.01)
        address = server.servers[0].sockets[0].getsockname()
        hedged = await ask(address, "POST", CHAT, chat(stream=True), {"x-lab-script-primary": script(fault="stall")})
        behaviour = {"x-lab-script": script(ttft_ms=1, gap_ms=1, tokens=6, fault="cut", at=3)}
        broken = await ask(address, "POST", CHAT, chat(stream=True), behaviour)
        plain = await ask(address, "POST", CHAT, chat(max_tokens=3))
        client = await Client.connect(address)
        client.send("POST", CHAT, chat(stream=True), {"x-lab-script": script(fault="stall"), "x-hedgerow-hedge": "off"})
        await asyncio.to_thread(until, lambda: labs[0].stats()["open"] == 1)
        client.leave()
        await asyncio.to_thread(until, lambda: labs[0].stats()["open"] == 0)
        server.should_exit = True
        await serving
        return hedged, broken, plain

    hedged, broken, plain = asyncio.run(story())
    assert (hedged.status, hedged.whole, hedged.target) == (200, True, "backup")
    assert hedged.body.endswith(b"data: [DONE]\n\n")
    assert (broken.status, broken.whole) == (200, False)
    assert (plain.status, plain.whole, plain.target) == (200, True, "primary")
    assert labs[0].stats()["cancelled_before_token"] == 2
    assert "AnswerBroken" in caplog.text
