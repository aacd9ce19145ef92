"""Draining: nothing that has been sent is lost, and it ends in time."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hedgerow.http.server import Server
from tests.unit.http_support import LOOPS, Client, Desk, Ears, echo, plain, run

TEXT = [(b"content-type", b"text/plain")]
GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"


async def _draining(server: Server) -> asyncio.Task[bool]:
    """Start to drain and wait until nothing listens any more."""
    task = asyncio.ensure_future(server.drain(5.0))
    for _ in range(20):
        await asyncio.sleep(0)
    assert server.sockets == ()
    return task


@pytest.mark.parametrize("name", LOOPS)
def test_requests_in_progress_are_answered_and_their_connections_closed(name: str) -> None:
    async def main() -> None:
        desk = Desk()
        server = Server(desk)
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(GET % b"1")
        exchange = await desk.until(1)
        draining = await _draining(server)
        echo(exchange)
        assert await client.rest() == plain(b"200 OK", b"GET /1 ", close=True)
        assert await draining
        assert server.connections == 0

    run(main(), name)


@pytest.mark.parametrize("name", LOOPS)
def test_connections_waiting_in_the_backlog_are_served(name: str) -> None:
    async def main() -> None:
        server = Server(Desk(echo))
        await server.start("127.0.0.1", 0)
        waiting = []
        for number in range(50):
            sock = socket.create_connection(("127.0.0.1", server.port))
            sock.sendall(GET % b"%d" % number)
            waiting.append(sock)
        # The loop has had no turn since: no connection has been accepted yet.
        assert server.connections == 0
        draining = asyncio.ensure_future(server.drain(5.0))
        for number, sock in enumerate(waiting):
            reader, writer = await asyncio.open_connection(sock=sock)
            assert await reader.read() == plain(b"200 OK", b"GET /%d " % number, close=True)
            writer.close()
        assert await draining

    run(main(), name)


@pytest.mark.parametrize("name", LOOPS)
def test_a_request_on_an_idle_connection_is_still_answered(name: str) -> None:
    async def main() -> None:
        server = Server(Desk(echo))
        await server.start("127.0.0.1", 0)
        busy, silent = await Client.connect(server), await Client.connect(server)
        busy.send(GET % b"1")
        await busy.expect(plain(b"200 OK", b"GET /1 "))
        draining = await _draining(server)
        busy.send(GET % b"2")
        assert await busy.rest() == plain(b"200 OK", b"GET /2 ", close=True)
        assert await silent.rest() == b""
        assert await draining

    run(main(), name)


def test_only_the_last_of_pipelined_answers_says_close() -> None:
    async def main() -> None:
        desk = Desk()
        server = Server(desk)
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(GET % b"1" + GET % b"2" + GET % b"3")
        first = await desk.until(1)
        draining = await _draining(server)
        desk.answer = echo
        echo(first)
        assert await client.rest() == (
            plain(b"200 OK", b"GET /1 ") + plain(b"200 OK", b"GET /2 ") + plain(b"200 OK", b"GET /3 ", close=True)
        )
        assert await draining

    run(main())


def test_a_stream_begun_before_the_drain_ends_whole_and_its_connection_closes() -> None:
    async def main() -> None:
        desk = Desk()
        server = Server(desk)
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(GET % b"1")
        exchange = await desk.until(1)
        exchange.start(200, TEXT)
        draining = await _draining(server)
        exchange.write(b"hello")
        exchange.end()
        answer = await client.rest()
        assert answer.endswith(b"transfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
        assert await draining

    run(main())


@pytest.mark.parametrize("name", LOOPS)
def test_what_does_not_end_in_time_is_aborted_and_said(name: str) -> None:
    async def main() -> None:
        desk = Desk()
        server = Server(desk)
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(GET % b"1")
        ears = Ears()
        (await desk.until(1)).listener = ears
        assert not await server.drain(0.02)
        assert ears.heard == ["disconnect"]
        assert await client.rest() == b""
        assert server.connections == 0

    run(main(), name)


def test_a_request_that_has_only_begun_to_arrive_is_waited_for() -> None:
    async def main() -> None:
        desk = Desk(echo)
        server = Server(desk)
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(b"POST /1 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        await client.expect(b"HTTP/1.1 100 Continue\r\n\r\n")
        draining = await _draining(server)
        await asyncio.sleep(0.3)  # longer than an idle connection would be left open
        client.send(b"hi")
        assert await client.rest() == plain(b"200 OK", b"POST /1 hi", close=True)
        assert await draining

    run(main())


def test_a_server_without_connections_drains_at_once_and_one_not_started_says_so() -> None:
    async def main() -> None:
        server = Server(Desk())
        with pytest.raises(RuntimeError, match="has not been started"):
            await server.drain(1.0)
        await server.start("127.0.0.1", 0)
        begun = asyncio.get_running_loop().time()
        assert await server.drain(5.0)
        assert asyncio.get_running_loop().time() - begun < 1.0

    run(main())


@pytest.mark.parametrize("name", LOOPS)
def test_nothing_is_lost_when_a_server_drains_under_load(name: str) -> None:
    async def main() -> None:
        desk = Desk(echo)
        server = Server(desk)
        await server.start("127.0.0.1", 0)

        async def customer() -> int:
            """Send requests one after the other until told to go; every one sent must be answered."""
            client = await Client.connect(server)
            answered = 0
            while True:
                client.send(GET % b"")
                head = await client.reader.readuntil(b"\r\n\r\n")
                await client.reader.readexactly(6)
                answered += 1
                if b"connection: close" in head:
                    assert await client.rest() == b""
                    return answered

        customers = [asyncio.ensure_future(customer()) for _ in range(20)]
        await desk.until(500)
        assert await server.drain(5.0)
        assert sum(await asyncio.gather(*customers)) == len(desk.seen)

    run(main(), name)
