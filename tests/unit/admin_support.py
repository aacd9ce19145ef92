"""A gateway over scripted upstreams in virtual time, with its admin API, and with a file that can be read again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hedgerow.config import loads
from hedgerow.errors import ConfigError
from hedgerow.events import Event
from hedgerow.gateway.blueprint import Blueprint, Source, Stamp
from hedgerow.gateway.build import Builder
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.gateway.reload import Reloader
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.http.upstream import Sink
from hedgerow.testing import VirtualLoop, run_virtual
from tests.effects.support import QUICK, STREAM, Document, document
from tests.engine.scripted import RecordingExchange, Script, ScriptedCall, ScriptedPool

T = TypeVar("T")

TOKEN = "an-admins-own-token"
ADMIN: Document = {
    "targets": {"a": {"base_url": "http://a.example/v1"}, "b": {"base_url": "http://b.example/v1"}},
    "routes": {"fast": {"targets": ["a", "b"], "hedge": {"delay": "2s"}}},
    "server": {"admin": {"token": TOKEN}},
}
"""One route, `fast`, that hedges after 2 s."""


def blueprint(changes: Mapping[str, object] | None = None, base: Document = ADMIN) -> Blueprint:
    """What a file says that differs from `base` in some keys."""
    return blueprint_of(loads(json.dumps(document(changes or {}, base)), {}), environ={})


class CountingPool(ScriptedPool):
    """A scripted pool that knows what is under way, and whether it has been closed."""

    open = idle = connecting = waiting = 0

    def __init__(self, loop: VirtualLoop, name: str, *scripts: Script) -> None:
        super().__init__(loop, *scripts)
        self.name = name
        self.calls: list[ScriptedCall] = []
        self.closed_at: float | None = None

    def send(
        self, sink: Sink, head: bytes, body: bytes, *, method: bytes = b"POST", resend: bool = True
    ) -> ScriptedCall:
        assert self.closed_at is None, "a request came to a closed pool"
        self.calls.append(super().send(sink, head, body, method=method, resend=resend))
        return self.calls[-1]

    @property
    def busy(self) -> int:
        """Calls under way."""
        return sum(bool(call._steps) for call in self.calls)

    async def close(self) -> None:
        assert self.closed_at is None, "closed twice"
        self.closed_at = self.loop.time()


class Running:
    """The gateway. `file` is what the next reading finds: a blueprint, or what is wrong."""

    def __init__(
        self, loop: VirtualLoop, start: Blueprint, scripts: Mapping[str, Script], source: Source | None
    ) -> None:
        self.loop = loop
        self.events: list[Event] = []
        self.pools: list[CountingPool] = []
        self.file: Blueprint | ConfigError | Exception = start
        self.takes = 0.5
        """Seconds for each reading."""
        self.readings: list[float] = []
        self._scripts = scripts
        builder = Builder([self.events.append], self._pool)  # type: ignore[arg-type]  # stands where a Pool would
        self.gateway, parts = builder.gateway(start, loop)
        self.reloader = self.gateway.reloader = Reloader(self.gateway, parts, builder, source, read=self._read)

    def _pool(self, name: str, _origin: Origin, settings: PoolSettings) -> CountingPool:
        if settings.proxy is not None:
            raise ConfigError(["proxy: not here"])
        self.pools.append(CountingPool(self.loop, name, self._scripts.get(name, QUICK)))
        return self.pools[-1]

    async def _read(self, _source: Source) -> tuple[Blueprint, Sequence[str]]:
        self.readings.append(self.loop.time())
        await asyncio.sleep(self.takes)
        if isinstance(self.file, Exception):
            raise self.file
        return self.file, ["a warning"]

    def send(
        self, method: str, path: str, body: object = None, *, token: str | None = TOKEN, raw: bytes | None = None
    ) -> RecordingExchange:
        """A request to the admin API, maybe answered later."""
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        sent = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
        exchange = RecordingExchange(self.loop, sent, path.encode(), headers, method.encode())
        self.gateway(exchange)
        return exchange

    def ask(self, method: str, path: str, body: object = None, **more: Any) -> tuple[int, Any]:
        """Status and body of an answer that comes at once."""
        return answer(self.send(method, path, body, **more))

    def chat(self, body: bytes = STREAM) -> RecordingExchange:
        """A client's request."""
        exchange = RecordingExchange(self.loop, body, b"/v1/chat/completions", [], b"POST")
        self.gateway(exchange)
        return exchange

    async def reload(self, what: Blueprint | Exception) -> Sequence[str]:
        """Have this read; the problems with it."""
        self.file = what
        return (await self.reloader.ask("a test")).problems

    def asked(self) -> dict[str, int]:
        """How many requests each target got."""
        return {pool.name: len(pool.requests) for pool in self.pools}

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def answer(exchange: RecordingExchange) -> tuple[int, Any]:
    """Status and body of an answer that has come."""
    assert exchange.outcome == "whole"
    assert exchange.status is not None
    return exchange.status, json.loads(exchange.text) if exchange.text else None


def play(
    story: Callable[[Running], Coroutine[Any, Any, T]],
    changes: Mapping[str, object] | None = None,
    *,
    base: Document = ADMIN,
    scripts: Mapping[str, Script] | None = None,
    file: Path | None = None,
    stamp: Stamp | None = None,
    source: bool = True,
    beside: tuple[str, Stamp | None] | None = None,
) -> T:
    """Tell the story of a gateway in virtual time. Without a `source` it has no file to read again."""

    async def main(loop: VirtualLoop) -> T:
        origin = Source(file=str(file or "hedgerow.yaml"), stamp=stamp, reader=(), beside=beside) if source else None
        running = Running(loop, blueprint(changes, base), scripts or {}, origin)
        try:
            return await story(running)
        finally:
            await running.reloader.close()
            running.gateway.close()

    return run_virtual(main)
