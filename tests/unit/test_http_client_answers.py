"""How answers are framed, and what is done about those that are not HTTP."""

from __future__ import annotations

import asyncio

import pytest

from hedgerow.errors import UpstreamClosed, UpstreamError, UpstreamProtocolError
from hedgerow.events import Headers
from tests.unit.client_support import OK, Peer, Recorder, Server, ask, on_both_loops, until


def say(*pieces: bytes, close: bool = False) -> Server:
    """A server that gives the same answer to every request."""

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            for piece in pieces:
                peer.write(piece)
                await peer.writer.drain()
            if close:
                return

    return Server(script)


@on_both_loops
async def test_an_answer_with_a_length_is_told_in_order_and_the_connection_is_kept() -> None:
    async with say(b"HTTP/1.1 200 OK\r\nX-Thing:  a b \r\nEmpty:\r\nContent-Length: 5\r\n\r\nhello") as server:
        pool = server.pool()
        sink = ask(pool)
        assert await sink.whole() == b"hello"
        assert (sink.status, sink.headers) == (
            200,
            [(b"x-thing", b"a b"), (b"empty", b""), (b"content-length", b"5")],
        )
        assert (pool.open, pool.idle, pool.busy, pool.waiting, pool.connecting) == (1, 1, 0, 0, 0)
        await pool.close()
        assert (pool.open, pool.idle) == (0, 0)


@on_both_loops
async def test_on_end_finds_the_connection_back_in_the_pool() -> None:
    class Second(Recorder):
        def on_end(self) -> None:
            super().on_end()
            assert pool.idle == 1
            self.next = ask(pool)

    async with say(OK) as server:
        pool = server.pool()
        first = Second()
        ask(pool, first)
        await first.whole()
        assert await first.next.whole() == b"ok"
        assert len(server.peers) == 1
        await pool.close()


CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@on_both_loops
async def test_chunks_are_told_without_their_framing_and_trailers_are_dropped() -> None:
    async with say(CHUNKED + b"3\r\nabc\r\n", b"2;x=y\r\nde\r\n0\r\nafter: 1\r\n\r\n") as server:
        pool = server.pool()
        for _ in range(2):
            sink = ask(pool)
            assert await sink.whole() == b"abcde"
            assert sink.headers == [(b"transfer-encoding", b"chunked")]
        assert len(server.peers) == 1
        await pool.close()


@on_both_loops
async def test_a_body_without_length_ends_with_the_connection() -> None:
    async with say(b"HTTP/1.1 200 OK\r\n\r\nuntil ", b"close", close=True) as server:
        pool = server.pool()
        assert await ask(pool).whole() == b"until close"
        assert pool.open == 0
        assert await ask(pool).whole() == b"until close"
        await pool.close()


@on_both_loops
async def test_a_body_in_another_last_coding_ends_with_the_connection() -> None:
    async with say(b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\n\r\nzz", close=True) as server:
        pool = server.pool()
        assert await ask(pool).whole() == b"zz"
        await pool.close()


@on_both_loops
async def test_a_body_without_length_that_is_reset_is_not_whole() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.write(b"HTTP/1.1 200 OK\r\n\r\npart")
        await peer.request()  # never comes
        raise AssertionError

    async with Server(script) as server:
        pool = server.pool()
        sink = ask(pool)
        await sink.moved.wait()
        sock = server.peers[0].writer.get_extra_info("socket")
        sock.setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER 0: close sends a reset
        server.peers[0].reset()
        assert isinstance(await sink.failure(), UpstreamClosed)
        assert sink.body == b"part"
        await pool.close()


@on_both_loops
async def test_204_and_304_have_no_body_whatever_their_length_says() -> None:
    for status in (b"204", b"304"):
        async with say(b"HTTP/1.1 " + status + b" X\r\ncontent-length: 5\r\n\r\n") as server:
            pool = server.pool()
            assert await ask(pool).whole() == b""
            assert await ask(pool).whole() == b""
            assert len(server.peers) == 1
            await pool.close()


@on_both_loops
async def test_the_answer_to_head_has_no_body() -> None:
    async with say(b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n") as server:
        pool = server.pool()
        for _ in range(2):
            sink = Recorder()
            pool.send(sink, b"HEAD / HTTP/1.1\r\nhost: x\r\n\r\n", b"", method=b"HEAD")
            assert await sink.whole() == b""
            assert (b"content-length", b"500") in sink.headers
        await pool.close()


@on_both_loops
async def test_interim_answers_are_not_shown() -> None:
    interim = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"
    async with say(interim, OK) as server:
        pool = server.pool()
        sink = ask(pool)
        assert await sink.whole() == b"ok"
        assert sink.headers == [(b"content-length", b"2")]
        assert pool.idle == 1
        await pool.close()


@pytest.mark.parametrize("early", [False, True])
def test_connections_are_kept_or_not_as_the_answer_says(early: bool) -> None:
    cases = [
        (b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", False),
        (b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 2\r\n\r\nok", True),
        (b"HTTP/1.1 200 OK\r\nconnection: Keep-Alive\r\ncontent-length: 2\r\n\r\nok", True),
        (OK + b"HTTP/1.1 200 OK\r\n", False),
        (OK + b"garbage", False),
    ]

    async def check() -> None:
        for answer, kept in cases:
            async with say(answer[:30], answer[30:]) if early else say(answer) as server:
                pool = server.pool()
                assert await ask(pool).whole() == b"ok"
                await asyncio.sleep(0)
                assert (answer, pool.idle) == (answer, int(kept))
                await pool.close()

    asyncio.run(check())


@on_both_loops
async def test_surplus_bytes_of_one_answer_never_become_the_next_one() -> None:
    class Second(Recorder):
        def on_end(self) -> None:
            super().on_end()
            self.next = ask(pool)

    poison = b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison"

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.write(OK + poison if peer.number == 0 else OK)
        await peer.closed()

    async with Server(script) as server:
        pool = server.pool()
        first = Second()
        ask(pool, first)
        assert await first.whole() == b"ok"
        assert await first.next.whole() == b"ok"
        assert len(server.peers) == 2
        await pool.close()


@on_both_loops
async def test_bytes_on_an_idle_connection_drop_it() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.write(OK)
        await peer.writer.drain()
        await asyncio.sleep(0.01)
        peer.write(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        await peer.closed()

    async with Server(script) as server:
        pool = server.pool()
        await ask(pool).whole()
        await until(lambda: pool.open == 0)
        assert await ask(pool).whole() == b"ok"
        await pool.close()


PROTOCOL_FAULTS = {
    "another protocol": b"SSH-2.0-OpenSSH_9.2\r\n",
    "bad chunk size": CHUNKED + b"zz\r\nab\r\n",
    "chunk size overflow": CHUNKED + b"fffffffffffffffff\r\n",
    "blank after chunk size": CHUNKED + b"2 \r\nab\r\n",
    "bare line feeds in chunks": CHUNKED + b"2\nab\n",
    "bare line feeds in the head": b"HTTP/1.1 200 OK\ncontent-length: 1\n\na",
    "length and chunked": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 4\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\na",
    "blank in a header name": b"HTTP/1.1 200 OK\r\nbad name: 1\r\n\r\n",
    "NUL in a header value": b"HTTP/1.1 200 OK\r\nname: \x00\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 S\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "status below 100": b"HTTP/1.1 099 Odd\r\ncontent-length: 1\r\n\r\na",
    "a head over the limit": b"HTTP/1.1 200 OK\r\n" + b"x: %b\r\n" % (b"y" * 1000) * 70,
    "a header over the limit": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000,
    "endless interim answers": b"HTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n" * 5_000,
}


@pytest.mark.parametrize("fault", PROTOCOL_FAULTS)
def test_bytes_that_are_not_http_are_a_protocol_error_and_end_the_connection(fault: str) -> None:
    async def check() -> None:
        async with say(PROTOCOL_FAULTS[fault]) as server:
            pool = server.pool()
            sink = ask(pool)
            error = await sink.failure()
            assert isinstance(error, UpstreamProtocolError)
            assert f"127.0.0.1:{server.port}" in str(error)
            assert pool.open == 0
            await pool.close()

    asyncio.run(check())


@on_both_loops
async def test_a_head_just_under_the_limit_passes_even_in_one_read() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 70000\r\nx: " + b"y" * 65_000 + b"\r\n\r\n"
    async with say(head + b"z" * 70_000) as server:
        pool = server.pool()
        assert await ask(pool).whole() == b"z" * 70_000
        await pool.close()


@on_both_loops
async def test_a_close_in_mid_answer_is_upstream_closed() -> None:
    partial = [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\npart", CHUNKED + b"4\r\npart\r\n", b"HTTP/1.1 200"]
    for answer in partial:
        async with say(answer, close=True) as server:
            pool = server.pool()
            sink = ask(pool)
            assert type(await sink.failure()) is UpstreamClosed
            assert len(server.peers) == 1
            await pool.close()


@on_both_loops
async def test_an_answer_before_the_upload_is_over_is_delivered_and_the_connection_closed() -> None:
    async def script(peer: Peer) -> None:
        await peer.reader.readexactly(1000)
        peer.write(b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 3\r\n\r\nbig")
        await peer.writer.drain()
        await asyncio.Event().wait()  # reads no more, closes nothing

    async with Server(script) as server:
        pool = server.pool()
        sink = ask(pool, body=bytes(50_000_000))
        assert await sink.whole() == b"big"
        assert (sink.status, pool.open, pool.idle) == (413, 0, 0)
        await pool.close()


@on_both_loops
async def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * 20_000
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        while True:
            seen.append((await peer.request())[1])
            peer.write(OK)

    async with Server(script) as server:
        pool = server.pool()
        for _ in range(2):
            assert await ask(pool, body=body).whole() == b"ok"
        assert seen == [body, body]
        assert len(server.peers) == 1
        await pool.close()


class Failing(Recorder):
    """A sink that raises in one of its methods."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def on_head(self, status: int, headers: Headers) -> None:
        super().on_head(status, headers)
        if self.where == "on_head":
            raise RuntimeError("boom")

    def on_data(self, data: bytes) -> None:
        super().on_data(data)
        if self.where == "on_data":
            raise RuntimeError("boom")

    def on_end(self) -> None:
        super().on_end()
        if self.where == "on_end":
            raise RuntimeError("boom")


@pytest.mark.parametrize("where", ["on_head", "on_data", "on_end"])
def test_a_sink_that_raises_is_logged_and_ends_its_own_call_only(where: str, caplog: pytest.LogCaptureFixture) -> None:
    async def check() -> None:
        async with say(OK) as server:
            pool = server.pool()
            sink = Failing(where)
            ask(pool, sink)
            if where == "on_end":
                assert await sink.whole() == b"ok"
            else:
                error = await sink.failure()
                assert type(error) is UpstreamError
                assert "RuntimeError" in str(error)
            assert await ask(pool).whole() == b"ok"
            await pool.close()

    asyncio.run(check())
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert "boom" in caplog.text


def test_a_sink_that_raises_in_on_error_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class Hopeless(Recorder):
        def on_error(self, error: UpstreamError) -> None:
            super().on_error(error)
            raise RuntimeError("boom")

    async def check() -> None:
        async with say(b"nonsense") as server:
            pool = server.pool()
            sink = Hopeless()
            ask(pool, sink)
            await sink.failure()
            await pool.close()

    asyncio.run(check())
    assert "boom" in caplog.text
