"""The scripted upstream does what its script says, as a plain socket sees it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from tests.cases.case import UpstreamScript
from tests.cases.upstream import Upstream

pytestmark = pytest.mark.e2e

REQUEST = b"POST /v1/x HTTP/1.1\r\nX-Case-Run: r1\r\ncontent-length: 2\r\n\r\nhi"
HEAD = b"HTTP/1.1 200 OK\r\nx-a: b\r\ntransfer-encoding: chunked\r\n\r\n"


def script(**fields: Any) -> UpstreamScript:
    return msgspec.convert({"headers": [["x-a", "b"]], **fields}, UpstreamScript)


class Peer:
    """A connection to an upstream, and the pieces it got with the milliseconds since the request."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, length: int = -1) -> bytes:
        """Send the request; so many bytes of what comes, all until the end by default."""
        self.writer.write(REQUEST)
        return await (self.reader.read() if length < 0 else self.reader.readexactly(length))


async def peer(upstream: Upstream) -> Peer:
    return Peer(*await asyncio.open_connection("127.0.0.1", upstream.port))


def talk(one: UpstreamScript, length: int = -1, *, times: int = 1) -> tuple[list[bytes], Upstream]:
    """Ask an upstream with this script so many times on one connection, which is then closed."""

    async def main() -> tuple[list[bytes], Upstream]:
        async with asyncio.timeout(10):
            upstream = Upstream("primary")
            await upstream.begin(one)
            client = await peer(upstream)
            try:
                answers = [await client.ask(length) for _ in range(times)]
            finally:
                client.writer.close()
                await asyncio.sleep(0.05)
                await upstream.close()
            return answers, upstream

    return asyncio.run(main())


def test_each_piece_is_a_chunk_of_its_own_and_a_clean_end_keeps_the_connection() -> None:
    one = script(chunks=[[5, "a"], [0, "b64", "/w=="], [1, "repeat", "xy", 2]])
    body = b"1\r\na\r\n" + b"1\r\n\xff\r\n" + b"4\r\nxyxy\r\n" + b"0\r\n\r\n"
    answers, upstream = talk(one, len(HEAD + body), times=2)
    assert answers == [HEAD + body] * 2
    assert [(seen.run, seen.body, seen.reused) for seen in upstream.seen] == [("r1", b"hi", False), ("r1", b"hi", True)]
    assert all(seen.closed_at is not None for seen in upstream.seen)


def test_a_given_length_takes_the_place_of_chunks() -> None:
    one = script(status=418, headers=[["content-length", "2"]], chunks=[[0, "ab"]])
    head = b"HTTP/1.1 418 I'm a Teapot\r\ncontent-length: 2\r\n\r\n"
    answers, _ = talk(one, len(head) + 2)
    assert answers == [head + b"ab"]


def test_delays_are_kept_and_do_not_add_up() -> None:
    async def main() -> float:
        upstream = Upstream("primary")
        await upstream.begin(script(header_delay_ms=50, chunks=[[10, "a"]] * 10))
        client = await peer(upstream)
        loop = asyncio.get_running_loop()
        start = loop.time()
        await client.ask(len(HEAD) + 10 * len(b"1\r\na\r\n"))
        took = loop.time() - start
        client.writer.close()
        await upstream.close()
        return took

    assert 0.149 <= asyncio.run(main()) < 0.4


def test_a_reset_comes_after_the_last_piece_and_leaves_the_body_unfinished() -> None:
    piece = b"1\r\na\r\n"
    answers, _ = talk(script(chunks=[[0, "a"]], end="reset"), len(HEAD + piece))
    assert answers == [HEAD + piece]
    with pytest.raises(ConnectionResetError):
        talk(script(chunks=[[0, "a"]], end="reset"))


def test_a_hang_says_nothing_more() -> None:
    piece = b"1\r\na\r\n"
    with pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(_hang(len(HEAD + piece) + 1), 0.3))


async def _hang(length: int) -> None:
    upstream = Upstream("primary")
    await upstream.begin(script(chunks=[[0, "a"]], end="hang"))
    client = await peer(upstream)
    try:
        await client.ask(length)
    finally:
        client.writer.close()
        await upstream.close()


def test_a_reused_connection_may_be_closed_without_a_response() -> None:
    one = script(on_reused_connection="close_without_response")
    end = b"0\r\n\r\n"
    with pytest.raises(asyncio.IncompleteReadError) as error:
        talk(one, len(HEAD + end), times=2)
    assert error.value.partial == b""


def test_the_first_request_may_be_closed_without_a_response() -> None:
    answers, _ = talk(script(first_request="close_without_response"))
    assert answers == [b""]


def test_a_refused_connection_and_one_that_nobody_answers() -> None:
    async def main() -> None:
        upstream = Upstream("primary")
        await upstream.begin(script())
        port = upstream.port
        await upstream.begin(script(connect="refuse"))
        with pytest.raises(ConnectionRefusedError):
            await peer(upstream)
        await upstream.begin(script(connect="blackhole"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(peer(upstream), 0.3)
        await upstream.begin(script())
        client = await peer(upstream)
        assert await client.ask(len(HEAD)) == HEAD
        assert upstream.port == port
        client.writer.close()
        await upstream.close()

    asyncio.run(main())
