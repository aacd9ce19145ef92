"""What the gateway itself costs a request, without sockets: everything from the exchange to the upstream call and back.

Run: python -m bench.path
"""

from __future__ import annotations

import asyncio
import gc
import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hedgerow.config import loads
from hedgerow.engine import Basis
from hedgerow.events import Event, Headers, Role
from hedgerow.gateway.build import build
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.gateway.listening import Loudly
from hedgerow.hedger import Hedger
from hedgerow.http.exchange import Handler, Listener
from hedgerow.http.upstream import Sink
from hedgerow.policy.ask import Ask
from hedgerow.policy.health import Probe
from hedgerow.policy.plan import Place, Plan, Refusal
from hedgerow.telemetry.metrics import Metrics

GOAL = 10.0
"""Microseconds that judgement may take of a request that is not hedged."""
ROUNDS, CALLS = 200, 100

CONFIG = """\
targets:
  first: {base_url: "http://first.example/v1", api_key: sk-1, model: big-1, price: {input: 0.25, output: 2}}
  second: {base_url: "http://second.example/v1", api_key: sk-2, model: big-2, price: {input: 0.25, output: 2}}
routes:
  bench: {targets: [first, second], spend: {usd_per_day: 20}}
"""
"""Two targets with all that a route has by default, learned delays among them, and a budget in money."""

ASKED: Headers = [
    (b"host", b"127.0.0.1"),
    (b"content-type", b"application/json"),
    (b"accept", b"application/json"),
    (b"user-agent", b"bench"),
    (b"content-length", b"1800"),
]
LIMITS: Headers = [
    (b"x-ratelimit-limit-requests", b"10000"),
    (b"x-ratelimit-remaining-requests", b"9999"),
    (b"x-ratelimit-reset-requests", b"6ms"),
    (b"x-ratelimit-limit-tokens", b"2000000"),
    (b"x-ratelimit-remaining-tokens", b"1999000"),
    (b"x-ratelimit-reset-tokens", b"30ms"),
]
WHOLE: Headers = [
    (b"content-type", b"application/json"),
    (b"content-length", b"900"),
    (b"x-request-id", b"r1"),
    *LIMITS,
]
STREAMED: Headers = [(b"content-type", b"text/event-stream"), (b"transfer-encoding", b"chunked"), *LIMITS]

_TEXT = "Lorem ipsum dolor sit amet. "


def body(*, stream: bool) -> bytes:
    """A chat of some 1,800 bytes."""
    messages = [{"role": "system", "content": "You help."}, {"role": "user", "content": _TEXT * 60}]
    return json.dumps({"model": "bench", "stream": stream, "max_tokens": 256, "messages": messages}).encode()


def _chunk(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    fields = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "big", "choices": [choice]}
    return b"data: " + json.dumps(fields, separators=(",", ":")).encode() + b"\n\n"


USAGE = {"prompt_tokens": 400, "completion_tokens": 175, "total_tokens": 575}
START, TOKEN = _chunk({"role": "assistant", "content": ""}), _chunk({"content": "hello"})
END = (
    _chunk({}, "stop")
    + b"data: "
    + json.dumps({"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [], "usage": USAGE}).encode()
    + b"\n\ndata: [DONE]\n\n"
)
_MESSAGE = {"index": 0, "message": {"role": "assistant", "content": _TEXT * 25}, "finish_reason": "stop"}
ANSWER = json.dumps({"id": "chatcmpl-1", "object": "chat.completion", "choices": [_MESSAGE], "usage": USAGE}).encode()


class Call:
    """An upstream call that does what it is told by the benchmark."""

    sent_at = 0.0

    def __init__(self, sink: Sink) -> None:
        self.sink = sink
        self.on_data: Callable[[bytes], object] = sink.on_data

    def cancel(self) -> None:
        raise AssertionError("nothing is to be cancelled here")

    def deliver_to(self, on_data: Callable[[bytes], object]) -> None:
        self.on_data = on_data

    def pause(self) -> None: ...

    def resume(self) -> None: ...


class Pool:
    """Stands where a pool of connections would."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def send(self, sink: Sink, head: bytes, body: bytes, *, method: bytes = b"POST", resend: bool = True) -> Call:
        call = self._path.call = Call(sink)
        return call


class Exchange:
    """A client's request; what is answered goes nowhere."""

    peer = "127.0.0.1:1"

    def __init__(self, body: bytes) -> None:
        self.method, self.target = b"POST", b"/v1/chat/completions"
        self.headers, self.body = ASKED, body
        self.listener: Listener | None = None
        self.started = self.ended = False

    def respond(self, status: int, headers: Sequence[tuple[bytes, bytes]], body: bytes, fields: bytes = b"") -> None:
        self.ended, self.listener = status == 200, None

    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]], fields: bytes = b"") -> None:
        self.started = True

    def write(self, data: bytes) -> None: ...

    def end(self) -> None:
        self.ended, self.listener = True, None

    def abort(self) -> None:
        raise AssertionError("nothing is to break off here")


class Unjudged(Hedger):
    """The same route with everything left out that decides whether and when to hedge, or that learns."""

    def begins(self, ask: Ask, now: float, refusal: Refusal | None = None) -> tuple[Basis, Sequence[int]]:
        return (_PLAN, self._candidates, None, None, None), (0, 1)

    def first_token(self, *_: object) -> None: ...

    def launched(self, place: Place, ask: Ask, role: Role, now: float) -> Probe | None:
        return None

    def reported(self, place: Place, headers: Headers, launched_at: float, now: float) -> None: ...

    def answered(self, place: Place, ask: Ask, launched_at: float, now: float) -> None: ...


_PLAN = Plan(first_token=60.0, stall=30.0, total=600.0)


def _unheard(_event: Event) -> None: ...


class Path:
    """A gateway that serves requests one after the other, without a loop running."""

    def __init__(self, *, judged: bool = True, listeners: Sequence[Callable[[Event], None]] = (Loudly(),)) -> None:
        self.loop = asyncio.new_event_loop()
        self.call = Call(self)  # type: ignore[arg-type]  # until there is one
        self._whole, self._stream = body(stream=False), body(stream=True)
        self.gateway, _ = build(
            blueprint_of(loads(CONFIG)),
            loop=self.loop,
            listeners=listeners,
            make_pool=lambda *_: Pool(self),  # type: ignore[arg-type]  # stands for one
        )
        if not judged:
            for route in _routes(self.gateway):
                route.hedger.__class__ = Unjudged
                route.hedger.emit = _unheard

    def on_data(self, data: bytes) -> None: ...

    def whole(self, handler: Handler | None = None) -> None:
        """One request with a whole answer, by way of the gateway or of a handler in front of it."""
        exchange = Exchange(self._whole)
        (handler or self.gateway)(exchange)
        sink = self.call.sink
        sink.on_head(200, WHOLE)
        sink.on_data(ANSWER)
        sink.on_end()
        assert exchange.ended

    def stream(self, tokens: int = 20) -> None:
        """One request with a stream of so many tokens."""
        exchange = Exchange(self._stream)
        self.gateway(exchange)
        call = self.call
        call.sink.on_head(200, STREAMED)
        call.on_data(START)
        call.on_data(TOKEN)
        on_data = call.on_data
        for _ in range(tokens - 1):
            on_data(TOKEN)
        on_data(END)
        assert exchange.ended

    def rest(self) -> None:
        """Let what lingers go."""
        self.gateway._lingering.clear()

    def close(self) -> None:
        self.gateway.close()
        self.loop.close()


def _routes(gateway: Any) -> Iterator[Any]:
    for routes in gateway._routing.by_protocol.values():
        yield from routes.values()


def micros(paths: Sequence[Path], ask: Callable[[Path], None]) -> Sequence[float]:
    """Microseconds of CPU per request of each path, in turn: the lower quartile, as other work only adds to it."""
    taken: list[list[float]] = [[] for _ in paths]
    for _ in range(ROUNDS):
        for path, times in zip(paths, taken, strict=True):
            started = time.thread_time()
            for _ in range(CALLS):
                ask(path)
            times.append((time.thread_time() - started) / CALLS * 1e6)
            path.rest()
    return [sorted(times)[ROUNDS // 4] for times in taken]


def main() -> None:
    gc.disable()
    judged, unjudged, counting = Path(), Path(judged=False), Path(listeners=(Loudly(), Metrics()))
    for path in (judged, unjudged, counting):
        for _ in range(2_000):  # it has learned something of the targets
            path.stream(2)
            path.whole()
        for hedger in path.gateway.parts.hedgers.values() if path.gateway.parts else ():
            for _ in hedger.refreshing(path.loop.time()):
                pass
    print(f"{'us of CPU per request':44}   whole  without judgement   judgement   metrics")
    for name, ask in (("a whole answer", Path.whole), ("a stream of 20 tokens", Path.stream)):
        whole, bare, counted = micros((judged, unjudged, counting), ask)
        verdict = "ok" if whole - bare < GOAL else "short"
        times = f"{whole:8.1f}{bare:19.1f}{whole - bare:12.1f}{counted - whole:10.1f}"
        print(f"{name:44}{times}   goal of judgement: below {GOAL:g} us: {verdict}")
    short, long = (micros((judged,), lambda path, n=n: path.stream(n))[0] for n in (20, 220))  # type: ignore[misc]  # n is bound at once
    print(f"{'each further token of a stream':44}{(long - short) / 200:8.2f}")


if __name__ == "__main__":
    main()
