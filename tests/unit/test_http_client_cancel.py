"""Giving up and slowing down: cancel in every phase, 10,000 of them, pause and resume."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections import Counter
from collections.abc import Iterator

from hedgerow.events import Headers
from hedgerow.http.client import Origin, Pool, PoolSettings
from hedgerow.http.client_call import ClientCall
from tests.descriptors import open_sockets
from tests.unit.client_support import OK, Peer, Recorder, Server, ask, on_both_loops, until

HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"
FRUGAL = PoolSettings(redial=False)


async def silent(peer: Peer) -> None:
    await peer.request()
    await peer.closed()


async def half(peer: Peer) -> None:
    await peer.request()
    peer.write(HEAD + b"some")
    await peer.closed()


def cancel(sink: Recorder) -> None:
    assert sink.call is not None
    sink.call.cancel()
    sink.call.cancel()  # again: no-op


@on_both_loops
async def test_cancel_before_the_answer_closes_the_connection_at_once() -> None:
    async with Server(silent) as server:
        pool = server.pool(FRUGAL)
        sink = ask(pool)
        await until(lambda: server.peers != [] and server.peers[0].requests == 1)
        cancel(sink)
        assert (pool.open, pool.busy) == (0, 0)
        await until(lambda: server.open == 0)
        assert (sink.status, sink.ends) == (None, 0)
        await pool.close()
        assert sink.ends == 0


@on_both_loops
async def test_cancel_in_mid_body_closes_the_connection_at_once() -> None:
    async with Server(half) as server:
        pool = server.pool(FRUGAL)
        sink = ask(pool)
        await sink.moved.wait()
        cancel(sink)
        await until(lambda: server.open == 0)
        assert (sink.body, sink.ends, pool.open) == (b"some", 0, 0)
        await pool.close()


class Quitter(Recorder):
    """Cancels its own call from within a callback."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.where = where

    def on_head(self, status: int, headers: Headers) -> None:
        super().on_head(status, headers)
        if self.where == "on_head":
            cancel(self)

    def on_data(self, data: bytes) -> None:
        super().on_data(data)
        cancel(self)


@on_both_loops
async def test_cancel_from_within_a_callback_silences_the_rest_of_the_read() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        chunks = b"".join(b"1\r\n%d\r\n" % (n % 10) for n in range(100))
        peer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n")
        await peer.closed()

    async def quit_in(where: str) -> Quitter:
        async with Server(script) as server:
            pool = server.pool(FRUGAL)
            sink = Quitter(where)
            ask(pool, sink)
            await until(lambda: sink.status is not None and server.open == 0)
            assert pool.open == 0
            await pool.close()
            return sink

    for where, pieces in (("on_head", []), ("on_data", [b"0"])):
        sink = await quit_in(where)
        assert (sink.status, sink.pieces, sink.ends) == (200, pieces, 0)


@on_both_loops
async def test_a_call_cancelled_in_a_callback_may_be_replaced_in_the_same_callback() -> None:
    class Replacer(Quitter):
        def on_head(self, status: int, headers: Headers) -> None:
            super().on_head(status, headers)
            ask(pool, self.next)

        next = Recorder()

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.write(HEAD + b"x" * 10 if peer.number == 0 else OK)
        await peer.closed()

    async with Server(script) as server:
        pool = server.pool(FRUGAL)
        sink = Replacer("on_head")
        sink.next = Recorder()
        ask(pool, sink)
        assert await sink.next.whole() == b"ok"
        assert (sink.pieces, sink.ends) == ([], 0)
        await pool.close()


@on_both_loops
async def test_cancel_leaves_the_queue() -> None:
    async with Server(silent) as server:
        pool = server.pool(PoolSettings(max_connections=1, redial=False))
        first, second, third = ask(pool), ask(pool), ask(pool)
        await until(lambda: server.open == pool.open == 1)
        cancel(second)
        assert pool.waiting == 1
        cancel(first)  # its slot goes to the third
        await until(lambda: len(server.peers) == 2 and server.peers[1].requests == 1)
        assert (pool.open, pool.waiting) == (1, 0)
        cancel(third)
        await pool.close()
        assert first.ends + second.ends + third.ends == 0


@on_both_loops
async def test_cancel_while_connecting_stops_the_dial_unless_redial_wants_the_connection() -> None:
    async with Server(silent) as server:
        pool = server.pool(FRUGAL)
        sink = ask(pool)
        await asyncio.sleep(0)
        assert (pool.connecting, pool.waiting) == (1, 1)
        cancel(sink)
        await until(lambda: pool.connecting == 0)
        assert (pool.open, pool.waiting, sink.ends) == (0, 0, 0)
        await pool.close()

        pool = server.pool()
        cancel(ask(pool))
        await until(lambda: pool.idle == 1)
        await pool.close()


@on_both_loops
async def test_cancel_of_a_dial_that_hangs_leaves_no_socket() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        pool = Pool(Origin("http", "127.0.0.1", listener.getsockname()[1]), FRUGAL)
        sinks = [ask(pool) for _ in range(10)]  # beyond the backlog the kernel answers no SYN
        for _ in range(5):
            await asyncio.sleep(0)
        assert pool.connecting > 0
        for sink in sinks:
            cancel(sink)
        await until(lambda: pool.connecting == 0)
        assert (pool.open, pool.waiting) == (0, 0)
        await pool.close()
        assert sum(sink.ends for sink in sinks) == 0


@on_both_loops
async def test_cancel_of_a_refused_call_before_it_is_told_silences_it() -> None:
    async with Server(silent) as server:
        pool = server.pool(PoolSettings(max_connections=1, max_waiting=0))
        ask(pool)
        refused = ask(pool)
        cancel(refused)
        await until(lambda: server.open == 1)
        assert refused.ends == 0
        await pool.close()


@on_both_loops
async def test_cancel_after_the_end_does_nothing() -> None:
    async with Server() as server:
        pool = server.pool()
        sink = ask(pool)
        await sink.whole()
        cancel(sink)
        assert (pool.idle, sink.ends) == (1, 1)
        await pool.close()


@on_both_loops
async def test_a_cancelled_connection_is_replaced_in_the_background_one_for_one() -> None:
    async with Server(silent) as server:
        pool = server.pool()
        sinks = [ask(pool) for _ in range(3)]
        await until(lambda: sum(peer.requests for peer in server.peers) == 3)
        cancel(sinks[0])
        await until(lambda: pool.idle == 1)
        assert (pool.open, pool.busy, len(server.peers)) == (3, 2, 4)
        ask(pool)
        assert (pool.idle, pool.connecting) == (0, 0)  # no handshake for the next request
        await pool.close()


@on_both_loops
async def test_a_replacement_that_cannot_be_opened_bothers_nobody() -> None:
    async with Server(silent) as server:
        pool = server.pool()
        sink = ask(pool)
        await until(lambda: server.open == 1 and server.peers[0].requests == 1)
        server._server.close()
        cancel(sink)
        assert pool.connecting == 1
        await until(lambda: pool.connecting == 0)
        assert (pool.open, pool.waiting, sink.ends) == (0, 0, 0)
        await pool.close()


def phase(sink: Recorder) -> str:
    call = sink.call
    assert isinstance(call, ClientCall)
    if sink.ends:
        return "over"
    if sink.status is not None:
        return "in mid answer"
    return "without a connection" if call.connection is None else "waiting for the answer"


@on_both_loops
async def test_ten_thousand_cancels_in_all_phases_leave_nothing_behind() -> None:
    answers: Iterator[bytes] = itertools.cycle([b"", OK, HEAD + b"some", b"HTTP/1.1 200"])

    async def script(peer: Peer) -> None:
        while True:
            await peer.request()
            peer.write(next(answers))

    async with Server(script) as server:
        pool = server.pool(PoolSettings(max_connections=15))
        sockets, tasks = open_sockets(), len(asyncio.all_tasks())
        phases: Counter[str] = Counter()
        told: list[tuple[Recorder, object]] = []
        for turn in range(500):
            batch = [ask(pool) for _ in range(20)]
            if turn % 3 == 1:
                await until(lambda: pool.busy > 0)
            elif turn % 3 == 2:
                await until(lambda: any(sink.status for sink in batch))  # noqa: B023 - awaited at once
            for sink in batch:
                phases[phase(sink)] += 1
                cancel(sink)
                told.append((sink, (sink.status, sink.body, sink.ends)))
        assert (phases.total(), len(phases)) == (10_000, 4)
        await until(lambda: pool.connecting == 0)
        assert (pool.busy, pool.waiting) == (0, 0)
        assert pool.idle == pool.open <= 15
        await until(lambda: server.open == pool.open)
        assert all((sink.status, sink.body, sink.ends) == then for sink, then in told)
        answers = itertools.repeat(OK)  # from now on it behaves
        assert await ask(pool).whole() == b"ok"
        await pool.close()
        await until(lambda: server.open == 0 and open_sockets() == sockets)
        await until(lambda: len(asyncio.all_tasks()) == tasks)


# --- back-pressure ---------------------------------------------------------------------------------------------------


async def flood(peer: Peer) -> None:
    while True:
        await peer.request()
        peer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 8000000\r\n\r\n" + bytes(8_000_000))


@on_both_loops
async def test_a_paused_call_reads_no_more_and_a_resumed_one_gets_everything() -> None:
    class Slow(Recorder):
        def on_head(self, status: int, headers: Headers) -> None:
            super().on_head(status, headers)
            assert self.call is not None
            self.call.pause()
            self.call.pause()

    async with Server(flood) as server:
        pool = server.pool()
        sink = Slow()
        ask(pool, sink)
        await sink.begun.wait()
        await asyncio.sleep(0)
        first = len(sink.body)
        await asyncio.sleep(0.05)
        assert len(sink.body) == first < 1_000_000
        assert not sink.ends
        assert sink.call is not None
        sink.call.resume()
        assert len(await sink.whole()) == 8_000_000
        await pool.close()


@on_both_loops
async def test_a_call_paused_before_it_has_a_connection_starts_paused() -> None:
    async with Server() as server:
        pool = server.pool()
        sink = ask(pool)
        assert sink.call is not None
        sink.call.pause()
        await until(lambda: server.peers != [] and server.peers[0].requests == 1)
        await asyncio.sleep(0.03)
        assert sink.status is None
        sink.call.resume()
        assert await sink.whole() == b"ok"
        await pool.close()


@on_both_loops
async def test_a_call_that_ends_paused_leaves_its_connection_reading() -> None:
    class Pausing(Recorder):
        def on_data(self, data: bytes) -> None:
            super().on_data(data)
            assert self.call is not None
            self.call.pause()

    async with Server() as server:
        pool = server.pool()
        for _ in range(3):
            sink = Pausing()
            ask(pool, sink)
            assert await sink.whole() == b"ok"
            assert sink.call is not None
            sink.call.resume()
        assert len(server.peers) == 1
        await pool.close()


@on_both_loops
async def test_a_paused_call_can_be_cancelled() -> None:
    async with Server(flood) as server:
        pool = server.pool(FRUGAL)
        sink = ask(pool)
        await sink.begun.wait()
        assert sink.call is not None
        sink.call.pause()
        cancel(sink)
        sink.call.resume()
        sink.call.pause()
        await until(lambda: server.open == 0)
        assert sink.ends == 0
        await pool.close()
