"""What a call costs its client: httpx's and httpx2's own pools, and the transports with hedging off and on.

Run: python -m bench.transports [ROUNDS]

CPU of this process (user and system, all threads) per call; the upstream is another process, which answers 600 bytes
after 5 ms. The pools are as the OpenAI SDK makes them (1,000 connections, 100 of them kept). Every answer is checked.
With hedging on, a timer is armed for each call, and never due.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import httpx
import httpx2

from bench.machine import look
from hedgerow import HttpTarget, Policy, http_client, http_client_sync

IN_FLIGHT = (1, 16, 64, 128)
CALLS = {1: 400, 16: 1600, 64: 1920, 128: 1920}
LATENCY = 0.005
TEXT = "A hedge is a row of shrubs planted close together. " * 6
CHOICE = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
ANSWER = json.dumps({"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [CHOICE]}).encode()
BODY = {"model": "m", "messages": [{"role": "user", "content": "What is a hedge?"}]}
OFF, ON = Policy(delay="off"), Policy(delay=60, max_delay=60, budget=None)


class _Answering(asyncio.Protocol):
    """Answers each request that came whole in one read, as these do."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER)
        self._answer = head + ANSWER
        self._read = b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        if self._read.endswith(b"}"):
            self._read = b""
            asyncio.get_running_loop().call_later(LATENCY, self._transport.write, self._answer)


def _upstream(ready: Connection) -> None:
    async def serve() -> None:
        server = await asyncio.get_running_loop().create_server(_Answering, "127.0.0.1", 0, backlog=512)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(serve())


class Contender(NamedTuple):
    """A client and how many of its calls are made side by side."""

    name: str
    make: Callable[[str], Any]
    threads: bool = False


def _own(library: Any, *, threads: bool = False) -> Callable[[str], Any]:
    limits = library.Limits(max_connections=1000, max_keepalive_connections=100)
    client = library.Client if threads else library.AsyncClient
    return lambda _base_url: client(limits=limits, timeout=60)


def _ours(library: str, policy: Policy, *, threads: bool = False) -> Callable[[str], Any]:
    make: Any = http_client_sync if threads else http_client
    return lambda base_url: make(
        [HttpTarget(base_url=base_url, name=name) for name in ("first", "second")], policy, library=library, timeout=60
    )


CONTENDERS = (
    Contender("httpx", _own(httpx)),
    Contender("httpx, hedging off", _ours("httpx", OFF)),
    Contender("httpx, hedging on", _ours("httpx", ON)),
    Contender("httpx2", _own(httpx2)),
    Contender("httpx2, hedging off", _ours("httpx2", OFF)),
    Contender("httpx2, hedging on", _ours("httpx2", ON)),
    Contender("httpx2, sync", _own(httpx2, threads=True), True),
    Contender("httpx2, sync, hedging off", _ours("httpx2", OFF, threads=True), True),
)


def _check(answer: Any) -> None:
    if answer.status_code != 200 or answer.content != ANSWER:
        raise RuntimeError(f"a wrong answer: {answer.status_code}")


async def _side_by_side(client: Any, url: str, calls: int, in_flight: int) -> float:
    async def worker() -> None:
        for _ in range(calls // in_flight):
            _check(await client.post(url, json=BODY))

    return await _timed(lambda: asyncio.gather(*(worker() for _ in range(in_flight))))


async def _timed(run: Callable[[], Awaitable[Any]]) -> float:
    before = time.process_time()
    await run()
    return time.process_time() - before


async def _async(contender: Contender, base_url: str, in_flight: int) -> float:
    url = f"{base_url}/chat/completions"
    async with contender.make(base_url) as client:
        await _side_by_side(client, url, 4 * in_flight, in_flight)
        return await _side_by_side(client, url, CALLS[in_flight], in_flight)


def _sync(contender: Contender, base_url: str, in_flight: int) -> float:
    url = f"{base_url}/chat/completions"
    with contender.make(base_url) as client, ThreadPoolExecutor(in_flight) as threads:
        for count in (4 * in_flight, CALLS[in_flight]):
            before = time.process_time()
            list(threads.map(lambda _: _check(client.post(url, json=BODY)), range(count)))
            took = time.process_time() - before
        return took


def measure(contender: Contender, base_url: str, in_flight: int) -> float:
    """Milliseconds of CPU per call."""
    if contender.threads:
        took = _sync(contender, base_url, in_flight)
    else:
        took = asyncio.run(_async(contender, base_url, in_flight))
    return 1000 * took / CALLS[in_flight]


@contextmanager
def upstream() -> Any:
    """The base URL of the upstream."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_upstream, args=(theirs,), daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{ours.recv()}/v1"
    finally:
        process.terminate()
        process.join()


def main(rounds: int) -> None:
    """Print milliseconds per call and the ratios to the library's own pool, medians over rounds."""
    found: dict[tuple[str, int], list[float]] = {}
    with upstream() as base_url:
        for number in range(rounds):
            for contender in CONTENDERS[:: -1 if number % 2 else 1]:
                for in_flight in IN_FLIGHT:
                    found.setdefault((contender.name, in_flight), []).append(measure(contender, base_url, in_flight))
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
    machine = look()
    print(
        f"{machine.cpu}, {machine.cores} cores, Python {machine.python}; ms of CPU per call, median of {rounds} rounds"
    )
    print(f"{'in flight':26}", *(f"{each:>14}" for each in IN_FLIGHT))
    own = ""
    for contender in CONTENDERS:
        own = own if "hedging" in contender.name else contender.name
        shown = []
        for in_flight in IN_FLIGHT:
            took = found[contender.name, in_flight]
            ratio = statistics.median(a / b for a, b in zip(found[own, in_flight], took, strict=True))
            shown.append(f"{statistics.median(took):.2f}" + (f" ({ratio:.1f}x)" if own != contender.name else ""))
        print(f"{contender.name:26}", *(f"{each:>14}" for each in shown))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5)
