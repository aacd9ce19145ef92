"""Which connection a request gets: reuse, expiry, the cap and its queue, stale connections, closing."""

from __future__ import annotations

import asyncio
import socket

import pytest

from hedgerow.errors import ConnectFailed, PoolExhausted, UpstreamClosed, UpstreamError
from hedgerow.http.client import Origin, Pool, PoolSettings
from tests.unit.client_support import OK, Peer, Recorder, Server, answer_ok, ask, on_both_loops, until


class Gate:
    """A script whose requests are answered one by one, when the test says so."""

    def __init__(self) -> None:
        self.arrived: list[Peer] = []

    async def __call__(self, peer: Peer) -> None:
        while True:
            await peer.request()
            self.arrived.append(peer)

    async def reached(self, count: int) -> None:
        await until(lambda: len(self.arrived) >= count)

    def release(self, index: int) -> Peer:
        self.arrived[index].write(OK)
        return self.arrived[index]


# --- reuse -----------------------------------------------------------------------------------------------------------


@on_both_loops
async def test_requests_one_after_another_share_a_connection() -> None:
    async with Server() as server:
        pool = server.pool()
        for _ in range(5):
            assert await ask(pool).whole() == b"ok"
        assert [peer.requests for peer in server.peers] == [5]
        await pool.close()


@on_both_loops
async def test_the_warmest_connection_is_taken_first() -> None:
    gate = Gate()
    async with Server(gate) as server:
        pool = server.pool()
        sinks = [ask(pool) for _ in range(3)]
        await gate.reached(3)
        for index in (1, 2, 0):
            gate.release(index)
            await until(lambda: pool.idle == sum(sink.ends for sink in sinks))
            await asyncio.sleep(0.001)
        await asyncio.gather(*(sink.whole() for sink in sinks))
        warmest = gate.arrived[0]
        ask(pool)
        await gate.reached(4)
        assert gate.arrived[3] is warmest
        await pool.close()


@on_both_loops
async def test_idle_connections_expire_and_fresh_ones_stay() -> None:
    async with Server() as server:
        pool = server.pool(PoolSettings(idle_timeout=0.5))
        await asyncio.gather(*(ask(pool).whole() for _ in range(3)))
        await until(lambda: pool.idle == 3)  # one connection may have answered all three before the others were up
        while server.open > 1:
            await ask(pool).whole()
            await asyncio.sleep(0.02)
        assert pool.idle == 1
        await until(lambda: server.open == 0)
        assert (pool.open, pool.idle) == (0, 0)
        assert await ask(pool).whole() == b"ok"
        await pool.close()


def test_an_expired_connection_is_not_used_even_if_the_sweep_is_late() -> None:
    async def check() -> None:
        async with Server() as server:
            pool = server.pool(PoolSettings(idle_timeout=0.02))
            await ask(pool).whole()
            loop.late = 1.0  # timers have not fired yet, but it is a second later
            await ask(pool).whole()
            assert len(server.peers) == 2
            await pool.close()

    class LateLoop(asyncio.SelectorEventLoop):
        late = 0.0

        def time(self) -> float:
            return super().time() + self.late

    loop = LateLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        runner.run(check())


# --- when a request is sent -------------------------------------------------------------------------------------------


def sent_at(sink: Recorder) -> float | None:
    assert sink.call is not None
    return sink.call.sent_at


@on_both_loops
async def test_a_call_says_when_it_was_sent_and_nothing_while_it_waits_for_a_connection() -> None:
    gate, now = Gate(), asyncio.get_running_loop().time
    async with Server(gate) as server:
        pool = server.pool(PoolSettings(max_connections=1))
        asked = now()
        first, second = ask(pool), ask(pool)
        assert (sent_at(first), sent_at(second)) == (None, None)
        await gate.reached(1)
        assert asked <= (sent_at(first) or 0) <= now()
        assert sent_at(second) is None
        await asyncio.sleep(0.01)
        released = now()
        gate.release(0)
        await gate.reached(2)
        assert released <= (sent_at(second) or 0) <= now()
        gate.release(1)
        await second.whole()
        warm = now()
        third = ask(pool)
        assert warm <= (sent_at(third) or 0) <= now()
        assert third.call is not None
        third.call.cancel()
        assert sent_at(third) is not None
        await pool.close()


@on_both_loops
async def test_a_call_that_is_sent_twice_says_when_the_second_was() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.write(OK)
        if peer.number == 0:
            await peer.request()
            await asyncio.sleep(0.01)

    async with Server(script) as server:
        pool = server.pool()
        await ask(pool).whole()
        twice = ask(pool)
        before = sent_at(twice)
        await twice.whole()
        assert [peer.requests for peer in server.peers] == [2, 1]
        assert before is not None
        assert (sent_at(twice) or 0) > before
        await pool.close()


# --- the cap and its queue -------------------------------------------------------------------------------------------


@on_both_loops
async def test_beyond_the_cap_requests_wait_in_order() -> None:
    gate = Gate()
    async with Server(gate) as server:
        pool = server.pool(PoolSettings(max_connections=2))
        sinks = [ask(pool) for _ in range(5)]
        await gate.reached(2)
        assert (pool.open, pool.busy, pool.waiting) == (2, 2, 3)
        for done in range(5):
            gate.release(done)
            await sinks[done].whole()
            await gate.reached(min(5, done + 3))
        assert len(server.peers) == 2
        assert (pool.open, pool.idle, pool.waiting) == (2, 2, 0)
        await pool.close()


@on_both_loops
async def test_a_full_queue_refuses_with_the_keys_to_change() -> None:
    gate = Gate()
    async with Server(gate) as server:
        pool = server.pool(PoolSettings(max_connections=1, max_waiting=1))
        first, second, third = ask(pool), ask(pool), ask(pool)
        error = await third.failure()
        assert isinstance(error, PoolExhausted)
        assert str(error) == (
            f"all 1 connections to 127.0.0.1:{server.port} are busy and the queue is full: raise connections.max"
            " (now 1), connections.queue (1) or connections.queue_timeout (5 s), or add targets"
        )
        await gate.reached(1)
        gate.release(0)
        assert await first.whole() == b"ok"
        await gate.reached(2)
        gate.release(1)
        assert await second.whole() == b"ok"
        await pool.close()


@on_both_loops
async def test_waiting_ends_with_the_queue_timeout() -> None:
    gate = Gate()
    async with Server(gate) as server:
        pool = server.pool(PoolSettings(max_connections=1, queue_timeout=0.03))
        first = ask(pool)
        await gate.reached(1)
        late = [ask(pool), ask(pool)]
        for sink in late:
            error = await sink.failure()
            assert isinstance(error, PoolExhausted)
            assert "none came free within 0.03 s" in str(error)
        assert pool.waiting == 0
        gate.release(0)
        assert await first.whole() == b"ok"
        await pool.close()


@on_both_loops
async def test_no_queue_at_all_is_possible() -> None:
    gate = Gate()
    async with Server(gate) as server:
        pool = server.pool(PoolSettings(max_connections=1, max_waiting=0))
        ask(pool)
        assert isinstance(await ask(pool).failure(), PoolExhausted)
        await pool.close()


@on_both_loops
async def test_a_refused_dial_fails_each_waiter_in_turn_and_none_is_forgotten() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, not listening: refuses
        pool = Pool(Origin("http", "127.0.0.1", closed.getsockname()[1]), PoolSettings(max_connections=1))
        sinks = [ask(pool) for _ in range(3)]
        for error in await asyncio.gather(*(sink.failure() for sink in sinks)):
            assert isinstance(error, ConnectFailed)
        assert [sent_at(sink) for sink in sinks] == [None] * 3
        assert (pool.open, pool.waiting, pool.connecting) == (0, 0, 0)
        await pool.close()


@on_both_loops
async def test_a_connection_set_free_serves_a_request_that_is_still_dialling() -> None:
    gate = Gate()
    async with Server(gate) as server:
        pool = server.pool()
        ask(pool)
        await gate.reached(1)

        class Next(Recorder):
            def on_data(self, data: bytes) -> None:
                super().on_data(data)
                ask(pool, second)  # starts a dial, but this very connection comes free first

        first, second = Next(), Recorder()
        ask(pool, first)
        await gate.reached(2)
        gate.release(1)
        await first.whole()
        await gate.reached(3)
        assert gate.arrived[2] is gate.arrived[1]
        gate.release(2)
        assert await second.whole() == b"ok"
        await until(lambda: pool.connecting == 0)
        assert (pool.open, pool.idle) == (3, 2)
        await pool.close()


# --- stale connections -----------------------------------------------------------------------------------------------


def stale(*, after: bytes = b"", reset: bool = False) -> Server:
    """Every connection answers once; its second request gets `after` and then the end."""

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.write(OK)
        await peer.request()
        peer.write(after)
        await peer.writer.drain()
        if reset:
            peer.reset()

    return Server(script)


@on_both_loops
async def test_a_request_on_a_stale_connection_is_sent_once_more_on_a_fresh_one() -> None:
    for reset in (False, True):
        async with stale(reset=reset) as server:
            pool = server.pool()
            for _ in range(4):
                assert await ask(pool).whole() == b"ok"
            assert [peer.requests for peer in server.peers] == [2, 2, 2, 1]
            await pool.close()


@on_both_loops
async def test_a_spare_connection_can_go_stale_before_its_first_request() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 0:
            await peer.request()  # the first request is cancelled, and a spare connection opened
        if peer.number == 2:
            peer.write(OK)

    async with Server(script) as server:
        pool = server.pool()
        cancelled = ask(pool)
        await until(lambda: server.open == 1 and server.peers[0].requests == 1)
        assert cancelled.call is not None
        cancelled.call.cancel()
        await until(lambda: pool.idle == 1)
        assert await ask(pool).whole() == b"ok"
        assert [peer.requests for peer in server.peers] == [1, 1, 1]
        await pool.close()


@on_both_loops
async def test_a_fresh_connection_that_closes_without_an_answer_is_an_error_and_not_tried_again() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()

    async with Server(script) as server:
        pool = server.pool()
        error = await ask(pool).failure()
        assert isinstance(error, UpstreamClosed)
        assert str(error) == f"127.0.0.1:{server.port} closed the connection before its answer"
        assert len(server.peers) == 1
        await pool.close()


@on_both_loops
async def test_the_second_try_is_the_last() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        if peer.number == 0:
            peer.write(OK)
            await peer.request()

    async with Server(script) as server:
        pool = server.pool()
        await ask(pool).whole()
        assert isinstance(await ask(pool).failure(), UpstreamClosed)
        assert [peer.requests for peer in server.peers] == [2, 1]
        await pool.close()


@on_both_loops
async def test_after_one_byte_of_an_answer_nothing_is_sent_again() -> None:
    for byte in (b"H", b"\r"):
        async with stale(after=byte) as server:
            pool = server.pool()
            await ask(pool).whole()
            assert isinstance(await ask(pool).failure(), UpstreamClosed)
            assert len(server.peers) == 1
            await pool.close()


@on_both_loops
async def test_a_caller_may_forbid_the_second_try() -> None:
    async with stale() as server:
        pool = server.pool()
        await ask(pool).whole()
        assert isinstance(await ask(pool, resend=False).failure(), UpstreamClosed)
        assert len(server.peers) == 1
        await pool.close()


@on_both_loops
async def test_the_second_try_does_not_take_another_old_connection() -> None:
    gate = Gate()
    async with Server(gate) as server:
        pool = server.pool()
        sinks = [ask(pool), ask(pool)]
        await gate.reached(2)
        for index in (0, 1):
            gate.release(index)
            await sinks[index].whole()
        third = ask(pool)
        await gate.reached(3)
        gate.arrived[2].writer.close()
        await gate.reached(4)
        assert gate.arrived[3].number == 2
        assert pool.idle == 1
        gate.release(3)
        assert await third.whole() == b"ok"
        await pool.close()


# --- the end ---------------------------------------------------------------------------------------------------------


@on_both_loops
async def test_close_ends_calls_in_every_phase_and_refuses_new_ones() -> None:
    gate = Gate()
    async with Server(gate) as server:
        pool = server.pool(PoolSettings(max_connections=2))
        flying = ask(pool)
        await gate.reached(1)
        dialling, queued = ask(pool), ask(pool)
        await pool.close()
        for sink in (flying, dialling, queued, ask(pool)):
            error = await sink.failure()
            assert type(error) is UpstreamClosed
            assert "the pool" in str(error)
        assert (pool.open, pool.idle, pool.busy, pool.waiting, pool.connecting) == (0, 0, 0, 0, 0)
        await until(lambda: server.open == 0)
        await pool.close()  # again: nothing to do


@on_both_loops
async def test_a_server_that_accepts_and_closes_at_once_is_an_error() -> None:
    async def script(peer: Peer) -> None:
        peer.reset()

    async with Server(script) as server:
        pool = server.pool()
        assert isinstance(await ask(pool).failure(), UpstreamError)
        assert pool.open == 0
        await pool.close()


@on_both_loops
async def test_sockets_do_not_wait_for_more_data_and_are_kept_alive() -> None:
    async with Server(answer_ok) as server:
        pool = server.pool()
        await ask(pool).whole()
        (connection,) = pool._sockets
        sock = connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        await pool.close()


@pytest.mark.parametrize("loop", ["asyncio"])
def test_a_pool_needs_a_loop(loop: str) -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        Pool(Origin.of("http://127.0.0.1"))
