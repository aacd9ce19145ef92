"""routes.<name>.idempotency and what goes with it: requests that come again with their key."""

from __future__ import annotations

import pytest

from tests.effects.support import HELLO, STREAM, WHOLE, Sent, Story, effect_of, sent, settings, tell
from tests.engine.scripted import JSON, Answer

WINDOW = "routes.<name>.idempotency.window"
KEY = (b"idempotency-key", b"k-1")
SLOW = Answer([(0.0, HELLO)], headers=JSON, head_after=1.0)


def requests(story: Story) -> int:
    """How many the targets got."""
    return sum(len(pool.requests) for pool in story.pools.values())


@effect_of(WINDOW)
@pytest.mark.parametrize(("window", "expected"), [("off", 4), ("0s", 3), ("10s", 2), ("1h", 1)])
def test_an_answer_is_given_again_within_the_window(key: str, window: str, expected: int) -> None:
    asked = [Sent(at, WHOLE, [KEY]) for at in (0.0, 0.5, 10.0, 100.0)]
    assert requests(tell(settings({key: window}), {"a": SLOW}, asked)) == expected


@effect_of("routes.<name>.idempotency.streams")
@pytest.mark.parametrize(("streams", "expected"), [(False, 2), (True, 1)])
def test_streams_are_given_again_where_the_route_says_so(key: str, streams: bool, expected: int) -> None:
    asked = [Sent(at, STREAM, [KEY]) for at in (0.0, 5.0)]
    story = tell(settings({key: streams, WINDOW: "1m"}), {}, asked)
    assert requests(story) == expected
    assert story.clients[0].text == story.clients[1].text


@effect_of("routes.<name>.idempotency.linger")
@pytest.mark.parametrize("linger", ["0s", "3s"])
def test_a_request_whose_client_has_gone_runs_on_for_a_while(key: str, linger: str) -> None:
    asked = [Sent(0.0, WHOLE, [KEY], leaves_after=0.5)]
    story = tell(
        settings({key: linger, WINDOW: "1m", "routes.<name>.targets": ["a"]}), {"a": Answer(head_after=100.0)}, asked
    )
    assert story.pools["a"].cancelled_at == [0.5 + float(linger[:-1])]


@effect_of("server.limits.replay_bytes")
@pytest.mark.parametrize(("room", "expected"), [("64KiB", 2), ("1MiB", 1)])
def test_an_answer_that_has_no_room_is_not_given_again(key: str, room: str, expected: int) -> None:
    long = Answer([(0.0, HELLO.replace(b"hello", b"x" * 10_000))], headers=JSON)
    asked = [Sent(at, WHOLE, [KEY]) for at in (0.0, 5.0)]
    assert requests(tell(settings({key: room, WINDOW: "1m"}), {"a": long}, asked)) == expected


@effect_of("targets.<name>.idempotency_header")
@pytest.mark.parametrize("header", [None, "Idempotency-Key", "X-Request-Key"])
def test_every_attempt_has_a_key_of_its_own(key: str, header: str | None) -> None:
    silent = Answer(end="hang")
    changes = {key: header, "targets.b.idempotency_header": header, "routes.<name>.hedge.max_hedges": 2}
    story = tell(settings(changes), {"a": silent, "b": silent}, [Sent()])
    for attempt, name in enumerate("ab"):
        head, _ = sent(story.pools, name)
        line = b"" if header is None else b"\r\n%b: r-1-%d\r\n" % (header.lower().encode(), attempt)
        assert line in head
        assert (b"-key: " in head) == (header is not None)
    assert b"-key: " not in sent(story.pools, "c")[0]


@effect_of("targets.<name>.idempotency_header")
def test_a_client_that_asks_again_with_its_key_comes_to_the_same_ones(key: str) -> None:
    client = (b"authorization", b"Bearer one"), KEY
    other = (b"authorization", b"Bearer two"), KEY
    story = tell(
        settings({key: "Idempotency-Key"}),
        {},
        [Sent(at, headers=who) for at, who in ((0, client), (5, other), (9, client))],
    )
    lines = [head.partition(b"idempotency-key: ")[2].partition(b"\r\n")[0] for _, head, _ in story.pools["a"].requests]
    assert all(line.endswith(b"-0") for line in lines)
    assert lines[0] == lines[2] != lines[1]


@effect_of("targets.<name>.idempotency_header")
@pytest.mark.parametrize("header", [None, "Idempotency-Key"])
def test_what_acts_may_be_sent_again_on_a_new_connection_where_a_key_guards_it(key: str, header: str | None) -> None:
    acts = b'{"model":"fast","messages":[],"web_search_options":{}}'
    story = tell(settings({key: header}), {"a": SLOW}, [Sent(0.0, acts)])
    assert story.pools["a"].resend == [header is not None]
