"""A small configuration, ways to change one key of it, and ways to see what the gateway built from it does."""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hedgerow.asgi import application
from hedgerow.config import Settings, loads
from hedgerow.events import AttemptLaunched, Event, HedgeSkipped, Listener, Reason, Role
from hedgerow.gateway.build import Builder
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.policy.cancelling import Probed
from hedgerow.testing import VirtualLoop, run_virtual
from tests.engine.scripted import JSON, Answer, RecordingExchange, Script, ScriptedPool
from tests.unit.client_support import Peer, Server

TESTED: set[str] = set()
"""The keys that have a test."""

Document = dict[str, Any]
_E = TypeVar("_E")

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


def effects_of(keys: Mapping[str, object], named: str) -> pytest.MarkDecorator:
    """The same for one test of several keys; `named` is the argument that takes what goes with each."""
    TESTED.update(keys)
    return pytest.mark.parametrize(("key", named), list(keys.items()))


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
LATE = Answer([(1.5, token("hello")), (0.0, b"data: [DONE]\n\n")])


def after(seconds: float) -> Answer:
    """A stream whose first token takes so long."""
    return Answer([(seconds, token("hello")), (0.0, b"data: [DONE]\n\n")])


SILENT = Answer(end="hang")
STALLS = Answer([(0.0, token("hello"))], end="hang")
BROKEN = Answer([(0.0, b"{}")], status=500, headers=JSON, head_after=0.1)
SLOW_DOWN = Answer([(0.0, b"{}")], status=429, headers=JSON, head_after=0.1)

Pools = dict[str, ScriptedPool]


@dataclass(frozen=True)
class Sent:
    """A request, when it is sent, and after how many seconds its client leaves, if it does."""

    at: float = 0.0
    body: bytes = STREAM
    headers: Sequence[tuple[bytes, bytes]] = ()
    path: bytes = b"/v1/chat/completions"
    method: bytes = b"POST"
    leaves_after: float | None = None


@dataclass
class Story:
    """What came of some requests; clients and skips in the order of the requests."""

    pools: Pools = field(default_factory=dict)
    clients: list[RecordingExchange] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def of(self, kind: type[_E]) -> list[_E]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def launches(self) -> list[tuple[str, str, Role, float]]:
        """Request, target, role and time of every attempt."""
        return [(each.request_id, each.target, each.role, each.at) for each in self.of(AttemptLaunched)]

    def hedged(self) -> list[int]:
        """Which requests were hedged, counted from 0."""
        return [number(request_id) for request_id, _, role, _ in self.launches if role is Role.HEDGE]

    def failed_over(self) -> list[int]:
        """Which requests had an attempt after a failure."""
        return [number(request_id) for request_id, _, role, _ in self.launches if role is Role.FAILOVER]

    def firsts(self) -> str:
        """The targets that requests went to first."""
        return "".join(target for _, target, role, _ in self.launches if role is Role.PRIMARY)

    def reasons(self, role: Role = Role.HEDGE) -> list[Reason]:
        """Why hedges (or failovers) did not start."""
        return [each.reason for each in self.of(HedgeSkipped) if each.role is role]


def number(request_id: str) -> int:
    """The place of a request among those that were sent."""
    return int(request_id.rpartition("-")[2]) - 1


def tell(
    settings: Settings,
    scripts: Mapping[str, Script | Sequence[Script]],
    sent: Iterable[Sent],
    *,
    probed: Mapping[str, Probed] | None = None,
    listener: Listener | None = None,
) -> Story:
    """What the gateway that `settings` makes does with these requests; its targets follow `scripts` (else `QUICK`).

    With a `listener` it hears of them, and not the story.

    `probed` is what is known of how they cancel.
    Requests are called r-1, r-2 ... in their order, and chance is always for a hedge.
    """

    async def main(loop: VirtualLoop) -> Story:
        story = Story()

        def make_pool(name: str, _origin: Origin, _settings: PoolSettings) -> ScriptedPool:
            script = scripts.get(name, QUICK)
            story.pools[name] = ScriptedPool(loop, *(script if isinstance(script, Sequence) else [script]))
            return story.pools[name]

        # Sockets have no virtual time.
        hears = story.events.append if listener is None else listener
        builder = Builder([hears], make_pool)  # type: ignore[arg-type]
        gateway, parts = builder.gateway(blueprint_of(settings, probed=probed or {}), loop)
        gateway.request_ids = map("r-%d".__mod__, count(1))
        parts.shared.draw = lambda: 0.0
        began = loop.time()
        for each in sent:
            if each.at > loop.time() - began:
                await asyncio.sleep(began + each.at - loop.time())
            exchange = RecordingExchange(loop, each.body, each.path, list(each.headers), each.method)
            story.clients.append(exchange)
            gateway(exchange)
            if each.leaves_after is not None:
                loop.call_later(each.leaves_after, exchange.leave)
        await asyncio.sleep(2000)
        assert gateway.in_flight == 0
        return story

    return run_virtual(main)


def every(seconds: float, times: int, *, start: float = 0.0, like: Sent = Sent()) -> list[Sent]:
    """So many requests like this one, one every so many seconds."""
    return [replace(like, at=start + seconds * place) for place in range(times)]


def play(
    settings: Settings,
    scripts: Mapping[str, Script | Sequence[Script]],
    body: bytes = STREAM,
    *,
    path: bytes = b"/v1/chat/completions",
    headers: Sequence[tuple[bytes, bytes]] | None = None,
    method: bytes = b"POST",
    again: int = 0,
    every: float = 0.0,
) -> tuple[Pools, RecordingExchange]:
    """One request to the gateway that `settings` makes; its targets follow `scripts` (`QUICK` when not named).

    It is sent `again` so many times, one `every` so many seconds.
    """
    one = Sent(0.0, body, headers or (), path, method)
    story = tell(settings, scripts, [replace(one, at=every * place) for place in range(again + 1)])
    return story.pools, story.clients[0]


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
