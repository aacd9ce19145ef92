"""Well-formed requests and their answers: framing, order, persistence, misuse."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator

import pytest

from hedgerow.http.exchange import Exchange
from hedgerow.http.server import Server
from tests.unit.http_support import LOOPS, Client, Desk, Ears, Wire, echo, plain, refusal, run

TEXT = [(b"content-type", b"text/plain")]
GET = b"GET /%b HTTP/1.1\r\nHost: a\r\n\r\n"


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def stream(exchange: Exchange) -> None:
    exchange.start(200, TEXT)
    exchange.write(b"hello")
    exchange.write(b"")
    exchange.write(b" world")
    exchange.end()


@pytest.mark.parametrize("name", LOOPS)
def test_a_connection_serves_request_after_request(name: str) -> None:
    async def main() -> None:
        server = Server(Desk(echo))
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        for target in (b"1", b"2", b"3"):
            client.send(GET % target)
            await client.expect(plain(b"200 OK", b"GET /%b " % target))
        assert server.connections == 1
        client.leave()
        await server.close()
        assert server.connections == 0

    run(main(), name)


@pytest.mark.parametrize("name", LOOPS)
def test_pipelined_requests_are_begun_and_answered_in_order(name: str) -> None:
    async def main() -> None:
        desk = Desk()
        server = Server(desk)
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(GET % b"1" + GET % b"2" + b"POST /3 HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
        for number, target in enumerate((b"/1", b"/2", b"/3"), start=1):
            exchange = await desk.until(number)
            assert (exchange.target, len(desk.seen), server.in_flight) == (target, number, 1)
            exchange.respond(200, TEXT, target)
            await client.expect(plain(b"200 OK", target))
        assert server.in_flight == 0
        client.leave()
        await server.close()

    run(main(), name)


def test_a_thousand_pipelined_requests_are_answered_without_deep_recursion(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk()
    wire = Wire(loop, desk)
    wire.receive((GET % b"x") * 1000)
    desk.answer = echo
    echo(desk.seen[0])
    assert wire.written == plain(b"200 OK", b"GET /x ") * 1000


@pytest.mark.parametrize(
    ("method", "status", "written"),
    [
        (b"GET", 200, b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nhi"),
        (b"HEAD", 200, b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n"),
        (b"GET", 204, b"HTTP/1.1 204 No Content\r\ncontent-type: text/plain\r\n\r\n"),
        (b"GET", 304, b"HTTP/1.1 304 Not Modified\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\n"),
        (b"OPTIONS", 529, b"HTTP/1.1 529 Unknown\r\ncontent-type: text/plain\r\ncontent-length: 2\r\n\r\nhi"),
    ],
)
def test_a_whole_answer_has_the_framing_of_its_method_and_status(
    loop: asyncio.AbstractEventLoop, method: bytes, status: int, written: bytes
) -> None:
    wire = Wire(loop, Desk(lambda exchange: exchange.respond(status, TEXT, b"hi")))
    wire.receive(b"%b / HTTP/1.1\r\nHost: a\r\n\r\n" % method)
    assert wire.written == written
    wire.receive(b"%b / HTTP/1.1\r\nHost: a\r\n\r\n" % method)
    assert wire.written == written * 2


def test_an_answer_to_head_states_the_length_of_the_body_it_stands_for(loop: asyncio.AbstractEventLoop) -> None:
    fields = [(b"content-length", b"1234")]
    wire = Wire(loop, Desk(lambda exchange: exchange.respond(200, fields, b"")))
    wire.receive(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert wire.written == b"HTTP/1.1 200 OK\r\ncontent-length: 1234\r\n\r\n"


def test_hop_by_hop_fields_of_the_handler_are_dropped(loop: asyncio.AbstractEventLoop) -> None:
    fields = [(b"connection", b"close"), (b"transfer-encoding", b"chunked"), (b"content-length", b"7"), (b"a", b"b")]
    wire = Wire(loop, Desk(lambda exchange: exchange.respond(200, fields, b"hi")))
    wire.receive(GET % b"")
    assert wire.written == b"HTTP/1.1 200 OK\r\na: b\r\ncontent-length: 2\r\n\r\nhi"


def test_a_large_body_follows_its_head(loop: asyncio.AbstractEventLoop) -> None:
    body = b"x" * 200_000
    wire = Wire(loop, Desk(lambda exchange: exchange.respond(200, TEXT, body)))
    wire.receive(GET % b"")
    assert wire.written == plain(b"200 OK", body)


CHUNKS = b"5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("request_head", "head", "body", "ended"),
    [
        (b"GET / HTTP/1.1\r\nHost: a", b"transfer-encoding: chunked", CHUNKS, ""),
        (
            b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close",
            b"connection: close\r\ntransfer-encoding: chunked",
            CHUNKS,
            "eof",
        ),
        (b"GET / HTTP/1.0", b"connection: close", b"hello world", "eof"),
        (b"GET / HTTP/1.0\r\nConnection: keep-alive", b"connection: close", b"hello world", "eof"),
        (b"HEAD / HTTP/1.0\r\nConnection: keep-alive", b"connection: keep-alive", b"", ""),
    ],
)
def test_a_streamed_answer_has_the_framing_the_client_understands(
    loop: asyncio.AbstractEventLoop, request_head: bytes, head: bytes, body: bytes, ended: str
) -> None:
    wire = Wire(loop, Desk(stream))
    wire.receive(request_head + b"\r\n\r\n")
    assert wire.written == b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\n" + head + b"\r\n\r\n" + body
    assert wire.transport.ended == ended


def test_a_streamed_answer_with_a_length_is_sent_as_it_is(loop: asyncio.AbstractEventLoop) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.start(200, [(b"content-length", b"11")])
        exchange.write(b"hello ")
        exchange.write(b"world")
        exchange.end()

    wire = Wire(loop, Desk(handler))
    wire.receive(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert wire.written == (b"HTTP/1.1 200 OK\r\nconnection: keep-alive\r\ncontent-length: 11\r\n\r\nhello world")
    assert wire.transport.ended == ""


def test_http_1_0_closes_unless_asked_to_stay(loop: asyncio.AbstractEventLoop) -> None:
    wire = Wire(loop, Desk(echo))
    wire.receive(b"GET /1 HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n")
    assert wire.written == (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: keep-alive\r\ncontent-length: 7\r\n\r\nGET /1 "
    )
    wire.transport.written.clear()
    wire.receive(b"GET /2 HTTP/1.0\r\n\r\n", GET % b"ignored")
    assert wire.written == plain(b"200 OK", b"GET /2 ", close=True)
    assert wire.transport.ended == "eof"


def test_nothing_behind_a_last_request_is_answered(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk()
    wire = Wire(loop, desk)
    wire.receive(b"GET /1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" + GET % b"2", b"\x00", GET % b"3")
    echo(desk.seen[0])
    assert wire.written == plain(b"200 OK", b"GET /1 ", close=True)
    assert len(desk.seen) == 1


def test_the_handler_sees_the_request_as_it_was_sent(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk(echo)
    wire = Wire(loop, desk)
    wire.receive(
        b"\r\nPOST /a?b=c%20d HTTP/1.1\r\nHOST: x\r\nX-Twice: 1\r\nx-twice:  \t2 \t \r\nX-Empty:\r\n"
        b"X-Text: caf\xc3\xa9 \xff\r\nTransfer-Encoding: Chunked\r\n\r\n"
        b"5;name=value\r\nhello\r\n00a\r\n0123456789\r\n0\r\nX-Trailer: t\r\n\r\n"
    )
    (exchange,) = desk.seen
    assert (exchange.method, exchange.target, exchange.body) == (b"POST", b"/a?b=c%20d", b"hello0123456789")
    assert exchange.peer == "127.0.0.1:51234"
    assert exchange.headers == [
        (b"host", b"x"),
        (b"x-twice", b"1"),
        (b"x-twice", b"2"),
        (b"x-empty", b""),
        (b"x-text", b"caf\xc3\xa9 \xff"),
        (b"transfer-encoding", b"Chunked"),
    ]


POST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


def test_a_client_that_waits_for_it_is_told_to_continue(loop: asyncio.AbstractEventLoop) -> None:
    wire = Wire(loop, Desk(echo))
    wire.receive(POST + b"Expect: 100-Continue\r\n\r\n")
    assert wire.written == CONTINUE
    wire.receive(b"h", b"i")
    assert wire.written == CONTINUE + plain(b"200 OK", b"POST / hi")


@pytest.mark.parametrize(
    "head",
    [
        POST + b"Expect: 100-continue\r\n\r\nhi",
        b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
        b"POST / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n",
    ],
)
def test_a_client_that_cannot_be_waiting_is_not_told_to_continue(loop: asyncio.AbstractEventLoop, head: bytes) -> None:
    wire = Wire(loop, Desk(echo))
    wire.receive(head)
    assert b"100 Continue" not in wire.written


def test_continue_waits_for_the_answer_before_it(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk()
    wire = Wire(loop, desk)
    wire.receive(GET % b"1" + POST + b"Expect: 100-continue\r\n\r\n")
    assert wire.written == b""
    echo(desk.seen[0])
    assert wire.written == plain(b"200 OK", b"GET /1 ") + CONTINUE


@pytest.mark.parametrize(
    "framing", [b"Content-Length: 2\r\n\r\nhi", b"Transfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n"]
)
def test_an_upgrade_is_ignored_and_its_body_read(loop: asyncio.AbstractEventLoop, framing: bytes) -> None:
    desk = Desk(echo)
    wire = Wire(loop, desk)
    fields = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    wire.receive(b"POST /1 HTTP/1.1\r\nHost: a\r\n" + fields + framing + GET % b"2")
    assert wire.written == plain(b"200 OK", b"POST /1 hi") + plain(b"200 OK", b"GET /2 ")
    assert dict(desk.seen[0].headers)[b"upgrade"] == b"h2c"  # for whoever wants to refuse it


def test_an_upgrade_that_waits_for_continue_is_told_so(loop: asyncio.AbstractEventLoop) -> None:
    wire = Wire(loop, Desk(echo))
    wire.receive(POST + b"Connection: Upgrade\r\nUpgrade: h2c\r\nExpect: 100-continue\r\n\r\n")
    assert wire.written == CONTINUE
    wire.receive(b"hi")
    assert wire.written == CONTINUE + plain(b"200 OK", b"POST / hi")


def test_an_answer_after_its_end_is_a_mistake(loop: asyncio.AbstractEventLoop) -> None:
    desk = Desk()
    wire = Wire(loop, desk)
    wire.receive(GET % b"")
    (exchange,) = desk.seen
    before: list[Callable[[], None]] = [lambda: exchange.write(b"x"), exchange.end]
    again: list[Callable[[], None]] = [lambda: exchange.start(200, []), lambda: exchange.respond(200, [], b"")]
    for call in before:
        with pytest.raises(RuntimeError, match="before start"):
            call()
    exchange.start(200, TEXT)
    for call in again:
        with pytest.raises(RuntimeError, match="already started"):
            call()
    exchange.end()
    for call in before + again:
        with pytest.raises(RuntimeError, match="already ended"):
            call()
    exchange.abort()
    assert wire.transport.ended == ""


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb"])
def test_a_field_with_a_line_break_is_not_sent(loop: asyncio.AbstractEventLoop, value: bytes) -> None:
    desk = Desk()
    wire = Wire(loop, desk)
    wire.receive(GET % b"")
    with pytest.raises(ValueError, match="line break"):
        desk.seen[0].respond(200, [(b"x", value)], b"")
    assert wire.written == b""


def test_more_or_less_than_the_declared_length_breaks_the_answer_off(loop: asyncio.AbstractEventLoop) -> None:
    for body, problem in ((b"hello", "longer"), (b"h", "shorter")):
        desk = Desk()
        wire = Wire(loop, desk)
        wire.receive(GET % b"")
        (exchange,) = desk.seen
        exchange.start(200, [(b"content-length", b"2")])
        with pytest.raises(RuntimeError, match=problem):  # noqa: PT012  (either call may be the one)
            exchange.write(body)
            exchange.end()
        assert wire.transport.ended == "closed"


@pytest.mark.parametrize(
    ("version", "fields", "ended"),
    [(b"1.1", [], "closed"), (b"1.0", [(b"content-length", b"9")], "closed"), (b"1.0", [], "aborted")],
)
def test_an_aborted_answer_is_visibly_short(
    loop: asyncio.AbstractEventLoop, version: bytes, fields: list[tuple[bytes, bytes]], ended: str
) -> None:
    desk = Desk()
    ears = Ears()
    wire = Wire(loop, desk)
    wire.receive(b"GET / HTTP/%b\r\nHost: a\r\n\r\n" % version + GET % b"2")
    (exchange,) = desk.seen
    exchange.listener = ears
    exchange.start(200, fields)
    exchange.write(b"hello")
    exchange.abort()
    assert wire.transport.ended == ended
    assert not wire.written.endswith(b"0\r\n\r\n")
    assert ears.heard == []
    assert len(desk.seen) == 1


@pytest.mark.parametrize("name", LOOPS)
def test_an_abort_without_framing_resets_the_connection(name: str) -> None:
    async def main() -> None:
        desk = Desk()
        server = Server(desk)
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(b"GET / HTTP/1.0\r\n\r\n")
        exchange = await desk.until(1)
        exchange.start(200, TEXT)
        exchange.write(b"hello")
        await client.reader.readuntil(b"hello")
        exchange.abort()
        with pytest.raises(ConnectionResetError):
            await client.rest()
        client.leave()
        await server.close()

    run(main(), name)


def test_a_handler_that_raises_is_answered_with_500(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(exchange: Exchange) -> None:
        raise LookupError("no such thing")

    wire = Wire(loop, Desk(handler))
    with caplog.at_level(logging.ERROR, "hedgerow.http"):
        wire.receive(GET % b"")
    expected = refusal(b"500 Internal Server Error", b"Internal server error.")
    assert wire.written == expected.replace(b"content-length: 23\r\nconnection: close\r\n", b"content-length: 23\r\n")
    assert wire.transport.ended == ""
    assert caplog.messages == ["the request handler failed"]


def test_a_handler_that_raises_in_mid_answer_breaks_it_off(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(exchange: Exchange) -> None:
        exchange.start(200, TEXT)
        raise LookupError("no such thing")

    wire = Wire(loop, Desk(handler))
    with caplog.at_level(logging.ERROR, "hedgerow.http"):
        wire.receive(GET % b"")
    assert wire.transport.ended == "closed"
    assert caplog.messages == ["the request handler failed"]
