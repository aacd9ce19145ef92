"""Malformed and hostile requests: each is answered with exactly these bytes, and the handler never sees it."""

from __future__ import annotations

import logging

import pytest

from hedgerow.http.limits import Limits
from hedgerow.http.server import Server
from tests.unit.http_support import LOOPS, Client, Desk, echo, plain, refusal, run

MALFORMED = refusal(b"400 Bad Request", b"The request is not valid HTTP/1.1.")
NO_HOST = refusal(b"400 Bad Request", b"The request has no host field.")
TWO_HOSTS = refusal(b"400 Bad Request", b"The request has more than one host field.")
CODING = refusal(b"400 Bad Request", b"The only transfer-encoding known here is chunked.")
OLD_CODING = refusal(b"400 Bad Request", b"HTTP/1.0 has no transfer-encoding.")
VERSION = refusal(b"505 HTTP Version Not Supported", b"Only HTTP/1.1 and HTTP/1.0 are spoken here.")
METHOD = refusal(b"501 Not Implemented", b"This method is not supported.")
EXPECTATION = refusal(b"417 Expectation Failed", b"The only expectation known here is 100-continue.")
HEAD_SIZE = refusal(b"431 Request Header Fields Too Large", b"The request head is larger than 1000 bytes.")
BODY_SIZE = refusal(b"413 Content Too Large", b"The body is larger than 1000 bytes.")
FRAMING = refusal(b"413 Content Too Large", b"The body has too much chunk framing.")

LIMITS = Limits(header_bytes=1000, body_bytes=1000)

GET = b"GET / HTTP/1.1\r\nHost: a\r\n"
POST = b"POST / HTTP/1.1\r\nHost: a\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"

CASES = {
    # two opinions about the length
    "two equal content-lengths": (POST + b"Content-Length: 1\r\nContent-Length: 1\r\n\r\na", MALFORMED),
    "two different content-lengths": (POST + b"Content-Length: 1\r\ncontent-length: 30\r\n\r\na" + SMUGGLED, MALFORMED),
    "content-length list": (POST + b"Content-Length: 1, 1\r\n\r\na", MALFORMED),
    "content-length, then chunked": (
        POST + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
        MALFORMED,
    ),
    "chunked, then content-length": (
        POST + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n" + SMUGGLED,
        MALFORMED,
    ),
    "content-length in the trailers": (CHUNKED + b"0\r\nContent-Length: 3\r\n\r\n", MALFORMED),
    # lengths that are not numbers
    "content-length with a sign": (POST + b"Content-Length: +5\r\n\r\naaaaa", MALFORMED),
    "negative content-length": (POST + b"Content-Length: -1\r\n\r\n", MALFORMED),
    "hexadecimal content-length": (POST + b"Content-Length: 0x10\r\n\r\n", MALFORMED),
    "content-length with a gap": (POST + b"Content-Length: 1 0\r\n\r\n", MALFORMED),
    "empty content-length": (POST + b"Content-Length:\r\n\r\n", MALFORMED),
    "content-length beyond 64 bits": (POST + b"Content-Length: 99999999999999999999\r\n\r\n", MALFORMED),
    # codings
    "coding other than chunked": (POST + b"Transfer-Encoding: gzip\r\n\r\n", CODING),
    "chunked as the last of two codings": (POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", CODING),
    "chunked as the first of two codings": (POST + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", MALFORMED),
    "chunked twice": (POST + b"Transfer-Encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", MALFORMED),
    "quoted chunked": (POST + b'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n', CODING),
    "vertical tab before chunked": (POST + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", MALFORMED),
    "empty transfer-encoding": (POST + b"Transfer-Encoding:\r\n\r\n", MALFORMED),
    "chunked on HTTP/1.0": (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", OLD_CODING),
    # chunks
    "chunk size with a prefix": (CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n", MALFORMED),
    "negative chunk size": (CHUNKED + b"-5\r\nhello\r\n0\r\n\r\n", MALFORMED),
    "empty chunk size": (CHUNKED + b"\r\nhello\r\n0\r\n\r\n", MALFORMED),
    "chunk size with a blank": (CHUNKED + b"5 \r\nhello\r\n0\r\n\r\n", MALFORMED),
    "chunk size beyond 64 bits": (CHUNKED + b"fffffffffffffffff\r\nhello", MALFORMED),
    "chunk longer than it says": (CHUNKED + b"5\r\nhello!\r\n0\r\n\r\n", MALFORMED),
    "chunk size ended by LF": (CHUNKED + b"5\nhello\r\n0\r\n\r\n", MALFORMED),
    "chunk data ended by LF": (CHUNKED + b"5\r\nhello\n0\r\n\r\n", MALFORMED),
    "chunk extension with LF": (CHUNKED + b"5;a\nb\r\nhello\r\n0\r\n\r\n", MALFORMED),
    "chunk extension with NUL": (CHUNKED + b"5;\x00\r\nhello\r\n0\r\n\r\n", MALFORMED),
    "endless chunk extension": (CHUNKED + b"5;" + b"a" * 40_000, FRAMING),
    # fields
    "folded field": (GET + b"A: b\r\n c\r\n\r\n", MALFORMED),
    "blank before the first field": (b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", MALFORMED),
    "NUL in a value": (GET + b"A: b\x00c\r\n\r\n", MALFORMED),
    "NUL in a name": (GET + b"A\x00: b\r\n\r\n", MALFORMED),
    "bare CR in a value": (GET + b"A: b\rc\r\n\r\n", MALFORMED),
    "bare CR in a name": (GET + b"A\r: b\r\n\r\n", MALFORMED),
    "line ended by LF": (GET + b"A: b\n\r\n", MALFORMED),
    "head ended by LF": (GET + b"\n", MALFORMED),
    "blank before the colon": (POST + b"Content-Length : 5\r\n\r\nhello", MALFORMED),
    "empty name": (GET + b": b\r\n\r\n", MALFORMED),
    "field without a colon": (GET + b"A\r\n\r\n", MALFORMED),
    "bracket in a name": (GET + b"A(: b\r\n\r\n", MALFORMED),
    "no host": (b"GET / HTTP/1.1\r\nA: b\r\n\r\n", NO_HOST),
    "no host although the connection shall stay": (b"GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n", NO_HOST),
    "two equal hosts": (GET + b"Host: a\r\n\r\n", TWO_HOSTS),
    "two hosts on HTTP/1.0": (b"GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", TWO_HOSTS),
    # request lines
    "HTTP/0.9 without a version": (b"GET /\r\n\r\n", VERSION),
    "HTTP/0.9": (b"GET / HTTP/0.9\r\nHost: a\r\n\r\n", VERSION),
    "HTTP/1.2": (b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", VERSION),
    "HTTP/2.0 in HTTP/1 clothes": (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", VERSION),
    "HTTP/2.0 that asks to stay": (b"GET / HTTP/2.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", VERSION),
    "HTTP/2 preface": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", MALFORMED),
    "lower-case version": (b"GET / http/1.1\r\nHost: a\r\n\r\n", MALFORMED),
    "request line ended by LF": (b"GET / HTTP/1.1\nHost: a\r\n\r\n", MALFORMED),
    "blank in the target": (b"GET /a b HTTP/1.1\r\nHost: a\r\n\r\n", MALFORMED),
    "NUL in the target": (b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n", MALFORMED),
    "octet above 127 in the target": (b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", MALFORMED),
    "no target": (b"GET  HTTP/1.1\r\nHost: a\r\n\r\n", MALFORMED),
    "lower-case method": (b"get / HTTP/1.1\r\nHost: a\r\n\r\n", MALFORMED),
    "unknown method": (b"BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", MALFORMED),
    "method of WebDAV": (b"PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n", METHOD),
    "CONNECT": (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n\x16\x03\x01", METHOD),
    "RTSP": (b"DESCRIBE / RTSP/1.0\r\n\r\n", METHOD),
    "TLS on the plain port": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", MALFORMED),
    # limits and expectations
    "unknown expectation": (POST + b"Expect: 200-ok\r\nContent-Length: 5\r\n\r\n", EXPECTATION),
    "long target": (b"GET /" + b"a" * 1000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", HEAD_SIZE),
    "long value": (GET + b"A: " + b"b" * 990 + b"\r\n\r\n", HEAD_SIZE),
    "long value without an end": (GET + b"A: " + b"b" * 40_000, HEAD_SIZE),
    "long name without an end": (GET + b"a" * 40_000, HEAD_SIZE),
    "many fields": (GET + b"a:\r\n" * 260 + b"\r\n", HEAD_SIZE),
    "declared length too large": (POST + b"Content-Length: 1001\r\n\r\n", BODY_SIZE),
    "declared length too large, asking first": (
        POST + b"Expect: 100-continue\r\nContent-Length: 1001\r\n\r\n",
        BODY_SIZE,
    ),
    "chunks too large together": (CHUNKED + b"3e8\r\n" + b"a" * 1000 + b"\r\n1\r\na\r\n", BODY_SIZE),
    "chunk too large": (CHUNKED + b"ffffffffffffffff\r\n" + b"a" * 1001, BODY_SIZE),
}


@pytest.mark.parametrize("loop", LOOPS)
def test_hostile_requests_are_refused_byte_for_byte_and_never_reach_the_handler(loop: str) -> None:
    async def main() -> dict[str, bytes]:
        desk = Desk(echo)
        server = Server(desk, limits=LIMITS)
        await server.start("127.0.0.1", 0)
        answers = {}
        for name, (request, _) in CASES.items():
            client = await Client.connect(server)
            client.send(request)
            answers[name] = await client.rest()
        await server.close()
        assert desk.seen == []
        return answers

    answers = run(main(), loop)
    assert answers == {name: answer for name, (_, answer) in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_a_hostile_request_behind_a_good_one_is_refused_after_its_answer(name: str) -> None:
    request, answer = CASES[name]

    async def main() -> bytes:
        desk = Desk(echo)
        server = Server(desk, limits=LIMITS)
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(b"GET /good HTTP/1.1\r\nHost: a\r\n\r\n" + request)
        received = await client.rest()
        await server.close()
        assert [exchange.target for exchange in desk.seen] == [b"/good"]
        return received

    assert run(main()) == plain(b"200 OK", b"GET /good ") + answer


def test_error_bodies_can_be_given() -> None:
    async def main() -> bytes:
        server = Server(
            Desk(),
            error_body=lambda status, message: (b"application/json", b'{"%d": "%b"}' % (status, message.encode())),
        )
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(b"GET / HTTP/1.1\r\n\r\n")
        received = await client.rest()
        await server.close()
        return received

    assert run(main()) == (
        b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 41\r\nconnection: close\r\n\r\n"
        b'{"400": "The request has no host field."}'
    )


def test_a_refusal_reaches_a_client_that_is_still_uploading() -> None:
    async def main() -> bytes:
        server = Server(Desk(), limits=LIMITS)
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(POST + b"Content-Length: 8000000\r\n\r\n" + b"a" * 8_000_000)
        received = await client.rest()
        await server.close()
        return received

    assert run(main()) == BODY_SIZE


def test_what_was_malformed_is_logged_for_the_operator_only(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        server = Server(Desk())
        await server.start("127.0.0.1", 0)
        client = await Client.connect(server)
        client.send(GET + b"A : b\r\n\r\n")
        await client.rest()
        await server.close()

    with caplog.at_level(logging.DEBUG, "hedgerow.http"):
        run(main())
    assert caplog.messages == ["malformed request: Invalid header token"]
