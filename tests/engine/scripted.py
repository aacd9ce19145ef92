"""Scripted upstreams and a recording client for the gateway in virtual time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Any

from hedgerow.errors import ConnectFailed, UpstreamClosed, UpstreamError
from hedgerow.events import Event, Headers
from hedgerow.gatekeeper import AnyGate, Gatekeeper
from hedgerow.gateway.blueprint import Replay
from hedgerow.gateway.core import Gateway, Limits
from hedgerow.gateway.route import Route
from hedgerow.gateway.routing import Routing, Ways
from hedgerow.gateway.target import Target, key_style
from hedgerow.gateway.trial import Gates
from hedgerow.hedger import Hedger
from hedgerow.http.exchange import Listener
from hedgerow.http.head import fields_in
from hedgerow.http.upstream import Sink
from hedgerow.policy.alternatives import KeepSettings
from hedgerow.policy.health import Health
from hedgerow.policy.judge import Shared
from hedgerow.policy.plan import Candidate, Place
from hedgerow.policy.price import Price
from hedgerow.policy.settings import Policy
from hedgerow.policy.terms import Terms
from hedgerow.testing import VirtualLoop, run_virtual
from hedgerow.wire.base import Family

SSE: Headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
JSON: Headers = [(b"content-type", b"application/json")]


@dataclass(frozen=True)
class Answer:
    """What an upstream does: answers after `head_after` seconds, then sends `chunks` as (pause, bytes).

    `end`: "close" whole, "reset" broken, "hang" nothing more.
    """

    chunks: Sequence[tuple[float, bytes]] = ()
    status: int = 200
    headers: Headers = field(default_factory=lambda: SSE)
    head_after: float = 0.0
    end: str = "close"


Script = Answer | UpstreamError
Scripts = Mapping[str, Script | Sequence[Script]]


REFUSED = ConnectFailed("127.0.0.1:1: connection refused")


class ScriptedPool:
    """Stands where a `Pool` would: every call follows the next script (the last one for ever)."""

    def __init__(self, loop: VirtualLoop, *scripts: Script) -> None:
        self.loop = loop
        self.scripts = list(scripts)
        self.requests: list[tuple[float, bytes, bytes]] = []
        self.resend: list[bool] = []
        self.cancelled_at: list[float] = []
        self.paused = 0

    def send(
        self, sink: Sink, head: bytes, body: bytes, *, method: bytes = b"POST", resend: bool = True
    ) -> ScriptedCall:
        self.requests.append((self.loop.time(), head, body))
        self.resend.append(resend)
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        return ScriptedCall(self, sink, script)

    async def close(self) -> None:
        """Nothing to close."""


class ScriptedCall:
    """One call; what is to happen waits in order, and `cancel` drops it."""

    def __init__(self, pool: ScriptedPool, sink: Sink, script: Script) -> None:
        self._pool = pool
        self._on_data: Callable[[bytes], object] | None = sink.on_data
        self._steps = deque(self._plan(sink, script))
        self._timer: asyncio.TimerHandle | None = None
        self.sent_at = None if isinstance(script, UpstreamError) else pool.loop.time()
        self._next()

    def _next(self) -> None:
        if not self._steps:
            self._on_data = None  # call and sink hold each other: leave no cycle to the collector
        elif self._steps[0][0] < inf:
            self._timer = self._pool.loop.call_later(self._steps[0][0], self._happen)

    def _happen(self) -> None:
        _, step = self._steps.popleft()
        self._next()
        step()

    def _plan(self, sink: Sink, script: Script) -> Iterator[tuple[float, Callable[[], None]]]:
        """What a script does to its sink, each with the seconds since the step before."""
        if isinstance(script, UpstreamError):
            yield 0.0, partial(sink.on_error, script)
            return
        yield script.head_after, partial(sink.on_head, script.status, script.headers)
        for pause, data in script.chunks:
            yield pause, partial(self._deliver, data)
        match script.end:
            case "close":
                yield 0.0, sink.on_end
            case "reset":
                yield 0.0, partial(sink.on_error, UpstreamClosed("the upstream reset the connection"))
            case _:
                yield inf, sink.on_end

    def _deliver(self, data: bytes) -> None:
        if self._on_data is not None:
            self._on_data(data)

    def cancel(self) -> None:
        if not self._steps:
            return
        self._pool.cancelled_at.append(self._pool.loop.time())
        if self._timer is not None:
            self._timer.cancel()
        self._steps.clear()
        self._on_data = None

    def deliver_to(self, on_data: Callable[[bytes], object]) -> None:
        self._on_data = on_data

    def pause(self) -> None:
        self._pool.paused += 1

    def resume(self) -> None:
        self._pool.paused -= 1


class RecordingExchange:
    """A client that writes down when it was told what."""

    def __init__(
        self, loop: VirtualLoop, body: bytes, target: bytes, headers: Headers, method: bytes = b"POST"
    ) -> None:
        self.loop = loop
        self.method = method
        self.target = target
        self.headers = headers
        self.body = body
        self.peer = "test"
        self.listener: Listener | None = None
        self.started = False
        self.status: int | None = None
        self.answer_headers: dict[bytes, bytes] = {}
        self.pieces: list[tuple[float, bytes]] = []
        self.outcome: str | None = None
        self.ended_at: float | None = None

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, fields: bytes = b"") -> None:
        self.start(status, headers, fields)
        self.write(body)
        self._over("whole")

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]], fields: bytes = b"") -> None:
        assert not self.started, "a second status line"
        self.started = True
        self.status = status
        self.answer_headers = dict([*headers, *fields_in(fields)])

    def write(self, data: bytes) -> None:
        assert self.started, "written before the start"
        assert self.outcome is None, "written after the end"
        self.pieces.append((self.loop.time(), data))

    def end(self) -> None:
        self._over("whole")

    def abort(self) -> None:
        self._over("broken")

    def leave(self) -> None:
        """The client goes away."""
        listener = self.listener
        self._over("gone")
        assert listener is not None
        listener.on_disconnect()

    @property
    def text(self) -> bytes:
        return b"".join(data for _, data in self.pieces)

    def _over(self, outcome: str) -> None:
        assert self.outcome is None, f"ended twice: {self.outcome}, then {outcome}"
        self.outcome = outcome
        self.listener = None
        self.ended_at = self.loop.time()


class World:
    """A gateway with one route 'fast' over scripted targets."""

    def __init__(
        self,
        loop: VirtualLoop,
        pools: dict[str, ScriptedPool],
        policy: Policy,
        limits: Limits,
        gates: Sequence[AnyGate] = (),
        replay: Replay | None = None,
        keep: KeepSettings | None = None,
        prices: Mapping[str, Price] | None = None,
    ) -> None:
        prices = dict.fromkeys(pools, Price()) if prices is None else prices
        self.loop = loop
        self.pools = pools
        self.events: list[Event] = []
        targets = [
            Target(
                Place(Candidate(name, name)),
                pool,  # type: ignore[arg-type]  # stands where a Pool would
                host=name.encode(),
                base_path=b"/v1",
                model=f"model-{name}",
                authorization=b"Bearer key-" + name.encode(),
                passthrough=False,
                headers=b"",
                style=key_style("auto", Family.OPENAI),
                as_sent=False,
                stream_usage=False,
            )
            for name, pool in pools.items()
        ]
        self.hedger = hedger = Hedger(
            "fast",
            [t.place for t in targets],
            policy,
            listeners=[self.events.append],
            health=Health(),
            shared=Shared(lambda: 0.0, terms={name: Terms(price) for name, price in prices.items()}),
        )
        prefix = None if policy.gates is None else policy.gates.prefix
        judges = Gates(Gatekeeper(gates), prefix) if gates else None
        route = Route(hedger, targets, gates=judges, replay=replay, keep=keep)
        self.gateway = Gateway(
            Routing(
                {"fast": Ways(route, {Family.OPENAI: route, Family.ANTHROPIC: route})},
                default="fast",
                match=lambda _model: None,
            ),
            loop=loop,
            id_prefix="test",
            limits=limits,
            listeners=[self.events.append],
        )
        self.gateway.once.room = 1 << 20

    def request(
        self,
        body: bytes = b'{"model":"fast","stream":true,"messages":[]}',
        *,
        target: bytes = b"/v1/chat/completions",
        headers: Headers | None = None,
        method: bytes = b"POST",
    ) -> RecordingExchange:
        exchange = RecordingExchange(self.loop, body, target, headers or [], method)
        self.gateway(exchange)
        return exchange

    def of(self, kind: type[Event]) -> list[Any]:
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]


def play(
    scripts: Scripts,
    story: Callable[[World], Coroutine[Any, Any, None]],
    *,
    policy: Policy | None = None,
    limits: Limits | None = None,
    gates: Sequence[AnyGate] = (),
    replay: Replay | None = None,
    keep: KeepSettings | None = None,
    prices: Mapping[str, Price] | None = None,
) -> World:
    """Run `story` against scripted targets until nothing is left to happen, and check that nothing was left behind."""

    async def main(loop: VirtualLoop) -> World:
        pools = {
            name: ScriptedPool(loop, *(script if isinstance(script, Sequence) else [script]))
            for name, script in scripts.items()
        }
        policy_ = policy or Policy(delay=2.0, first_token=20.0, stall=10.0, total=120.0)
        world = World(loop, pools, policy_, limits or Limits(), gates, replay, keep, prices)
        await story(world)
        await asyncio.sleep(1000)
        assert world.gateway.in_flight == 0
        assert not world.gateway.keeping.stragglers
        return world

    return run_virtual(main)
