"""A small configuration, ways to change one key of it, and ways to see what the gateway built from it does."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hedgerow.asgi import application
from hedgerow.config import Settings, loads
from hedgerow.events import Headers
from hedgerow.gateway.build import build
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.testing import VirtualLoop, run_virtual
from tests.engine.scripted import JSON, Answer, RecordingExchange, Script, ScriptedPool
from tests.unit.client_support import Peer, Server

TESTED: set[str] = set()
"""The keys that have a test."""

Document = dict[str, Any]

BASE: Document = {
    "targets": {
        "a": {"base_url": "http://a.example/v1"},
        "b": {"base_url": "http://b.example/v1"},
        "c": {"base_url": "http://c.example/v1"},
    },
    "routes": {"fast": {"targets": ["a", "b", "c"]}},
}
"""Everything else has its default."""

STREAM = b'{"model":"fast","stream":true,"messages":[]}'
WHOLE = b'{"model":"fast","messages":[]}'
HELLO = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}'


def effect_of(key: str) -> pytest.MarkDecorator:
    """Marks the test of what `key` changes, and hands it that key."""
    TESTED.add(key)
    return pytest.mark.parametrize("key", [key])


def document(changes: Mapping[str, object], base: Document = BASE) -> Document:
    """`base` with some keys set; `<name>` in a key is the target `a` or the route `fast`."""
    changed = copy.deepcopy(base)
    for path, value in changes.items():
        *sections, last = path.replace("targets.<name>", "targets.a").replace("routes.<name>", "routes.fast").split(".")
        here = changed
        for section in sections:
            here = here.setdefault(section, {})
        here[last] = value
    return changed


def settings(changes: Mapping[str, object] | None = None, *, base: Document = BASE, folder: Path = Path()) -> Settings:
    """What a file that says this means."""
    return loads(json.dumps(document(changes or {}, base)), {}, folder=folder)


# --- in virtual time -------------------------------------------------------------------------------------------------


def token(text: str) -> bytes:
    """A stream's chunk with content."""
    return b'data: {"choices":[{"index":0,"delta":{"content":"%b"},"finish_reason":null}]}\n\n' % text.encode()


QUICK = Answer([(0.1, token("hello")), (0.0, b"data: [DONE]\n\n")])
SILENT = Answer(end="hang")
STALLS = Answer([(0.0, token("hello"))], end="hang")
BROKEN = Answer([(0.0, b"{}")], status=500, headers=JSON, head_after=0.1)
SLOW_DOWN = Answer([(0.0, b"{}")], status=429, headers=JSON, head_after=0.1)

Pools = dict[str, ScriptedPool]


def play(
    settings: Settings,
    scripts: Mapping[str, Script | Sequence[Script]],
    body: bytes = STREAM,
    *,
    path: bytes = b"/v1/chat/completions",
    headers: Headers | None = None,
    method: bytes = b"POST",
    again: int = 0,
    every: float = 0.0,
) -> tuple[Pools, RecordingExchange]:
    """One request to the gateway that `settings` makes; its targets follow `scripts` (`QUICK` when not named).

    It is sent `again` so many times, one `every` so many seconds.
    """

    async def main(loop: VirtualLoop) -> tuple[Pools, RecordingExchange]:
        pools: Pools = {}

        def make_pool(name: str, _origin: Origin, _settings: PoolSettings) -> ScriptedPool:
            script = scripts.get(name, QUICK)
            pools[name] = ScriptedPool(loop, *(script if isinstance(script, Sequence) else [script]))
            return pools[name]

        # Sockets have no virtual time.
        gateway, _ = build(blueprint_of(settings), loop=loop, make_pool=make_pool)  # type: ignore[arg-type]
        exchange = RecordingExchange(loop, body, path, list(headers or []), method)
        gateway(exchange)
        for _ in range(again):
            await asyncio.sleep(every)
            gateway(RecordingExchange(loop, body, path, list(headers or []), method))
        await asyncio.sleep(2000)
        return pools, exchange

    return run_virtual(main)


def asked(pools: Pools) -> list[tuple[str, float]]:
    """Which target was asked when, in order of time."""
    return sorted(((name, at) for name, pool in pools.items() for at, _, _ in pool.requests), key=lambda one: one[1])


def sent(pools: Pools, name: str = "a") -> tuple[bytes, bytes]:
    """Head and body of the request that this target got."""
    ((_, head, body),) = pools[name].requests
    return head, body


# --- with sockets ----------------------------------------------------------------------------------------------------

Ask = Callable[[], Awaitable[tuple[int, bytes]]]


@asynccontextmanager
async def gateway(settings: Settings) -> AsyncIterator[Ask]:
    """What sends one request to the gateway that `settings` makes, and returns status and body of the answer."""
    app = application(settings)
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"", "headers": []}

    async def ask() -> tuple[int, bytes]:
        messages: list[Any] = []
        inbox: asyncio.Queue[Any] = asyncio.Queue()
        inbox.put_nowait({"type": "http.request", "body": WHOLE})

        async def send(message: Any) -> None:
            messages.append(message)

        await app(scope, inbox.get, send)
        return messages[0]["status"], b"".join(message["body"] for message in messages[1:])

    async def nothing(_message: Any) -> None:
        pass

    yield ask
    ends: asyncio.Queue[Any] = asyncio.Queue()
    ends.put_nowait({"type": "lifespan.shutdown"})
    await app({"type": "lifespan"}, ends.get, nothing)


ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(HELLO), HELLO)


async def answer(peer: Peer) -> None:
    """Answers every request on the connection."""
    while True:
        await peer.request()
        peer.write(ANSWER)


def one_target(server: Server, *, scheme: str = "http", host: str = "127.0.0.1") -> Document:
    """A configuration whose only target is `server`."""
    return {
        "targets": {"a": {"base_url": f"{scheme}://{host}:{server.port}/v1"}},
        "routes": {"fast": {"targets": ["a"]}},
    }
