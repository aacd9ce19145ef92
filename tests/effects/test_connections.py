"""targets.<name>.connections, tls and proxy: what happens on real sockets."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trustme

from tests.effects.support import ANSWER, HELLO, answer, effect_of, gateway, one_target, settings
from tests.unit.client_support import Peer, Server, until

pytestmark = pytest.mark.e2e

WHILE = 0.15
"""Seconds in which something that is not to happen does not happen."""

GOOD = (200, HELLO)


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(20):
            await main()

    asyncio.run(limited())


class Gate:
    """A script whose answers wait until `opened`."""

    def __init__(self) -> None:
        self.opened = asyncio.Event()
        self.requests = 0

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            self.requests += 1
            await self.opened.wait()
            peer.write(ANSWER)


async def silent(peer: Peer) -> None:
    """Accepts connections and says nothing."""
    await peer.closed()


@effect_of("targets.<name>.connections.max")
@pytest.mark.parametrize(("most", "connections"), [(1, 1), (2, 2), (1000, 3)])
def test_no_more_than_max_connections_are_open(key: str, most: int, connections: int) -> None:
    async def main() -> None:
        gate = Gate()
        async with Server(gate) as server, gateway(settings({key: most}, base=one_target(server))) as ask:
            asking = [asyncio.ensure_future(ask()) for _ in range(3)]
            await until(lambda: gate.requests == connections)
            gate.opened.set()
            assert await asyncio.gather(*asking) == [GOOD] * 3
            assert len(server.peers) == connections

    run(main)


@effect_of("targets.<name>.connections.queue")
@pytest.mark.parametrize(("places", "good"), [(0, 1), (1, 2), (1000, 3)])
def test_no_more_than_queue_requests_wait(key: str, places: int, good: int) -> None:
    async def main() -> None:
        gate = Gate()
        changes = {"targets.a.connections.max": 1, key: places}
        async with Server(gate) as server, gateway(settings(changes, base=one_target(server))) as ask:
            asking = [asyncio.ensure_future(ask())]
            await until(lambda: gate.requests == 1)
            asking += [asyncio.ensure_future(ask()) for _ in range(2)]
            await until(lambda: sum(one.done() for one in asking) == 3 - good)
            gate.opened.set()
            answers = await asyncio.gather(*asking)
            assert answers.count(GOOD) == good
            assert all(status == 502 and b"the queue is full" in body for status, body in answers[good:])

    run(main)


@effect_of("targets.<name>.connections.queue_timeout")
@pytest.mark.parametrize("limit", [0.03, 5.0])
def test_a_request_waits_no_longer_than_queue_timeout(key: str, limit: float) -> None:
    async def main() -> None:
        gate = Gate()
        changes = {"targets.a.connections.max": 1, key: limit}
        async with Server(gate) as server, gateway(settings(changes, base=one_target(server))) as ask:
            first = asyncio.ensure_future(ask())
            await until(lambda: gate.requests == 1)
            second = asyncio.ensure_future(ask())
            late, _ = await asyncio.wait([second], timeout=WHILE if limit == 5.0 else 10)
            gate.opened.set()
            assert await first == GOOD
            status, body = await second
            assert bool(late) == (limit == 0.03)
            assert status == (502 if late else 200)
            assert (b"none came free within 0.03 s" in body) == bool(late)

    run(main)


@effect_of("targets.<name>.connections.connect_timeout")
@pytest.mark.parametrize("limit", [0.03, 5.0])
def test_connecting_takes_no_longer_than_connect_timeout(key: str, limit: float) -> None:
    async def main() -> None:
        base = partial(one_target, scheme="https")  # TLS is part of connecting, and it never comes
        async with Server(silent) as server, gateway(settings({key: limit}, base=base(server))) as ask:
            asking = asyncio.ensure_future(ask())
            late, _ = await asyncio.wait([asking], timeout=WHILE if limit == 5.0 else 10)
            assert bool(late) == (limit == 0.03)
            assert not late or b"no answer within 0.03 s" in asking.result()[1]
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    run(main)


@effect_of("targets.<name>.connections.idle_timeout")
@pytest.mark.parametrize("limit", [0.03, 55.0])
def test_an_unused_connection_is_closed_after_idle_timeout(key: str, limit: float) -> None:
    async def main() -> None:
        async with Server(answer) as server, gateway(settings({key: limit}, base=one_target(server))) as ask:
            assert await ask() == GOOD
            if limit == 0.03:
                await until(lambda: server.open == 0)
            else:
                await asyncio.sleep(WHILE)
            assert await ask() == GOOD
            assert len(server.peers) == (2 if limit == 0.03 else 1)

    run(main)


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def certified(authority: trustme.CA) -> ssl.SSLContext:
    """A server's side of TLS, with a certificate that nobody knows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


@effect_of("targets.<name>.tls.verify")
@pytest.mark.parametrize("verify", [True, False])
def test_an_unknown_certificate_is_taken_only_without_verify(key: str, verify: bool, certified: ssl.SSLContext) -> None:
    async def main() -> None:
        base = partial(one_target, scheme="https")
        async with Server(answer, tls=certified) as server, gateway(settings({key: verify}, base=base(server))) as ask:
            status, body = await ask()
        assert status == (502 if verify else 200)
        assert (b"certificate" in body) == verify

    with_ignored_handshakes(main)


@effect_of("targets.<name>.tls.ca_file")
def test_an_authority_in_ca_file_is_trusted(
    key: str, authority: trustme.CA, certified: ssl.SSLContext, tmp_path: Path
) -> None:
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")

    async def main() -> None:
        async with Server(answer, tls=certified) as server:
            base = one_target(server, scheme="https")
            async with gateway(settings({key: "ca.pem"}, base=base, folder=tmp_path)) as ask:
                assert await ask() == GOOD

    run(main)


def with_ignored_handshakes(main: Callable[[], Awaitable[None]]) -> None:
    """asyncio's server logs a handshake that its client broke off; that is what is asked for here."""

    async def quiet() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        await main()

    run(quiet)


@effect_of("targets.<name>.proxy")
@pytest.mark.parametrize("way", ["env", "off", "url"])
def test_requests_go_through_the_proxy(key: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[bytes] = []

    async def proxying(peer: Peer) -> None:
        while True:
            head, _ = await peer.request()
            lines.append(head.partition(b"\r\n")[0])
            peer.write(ANSWER)

    async def main() -> None:
        # Loopback is never sent to the environment's proxy; 0.0.0.0 leads there too, and is not called so.
        async with Server(proxying) as proxy, Server(answer) as server:
            base = one_target(server, host="0.0.0.0")
            value = f"http://127.0.0.1:{proxy.port}" if way == "url" else way
            if way != "url":
                monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
            async with gateway(settings({key: value}, base=base)) as ask:
                assert await ask() == GOOD
            absolute = b"POST http://0.0.0.0:%d/v1/chat/completions HTTP/1.1" % server.port
            assert lines == ([] if way == "off" else [absolute])
            assert len(server.peers) == (1 if way == "off" else 0)

    for name in ("http_proxy", "no_proxy", "NO_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    run(main)
