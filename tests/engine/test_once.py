"""Requests that come again with their idempotency key: one is sent, and every client gets its answer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from unittest.mock import Mock

import pytest

from hedgerow.events import AttemptEnded, Outcome, RequestFinished, RequestRepeated, RequestStarted
from hedgerow.gateway.blueprint import Replay
from hedgerow.gateway.flight import Flight
from hedgerow.gateway.party import Party, Seat
from hedgerow.policy.settings import Policy
from tests.engine.scripted import JSON, Answer, RecordingExchange, Scripts, World
from tests.engine.scripted import play as play_with
from tests.engine.test_flight import DONE, FINISH, PLAIN, ROLE, STALLED, WHOLE, body_of, error, stream, token
from tests.leftovers import leftovers

Story = Callable[[World], Coroutine[None, None, None]]
KEY = (b"idempotency-key", b"k-1")
STREAM = b'{"model":"fast","stream":true,"messages":[]}'
SLOW = Answer([(0.0, WHOLE)], headers=JSON, head_after=1.0)
REPLAYED = b"x-hedgerow-replayed"


def play(scripts: Scripts, story: Story, *, replay: Replay | None = None, policy: Policy | None = None) -> World:
    world = play_with(scripts, story, replay=replay or Replay(60.0), policy=policy)
    assert world.gateway.once.counts == (0, 0, 0), "something is left after its window"
    return world


def ask(
    world: World, body: bytes = PLAIN, *more: tuple[bytes, bytes], target: bytes = b"/v1/chat/completions"
) -> RecordingExchange:
    return world.request(body, headers=[KEY, *more], target=target)


def sent(world: World) -> int:
    return sum(len(pool.requests) for pool in world.pools.values())


class TestWholeAnswers:
    def test_who_asks_while_the_first_is_under_way_joins_it(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.append(ask(world))
            await asyncio.sleep(0.5)
            clients.append(ask(world))

        world = play({"a": SLOW}, story)
        first, second = clients
        assert sent(world) == 1
        assert (first.text, second.text) == (WHOLE, WHOLE)
        assert (first.ended_at, second.ended_at) == (1.0, 1.0)
        assert REPLAYED not in first.answer_headers
        assert second.answer_headers[REPLAYED] == b"joined"
        del second.answer_headers[REPLAYED]
        assert first.answer_headers == second.answer_headers

    def test_who_asks_afterwards_gets_the_same_answer_within_the_window(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.append(ask(world))
            for pause in (60.9, 0.1):  # it was whole at 1.0
                await asyncio.sleep(pause)
                clients.append(ask(world))

        world = play({"a": SLOW}, story)
        first, again, late = clients
        assert sent(world) == 2
        assert again.text == first.text
        assert again.ended_at == 60.9
        assert again.answer_headers[REPLAYED] == b"stored"
        assert again.answer_headers[b"x-hedgerow-request-id"] == first.answer_headers[b"x-hedgerow-request-id"]
        assert REPLAYED not in late.answer_headers

    def test_an_answer_that_is_given_again_counts_nowhere_and_is_told(self) -> None:
        async def story(world: World) -> None:
            ask(world)
            await asyncio.sleep(0.5)
            ask(world)
            await asyncio.sleep(1.0)
            ask(world)

        world = play({"a": SLOW}, story)
        for kind in (RequestStarted, RequestFinished, AttemptEnded):
            assert len(world.of(kind)) == 1
        (request_id,) = {event.request_id for event in world.events if isinstance(event, RequestStarted)}
        assert world.of(RequestRepeated) == [
            RequestRepeated(request_id, "fast", 0.5, True),
            RequestRepeated(request_id, "fast", 1.5, False),
        ]

    def test_the_hedge_of_one_answers_all(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.extend(ask(world) for _ in range(5))

        world = play({"a": STALLED, "b": SLOW}, story)
        assert [len(pool.requests) for pool in world.pools.values()] == [1, 1]
        assert {(client.text, client.ended_at) for client in clients} == {(WHOLE, 3.0)}

    def test_another_body_under_the_same_key_is_refused(self) -> None:
        clients: list[RecordingExchange] = []
        other = PLAIN.replace(b"[]", b"[1]")

        async def story(world: World) -> None:
            clients.append(ask(world))
            clients.append(ask(world, other))
            await asyncio.sleep(5.0)
            clients.append(ask(world, other))

        world = play({"a": SLOW}, story)
        assert sent(world) == 1
        assert [client.status for client in clients] == [200, 422, 422]
        assert b'"code":"idempotency_key_reused"' in clients[1].text.replace(b" ", b"")

    @pytest.mark.parametrize(
        "other",
        [
            {"headers": [(b"idempotency-key", b"k-2")]},
            {"headers": [KEY, (b"authorization", b"Bearer another client")]},
            {"headers": [KEY, (b"x-api-key", b"another client's")]},
            {"headers": [KEY], "target": b"/v1/chat/completions?api-version=1"},
            {"headers": []},
        ],
        ids=["key", "client", "one with a key", "path", "no key"],
    )
    def test_another_client_path_or_key_is_another_request(self, other: dict[str, object]) -> None:
        async def story(world: World) -> None:
            ask(world)
            world.request(PLAIN, **other)  # type: ignore[arg-type]  # the request's own keywords

        assert sent(play({"a": SLOW}, story)) == 2

    def test_clients_with_the_same_dummy_beside_their_keys_do_not_share(self) -> None:
        dummy = (b"authorization", b"Bearer dummy")

        async def story(world: World) -> None:
            for own in (b"one", b"two", b"one"):
                ask(world, PLAIN, dummy, (b"x-api-key", own))

        assert sent(play({"a": SLOW}, story)) == 2

    def test_an_error_is_told_to_all_and_not_kept(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.extend(ask(world) for _ in range(2))
            await asyncio.sleep(1.0)
            clients.append(ask(world))

        world = play({"a": [error(500, "no"), SLOW]}, story)
        assert sent(world) == 2
        assert [client.status for client in clients] == [500, 500, 200]

    @pytest.mark.parametrize(
        ("body", "header"),
        [
            (PLAIN.replace(b"{", b'{"store": false,', 1), (b"x-any", b"1")),
            (PLAIN, (b"cache-control", b"No-Store")),
        ],
    )
    def test_what_must_not_be_stored_is_joined_and_then_forgotten(
        self, body: bytes, header: tuple[bytes, bytes]
    ) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.extend(ask(world, body, header) for _ in range(2))
            await asyncio.sleep(2.0)
            assert world.gateway.once.counts == (0, 0, 0)
            clients.append(ask(world, body, header))

        world = play({"a": SLOW}, story)
        assert sent(world) == 2
        assert [client.answer_headers.get(REPLAYED) for client in clients] == [None, b"joined", None]

    def test_the_clients_own_patience_does_not_end_what_others_may_ask_for(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.append(ask(world, PLAIN, (b"x-stainless-timeout", b"0.5")))
            await asyncio.sleep(0.5)
            clients[0].leave()
            await asyncio.sleep(0.3)
            clients.append(ask(world, PLAIN, (b"x-stainless-timeout", b"0.5"), (b"x-stainless-retry-count", b"1")))

        world = play({"a": SLOW}, story)
        assert sent(world) == 1
        assert (clients[1].status, clients[1].ended_at) == (200, 1.0)


class TestClientsThatLeave:
    def test_the_request_goes_on_for_who_has_joined(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.extend(ask(world) for _ in range(3))
            await asyncio.sleep(0.5)
            clients[0].leave()
            clients[2].leave()

        world = play({"a": SLOW}, story, replay=Replay(60.0, linger=0.0))
        assert clients[1].text == WHOLE
        assert world.pools["a"].cancelled_at == []
        assert [event.outcome for event in world.of(RequestFinished)] == [Outcome.WON]

    @pytest.mark.parametrize(("linger", "cancelled"), [(0.0, [0.5]), (2.0, [2.5])])
    def test_a_request_that_nobody_waits_for_ends_after_a_while(self, linger: float, cancelled: list[float]) -> None:
        async def story(world: World) -> None:
            client = ask(world)
            await asyncio.sleep(0.5)
            client.leave()

        world = play({"a": Answer(head_after=50.0)}, story, replay=Replay(60.0, linger=linger))
        assert world.pools["a"].cancelled_at == cancelled
        assert [event.outcome for event in world.of(RequestFinished)] == [Outcome.CLIENT_GONE]

    def test_who_comes_back_in_time_keeps_it_alive(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.append(ask(world))
            for _ in range(3):
                clients[-1].leave()
                await asyncio.sleep(1.9)
                clients.append(ask(world))

        world = play(
            {"a": Answer([(0.0, WHOLE)], headers=JSON, head_after=7.0)}, story, replay=Replay(60.0, linger=2.0)
        )
        assert sent(world) == 1
        assert clients[-1].text == WHOLE

    def test_an_answer_that_came_when_nobody_waited_is_there_for_who_asks_again(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            ask(world).leave()
            await asyncio.sleep(3.0)
            clients.append(ask(world))

        world = play({"a": SLOW}, story)
        assert sent(world) == 1
        assert clients[0].answer_headers[REPLAYED] == b"stored"


class TestStreams:
    ANSWER = stream("P")
    """Its first token at 0.5, the second at 0.6, the end at 0.7."""

    def test_streams_are_requests_of_their_own_unless_the_route_says_otherwise(self) -> None:
        async def story(world: World) -> None:
            ask(world, STREAM)
            ask(world, STREAM)

        assert sent(play({"a": self.ANSWER}, story)) == 2

    @pytest.mark.parametrize("after", [0.0, 0.3, 0.55, 0.65, 0.75, 30.0])
    def test_whenever_a_client_comes_it_gets_every_byte(self, after: float) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.append(ask(world, STREAM))
            await asyncio.sleep(after)
            clients.append(ask(world, STREAM))

        world = play({"a": self.ANSWER}, story, replay=Replay(60.0, streams=True))
        assert sent(world) == 1
        for client in clients:
            assert client.text == body_of(self.ANSWER)
            assert client.outcome == "whole"

    def test_a_stream_that_breaks_is_broken_for_all_and_not_kept(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.extend(ask(world, STREAM) for _ in range(2))
            await asyncio.sleep(1.0)
            clients.append(ask(world, STREAM))

        cut = Answer([(0.1, token("x"))], end="reset")
        world = play({"a": [cut, self.ANSWER]}, story, replay=Replay(60.0, streams=True))
        assert sent(world) == 2
        assert [client.outcome for client in clients] == ["broken", "broken", "whole"]

    def test_one_that_is_too_long_to_keep_cannot_be_joined_and_is_not_given_again(self) -> None:
        clients: list[RecordingExchange] = []
        long = Answer([(0.1, token("x" * 1000))] * 200 + [(0.1, FINISH + DONE)])

        async def story(world: World) -> None:
            clients.append(ask(world, STREAM))
            await asyncio.sleep(15.0)
            clients.append(ask(world, STREAM))
            await asyncio.sleep(15.0)
            clients.append(ask(world, STREAM))

        play({"a": long}, story, replay=Replay(60.0, streams=True))
        assert [client.status for client in clients] == [200, 409, 200]
        assert b"idempotency_key_in_use" in clients[1].text
        assert clients[0].text == clients[2].text == body_of(long)

    def test_the_upstream_is_read_while_one_client_reads(self) -> None:
        async def story(world: World) -> None:
            first, second = ask(world, STREAM), ask(world, STREAM)
            await asyncio.sleep(0.55)
            paused = world.pools["a"]
            for client, expected in ((first, 0), (second, 1)):
                assert client.listener is not None
                client.listener.on_pause()
                assert paused.paused == expected
            first.leave()
            assert paused.paused == 1
            assert second.listener is not None
            second.listener.on_resume()
            assert paused.paused == 0

        play({"a": self.ANSWER}, story, replay=Replay(60.0, streams=True))


@pytest.mark.parametrize("body", [PLAIN, STREAM])
def test_requests_that_were_joined_leave_no_cycle_for_the_collector(body: bytes) -> None:
    answer = SLOW if body == PLAIN else stream("P")

    async def story(world: World) -> None:
        with leftovers() as left:
            for _ in range(3):
                first = ask(world, body)
                ask(world, body)
                await asyncio.sleep(0.2)
                first.leave()
                await asyncio.sleep(5.0)
            assert left(Flight, Party, Seat) == Counter()

    play({"a": answer}, story, replay=Replay(1.0, streams=True))


class TestRoom:
    def test_the_oldest_answers_make_room_for_new_ones(self) -> None:
        again: list[bytes | None] = []

        async def story(world: World) -> None:
            world.gateway.once.room = 5 * (1024 + len(WHOLE))
            for number in range(8):
                world.request(PLAIN, headers=[(b"idempotency-key", b"%d" % number)])
                await asyncio.sleep(2.0)
            _, kept, used = world.gateway.once.counts
            assert kept == 5
            assert used <= world.gateway.once.room
            for number in range(8):
                client = world.request(PLAIN, headers=[(b"idempotency-key", b"%d" % number)])
                again.append(client.answer_headers.get(REPLAYED))

        play({"a": SLOW}, story)
        assert again == [None] * 3 + [b"stored"] * 5

    def test_an_answer_beyond_its_share_is_given_and_not_kept(self) -> None:
        async def story(world: World) -> None:
            world.gateway.once.room = 4 * len(WHOLE)
            assert ask(world).outcome is None
            client = ask(world)
            await asyncio.sleep(2.0)
            assert client.text == WHOLE
            ask(world)

        assert sent(play({"a": SLOW}, story)) == 2


class TestAttempts:
    def test_a_clients_key_goes_with_the_first_attempt_only(self) -> None:
        async def story(world: World) -> None:
            ask(world, STREAM)

        world = play_with({"a": STALLED, "b": stream("B")}, story)
        heads = [world.pools[name].requests[0][1] for name in ("a", "b")]
        assert b"\r\nidempotency-key: k-1\r\n" in heads[0]
        assert b"idempotency-key" not in heads[1]

    def test_a_key_that_the_route_takes_is_not_sent_on(self) -> None:
        async def story(world: World) -> None:
            ask(world)

        world = play({"a": SLOW}, story)
        assert b"idempotency-key" not in world.pools["a"].requests[0][1]

    def test_a_request_that_could_not_be_begun_leaves_nothing_to_join(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Broken(Exception):
            pass

        async def story(world: World) -> None:
            with monkeypatch.context() as patch:
                patch.setattr("hedgerow.gateway.core.Flight", Mock(side_effect=Broken))
                with pytest.raises(Broken):
                    ask(world)
            assert world.gateway.once.counts == (0, 0, 0)
            ask(world)

        assert sent(play({"a": SLOW}, story)) == 1

    def test_two_answers_in_one_moment_are_handed_over_once(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.extend(ask(world) for _ in range(2))

        late = Answer([(0.0, WHOLE)], headers=JSON, head_after=3.0)  # the hedge starts at 2.0 and answers at 3.0 too
        world = play({"a": late, "b": SLOW}, story)
        assert [client.text for client in clients] == [WHOLE, WHOLE]
        assert sorted(event.outcome for event in world.of(AttemptEnded)) == [Outcome.SUPERSEDED, Outcome.WON]


class TestNames:
    def test_a_client_may_name_its_request(self) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            def named(name: bytes) -> RecordingExchange:
                return world.request(PLAIN, headers=[(b"x-hedgerow-request-id", name)])

            clients.extend(named(b"mine:7") for _ in range(2))
            await asyncio.sleep(5.0)
            clients.extend(map(named, (b"mine:7", b"test-1")))

        world = play({"a": SLOW}, story)
        names = [client.answer_headers[b"x-hedgerow-request-id"] for client in clients]
        assert names == [b"mine:7", b"mine:7.2", b"mine:7", b"test-1.2"]
        assert [event.request_id.encode() for event in world.of(RequestStarted)] == names
        assert world.gateway.claimed == set()

    @pytest.mark.parametrize(
        "field",
        [
            (b"x-hedgerow-request-id", b"has blanks"),
            (b"x-hedgerow-request-id", b"x" * 129),
            (b"idempotency-key", b""),
            (b"idempotency-key", b"x" * 256),
            (b"idempotency-key", "é".encode()),
        ],
    )
    def test_what_is_no_name_or_key_is_refused(self, field: tuple[bytes, bytes]) -> None:
        clients: list[RecordingExchange] = []

        async def story(world: World) -> None:
            clients.append(world.request(PLAIN, headers=[field]))

        world = play({"a": SLOW}, story)
        assert clients[0].status == 400
        assert sent(world) == 0


def test_the_role_chunk_alone_is_no_answer_to_join() -> None:
    """A client that joins before the first token hears nothing before it, as the first does not."""
    clients: list[RecordingExchange] = []

    async def story(world: World) -> None:
        clients.append(ask(world, STREAM))
        await asyncio.sleep(0.1)
        clients.append(ask(world, STREAM))
        await asyncio.sleep(0.1)
        assert not any(client.started for client in clients)

    late = Answer([(0.0, ROLE), (0.5, token("x")), (0.0, FINISH + DONE)])
    play({"a": late}, story, replay=Replay(60.0, streams=True))
    assert [client.pieces[0][0] for client in clients] == [0.5, 0.5]
