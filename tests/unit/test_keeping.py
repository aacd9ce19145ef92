"""What is kept of requests is bounded in number, bytes and time, and is what its own client may see."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from hedgerow.answer import Answer, Finish
from hedgerow.gateway.keeping import Keeping, Record
from hedgerow.policy.alternatives import MOST, Alternative, Saying, meaning_of
from hedgerow.testing import VirtualLoop, run_virtual
from hedgerow.vocabulary import Role


def saying(text: str, at: float = 0.0, request_id: str = "r") -> Saying:
    return Saying(request_id, 0, "a", Role.PRIMARY, True, None, 1.0, at, Answer(text))


def within(story: Callable[[VirtualLoop], Coroutine[Any, Any, None]]) -> None:
    run_virtual(story)


def opened(keeping: Keeping, name: str, tenant: str = "t", *, ttl: float = 100.0, asks: bytes | None = None) -> Record:
    record = Record(name, "route", tenant, None if asks is None else (tenant, asks), 1, ttl)
    keeping.open(record)
    return record


def test_the_oldest_go_where_there_are_too_many() -> None:
    async def story(loop: VirtualLoop) -> None:
        keeping = Keeping(loop, requests=2)
        for name in ("one", "two", "three"):
            opened(keeping, name)
        assert [keeping.find(name, "t") is not None for name in ("one", "two", "three")] == [False, True, True]

    within(story)


def test_the_oldest_go_where_they_say_too_much() -> None:
    async def story(loop: VirtualLoop) -> None:
        keeping = Keeping(loop, room=20_000)
        told: list[Alternative | None] = []
        first = opened(keeping, "one")
        first.hear(told.append)
        keeping.add(first, saying("x" * 4_000))
        second = opened(keeping, "two")
        keeping.add(second, saying("y" * 4_000))
        assert (keeping.find("one", "t"), keeping.find("two", "t")) == (None, second)
        assert told[-1] is None
        for _ in range(9):  # what comes for one that had to go takes no room
            keeping.add(first, saying("z" * 4_000))
        assert keeping.find("two", "t") is second

    within(story)


def test_what_has_gone_gives_its_room_back() -> None:
    async def story(loop: VirtualLoop) -> None:
        keeping = Keeping(loop, room=20_000)
        for number in range(9):
            keeping.add(opened(keeping, f"r{number}", ttl=10.0), saying("x" * 4_000))
            await asyncio.sleep(10.0)
            assert len(keeping) == 0

    within(story)


def test_names_belong_to_those_who_gave_them() -> None:
    async def story(loop: VirtualLoop) -> None:
        keeping = Keeping(loop)
        mine, theirs = opened(keeping, "same", "me", ttl=10.0), opened(keeping, "same", "them")
        assert (keeping.find("same", "me"), keeping.find("same", "them")) == (mine, theirs)
        await asyncio.sleep(5.0)
        again = opened(keeping, "same", "me", ttl=10.0)
        await asyncio.sleep(6.0)  # the first of that name would be over
        assert keeping.find("same", "me") is again

    within(story)


def test_what_was_said_to_the_same_question_is_taken_over_while_it_lasts() -> None:
    async def story(loop: VirtualLoop) -> None:
        keeping = Keeping(loop)
        first = opened(keeping, "one", ttl=10.0, asks=b"q")
        for number in range(MOST + 5):
            keeping.add(first, saying(f"answer {number}", at=loop.time()))
        second = opened(keeping, "two", ttl=10.0, asks=b"q")
        assert len(second.alternatives) == MOST
        await asyncio.sleep(10.0)
        assert not keeping.has(("t", b"q"))
        assert len(opened(keeping, "three", ttl=10.0, asks=b"q").alternatives) == 0

    within(story)


def test_the_same_means_the_same_to_a_reader() -> None:
    same = [
        ("Hedge", " hedge\n"),
        ('{"a": 1, "b": [2]}', '{"b":[2],"a":1}'),
        ("Cafe\u0301", "caf\u00e9"),
        ("\uff48edge", "hedge"),
    ]
    for one, other in same:
        assert meaning_of(Answer(one)) == meaning_of(Answer(other))
    for one, other in [("hedge", "hedges"), ("[1]", "[2]"), ("", "x"), ('{"a":1', '{"a": 2')]:
        assert meaning_of(Answer(one)) != meaning_of(Answer(other))
    assert meaning_of(Answer("", refusal="no")) != meaning_of(Answer(""))
    assert meaning_of(Answer("a", others=(Answer("b"),))) != meaning_of(Answer("a"))


def calling(arguments: str, call_id: str = "call-1") -> bytes:
    call = {"id": call_id, "type": "function", "function": {"name": "look_up", "arguments": arguments}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return json.dumps({"id": call_id, "created": 1, "choices": [{"index": 0, "message": message}]}).encode()


def test_calls_of_tools_are_the_same_only_with_the_same_arguments() -> None:
    calls = Answer("", Finish.TOOL_CALLS, tool_calls=True)
    one = meaning_of(calls, calling('{"word": "hedge", "n": 1}'))
    assert meaning_of(calls, calling('{"n":1,"word":"hedge"}', "call-2")) == one
    assert meaning_of(calls, calling('{"n":2,"word":"hedge"}')) != one
    assert meaning_of(calls, calling('{"n":1,"word":')) != one
    assert meaning_of(calls) != meaning_of(calls)  # nothing is known of either
    used = b'{"id":"%b","content":[{"type":"tool_use","id":"%b","name":"x","input":{"id":%b}}],"usage":{"n":%b}}'
    first = meaning_of(calls, used % (b"a", b"b", b"1", b"1"))
    assert meaning_of(calls, used % (b"c", b"d", b"1", b"2")) == first
    assert meaning_of(calls, used % (b"a", b"b", b"2", b"1")) != first
