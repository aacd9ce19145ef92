"""What clients do to a connection: read slowly, leave, stall, send too much at once; and what the server does then."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme

from hedgerow.errors import ConfigError
from hedgerow.http.limits import Limits
from hedgerow.http.server import Server, server_ssl_context
from hedgerow.http.server_connection import Connection
from tests.unit.http_support import LOOPS, Client, Desk, Ears, Wire, echo, plain, refusal, run

TEXT = [(b"content-type", b"text/plain")]
GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"
LATE_HEAD = refusal(b"408 Request Timeout", b"The request head did not arrive in time.")
LATE_BODY = refusal(b"408 Request Timeout", b"The request body did not arrive in time.")


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


# Back-pressure


@pytest.mark.parametrize("name", LOOPS)
def test_a_slow_reader_pauses_the_answer_and_memory_stays_bounded(name: str) -> None:
    async def main() -> None:
        desk = Desk()
        server = Server(desk, limits=Limits(write_buffer_high=64 * 1024))
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server, limit=1024)
        client.send(GET % b"")
        exchange = await desk.until(1)
        ears = Ears()
        exchange.listener = ears
        exchange.start(200, TEXT)
        chunk = b"z" * 16_000
        written = 0
        while "pause" not in ears.heard:
            exchange.write(chunk)
            written += 1
            await asyncio.sleep(0)
        (connection,) = _connections(server)
        assert connection.transport.get_write_buffer_size() <= 64 * 1024 + len(chunk) + 16
        reading = asyncio.ensure_future(client.rest())
        await ears.until("resume")
        assert ears.heard == ["pause", "resume"]
        exchange.end()
        await server.drain(2.0)
        assert (await reading).count(b"z") == written * len(chunk)

    run(main(), name)


def test_a_listener_set_late_hears_of_the_pause(loop: asyncio.AbstractEventLoop) -> None:
    desk, ears = Desk(), Ears()
    wire = Wire(loop, desk)
    wire.receive(GET % b"")
    wire.connection.pause_writing()
    desk.seen[0].listener = ears
    assert ears.heard == []
    _turn(loop)
    assert ears.heard == ["pause"]
    wire.connection.resume_writing()
    assert ears.heard == ["pause", "resume"]


def test_a_pause_that_is_over_before_the_listener_hears_of_it_is_not_told(loop: asyncio.AbstractEventLoop) -> None:
    desk, ears = Desk(), Ears()
    wire = Wire(loop, desk)
    wire.receive(GET % b"")
    wire.connection.pause_writing()
    desk.seen[0].listener = ears
    wire.connection.resume_writing()
    _turn(loop)
    assert ears.heard == []


def test_a_client_that_does_not_read_gets_no_further_request_begun(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(echo)
    wire = Wire(loop, desk)
    wire.connection.pause_writing()
    wire.receive(GET % b"1" + GET % b"2", GET % b"3")
    assert desk.seen == []
    wire.connection.resume_writing()
    assert wire.written == b"".join(plain(b"200 OK", b"GET /%b " % n) for n in (b"1", b"2", b"3"))


def test_reading_pauses_only_beyond_the_bound_and_resumes(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk()
    wire = Wire(loop, desk, Limits(pipeline_bytes=100))
    wire.receive(GET % b"1", b"x" * 0)
    first = GET % (b"2" * 40)
    wire.receive(first)
    assert wire.reads()
    wire.receive(first)
    assert not wire.reads()
    echo(desk.seen[0])
    assert wire.reads()
    assert [exchange.target for exchange in desk.seen] == [b"/1", b"/" + b"2" * 40]


@pytest.mark.parametrize("name", LOOPS)
def test_reading_resumes_for_a_refusal_after_a_pause(name: str) -> None:
    async def main() -> bytes:
        desk = Desk()
        server = Server(desk, limits=Limits(pipeline_bytes=100))
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(GET % b"1")
        exchange = await desk.until(1)
        client.send(b"\x00" * 200)
        (connection,) = _connections(server)
        while not connection._reading_paused:  # noqa: ASYNC110  (the transport alone knows when)
            await asyncio.sleep(0)
        echo(exchange)
        received = await client.rest()
        await server.close()
        return received

    malformed = refusal(b"400 Bad Request", b"The request is not valid HTTP/1.1.")
    assert run(main(), name) == plain(b"200 OK", b"GET /1 ") + malformed


def test_pipelined_bytes_are_bounded_however_they_come(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk()
    wire = Wire(loop, desk)
    wire.receive((GET % b"") * 10_000)
    assert not wire.reads()
    assert len(wire.connection._ready) <= 16 * 1024 / len(GET % b"")


def test_the_last_write_pauses_nobody(loop: asyncio.AbstractEventLoop) -> None:
    for streamed in (False, True):
        desk, ears = Desk(), Ears()
        wire = Wire(loop, desk)
        wire.receive(GET % b"")
        (exchange,) = desk.seen
        exchange.listener = ears
        if streamed:
            exchange.start(200, TEXT)
        wire.transport.after_write = wire.connection.pause_writing
        if streamed:
            exchange.end()
        else:
            exchange.respond(200, TEXT, b"hi")
        assert ears.heard == []


# Leaving


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("leave", ["close", "reset", "half"])
@pytest.mark.parametrize("phase", ["waiting", "started", "mid-stream", "paused", "pipelined"])
def test_a_disconnect_is_heard_once_in_every_phase(name: str, phase: str, leave: str) -> None:
    async def main() -> None:
        desk = Desk()
        server = Server(desk)
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(GET % b"1" * (2 if phase == "pipelined" else 1))
        exchange = await desk.until(1)
        ears = Ears()
        exchange.listener = ears
        if phase in ("started", "mid-stream", "paused"):
            exchange.start(200, TEXT)
            await client.reader.readuntil(b"\r\n\r\n")
        if phase == "mid-stream":
            exchange.write(b"hello")
            await client.reader.readuntil(b"hello")
        while phase == "paused" and not ears.heard:
            exchange.write(b"x" * 100_000)
        {"close": client.leave, "reset": client.vanish, "half": client.writer.write_eof}[leave]()
        await ears.until("disconnect")
        exchange.write(b"late")
        exchange.end()
        exchange.start(200, [])
        exchange.respond(200, [], b"")
        exchange.abort()
        client.vanish()
        await server.close()
        assert ears.heard == ["pause"] * (phase == "paused") + ["disconnect"]
        assert len(desk.seen) == 1

    run(main(), name)


def test_a_listener_set_after_the_client_left_hears_of_it(loop: asyncio.AbstractEventLoop) -> None:
    desk, ears = Desk(), Ears()
    wire = Wire(loop, desk)
    wire.receive(GET % b"")
    wire.connection.connection_lost(None)
    desk.seen[0].listener = ears
    assert ears.heard == []
    _turn(loop)
    assert ears.heard == ["disconnect"]


def test_nobody_hears_of_a_disconnect_after_the_end(loop: asyncio.AbstractEventLoop) -> None:
    desk, ears = Desk(), Ears()
    wire = Wire(loop, desk)
    wire.receive(GET % b"")
    desk.seen[0].listener = ears
    echo(desk.seen[0])
    wire.connection.eof_received()
    wire.connection.connection_lost(None)
    assert ears.heard == []


def test_a_listener_that_raises_is_logged_and_harms_nobody(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Ears):
        def on_disconnect(self) -> None:
            raise LookupError("no such thing")

    desk = Desk()
    wire = Wire(loop, desk)
    wire.receive(GET % b"")
    desk.seen[0].listener = Broken()
    with caplog.at_level(logging.ERROR, "hedgerow.http"):
        wire.connection.connection_lost(None)
    assert caplog.messages == ["a listener of the client's connection failed"]
    assert wire.shared.connections == set()


def test_a_client_that_leaves_with_an_unfinished_request_is_not_answered(loop: asyncio.AbstractEventLoop) -> None:
    wire = Wire(loop, Desk(echo))
    wire.receive(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
    wire.connection.eof_received()
    assert wire.written == b""


# Time


def test_a_slow_head_is_answered_with_408(loop: asyncio.AbstractEventLoop) -> None:
    wire = Wire(loop, Desk(echo), Limits(header_timeout=10.0))
    wire.at(5.0)
    wire.receive(b"GET / HT")
    assert wire.at(14.0) == b""
    wire.receive(b"TP/1.1\r\n")
    assert wire.at(14.9) == b""
    assert wire.at(15.0) == LATE_HEAD
    assert wire.transport.ended == "eof"


def test_a_silent_body_is_answered_with_408(loop: asyncio.AbstractEventLoop) -> None:
    wire = Wire(loop, Desk(echo), Limits(body_timeout=60.0, body_rate=1))
    wire.receive(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5000\r\n\r\n" + b"x" * 100)
    assert wire.at(59.0) == b""
    wire.receive(b"x" * 100)
    assert wire.at(118.9) == b""
    assert wire.at(119.0) == LATE_BODY


def test_a_body_that_only_trickles_is_answered_with_408(loop: asyncio.AbstractEventLoop) -> None:
    wire = Wire(loop, Desk(echo), Limits(body_timeout=60.0, body_rate=1000))
    wire.receive(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n")
    for second in range(10, 70, 10):
        wire.receive(b"x" * 1000)
        assert wire.at(float(second)) == b""
    assert wire.at(66.0) == LATE_BODY


def test_a_body_behind_a_long_answer_has_its_whole_time(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk()
    wire = Wire(loop, desk, Limits(body_timeout=60.0))
    wire.receive(GET % b"1" + b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhe")
    wire.at(1000.0)
    echo(desk.seen[0])
    assert wire.at(1059.9) == plain(b"200 OK", b"GET /1 ")
    assert wire.at(1060.0) == plain(b"200 OK", b"GET /1 ") + LATE_BODY


def test_an_idle_connection_is_closed_without_a_word(loop: asyncio.AbstractEventLoop) -> None:
    wire = Wire(loop, Desk(echo), Limits(idle_timeout=75.0))
    wire.at(74.0)
    wire.receive(GET % b"1")
    answer = plain(b"200 OK", b"GET /1 ")
    assert (wire.at(148.9), wire.transport.ended) == (answer, "")
    assert (wire.at(149.0), wire.transport.ended) == (answer, "closed")


def test_a_request_in_progress_has_no_deadline(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk()
    wire = Wire(loop, desk)
    wire.receive(GET % b"1")
    wire.at(1e9)
    assert wire.transport.ended == ""


def test_a_client_that_takes_nothing_is_dropped_and_its_handler_told(loop: asyncio.AbstractEventLoop) -> None:
    desk, ears = Desk(), Ears()
    wire = Wire(loop, desk, Limits(write_timeout=60.0))
    wire.receive(GET % b"")
    desk.seen[0].listener = ears
    desk.seen[0].start(200, TEXT)
    wire.transport.unsent = 70_000
    wire.connection.pause_writing()
    wire.transport.unsent = 69_000  # it still reads
    wire.at(60.0)
    wire.at(119.0)
    assert wire.transport.ended == ""
    wire.at(120.0)
    assert wire.transport.ended == "aborted"
    wire.connection.connection_lost(None)
    assert ears.heard == ["pause", "disconnect"]


def test_a_closed_connection_lingers_only_a_moment(loop: asyncio.AbstractEventLoop) -> None:
    wire = Wire(loop, Desk(echo))
    wire.receive(b"GET / HTTP/1.0\r\n\r\n", b"ignored")
    wire.at(0.9)
    assert wire.transport.ended == "eof"
    wire.at(1.0)
    assert wire.transport.ended == "aborted"


def test_a_slow_reader_has_its_time_for_a_last_answer(loop: asyncio.AbstractEventLoop) -> None:
    wire = Wire(loop, Desk(echo), Limits(write_timeout=60.0))
    wire.transport.after_write = wire.connection.pause_writing
    wire.transport.unsent = 70_000
    wire.receive(b"GET / HTTP/1.0\r\n\r\n")
    wire.at(59.0)
    assert wire.transport.ended == "eof"
    wire.connection.resume_writing()
    wire.transport.unsent = 0
    wire.at(60.0)
    assert wire.transport.ended == "aborted"


def test_sweeps_are_never_early() -> None:
    async def main() -> None:
        server = Server(Desk(), limits=Limits(idle_timeout=75.0))
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(0)
        for later in (74.0, 75.5):
            server.sweep(now + later)
        (connection,) = _connections(server)
        assert not connection.transport.is_closing()
        server.sweep(now + 76.0)
        assert connection.transport.is_closing()
        assert await client.rest() == b""
        await server.close()

    run(main())


@pytest.mark.parametrize("name", LOOPS)
def test_the_server_keeps_its_own_time(name: str) -> None:
    async def main() -> bytes:
        server = Server(Desk(), limits=Limits(header_timeout=0.02, idle_timeout=0.02))
        await server.start("127.0.0.1", 0)
        silent, slow = await Client.connect(server), await Client.connect(server)
        slow.send(b"GET")
        assert await silent.rest() == b""
        answer = await slow.rest()
        await server.close()
        return answer

    assert run(main(), name) == LATE_HEAD


@pytest.mark.parametrize("field", Limits.__slots__)
def test_limits_must_be_positive(field: str) -> None:
    with pytest.raises(ValueError, match=f"limits.{field} must be greater than 0"):
        Limits(**{field: 0})


# TLS


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.mark.parametrize("name", LOOPS)
def test_tls_serves_answers_and_hears_disconnects(name: str, authority: trustme.CA, tmp_path: Path) -> None:
    issued = authority.issue_cert("127.0.0.1")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)

    async def main() -> None:
        desk = Desk()
        server = Server(desk, ssl=server_ssl_context(tmp_path / "cert.pem", tmp_path / "key.pem"))
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server, ssl=trusting)
        client.send(GET % b"1" + GET % b"2")
        echo(await desk.until(1))
        await client.expect(plain(b"200 OK", b"GET /1 "))
        ears = Ears()
        (await desk.until(2)).listener = ears
        client.leave()
        await ears.until("disconnect")
        last = await Client.connect(server, ssl=trusting)
        last.send(b"GET /3 HTTP/1.0\r\n\r\n")
        echo(await desk.until(3))
        assert await last.rest() == plain(b"200 OK", b"GET /3 ", close=True)
        assert await server.drain(1.0)

    run(main(), name)


def test_an_unusable_certificate_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("nonsense")
    for cert in ("cert.pem", "absent.pem"):
        with pytest.raises(ConfigError, match=f"{cert} with key .* cannot be used"):
            server_ssl_context(tmp_path / cert, tmp_path / "key.pem")


def test_ports_can_be_shared() -> None:
    async def main() -> None:
        first, second = Server(Desk(echo)), Server(Desk(echo))
        await first.start("127.0.0.1", 0, reuse_port=True)
        await second.start("127.0.0.1", first.port, reuse_port=True)
        assert first.port == second.port
        with pytest.raises(OSError, match="in use"):
            await Server(Desk()).start("127.0.0.1", first.port)
        await first.close()
        await second.close()
        await second.close()
        with pytest.raises(RuntimeError, match="does not listen"):
            _ = first.port

    run(main())


def test_a_peer_on_ipv6_is_named_in_brackets(loop: asyncio.AbstractEventLoop) -> None:
    assert Wire(loop, Desk(), peer=("::1", 80, 0, 0)).connection.peer == "[::1]:80"


def _connections(server: Server) -> list[Connection]:
    assert server._shared is not None
    return list(server._shared.connections)


def _turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()
