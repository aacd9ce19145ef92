"""Scripted targets do what they are told, and their book is true."""

from __future__ import annotations

import asyncio
from math import inf

import pytest

from hedgerow import EveryAttemptFailed, Hedger, Policy, Winner, hedge, race
from hedgerow.testing import Deadlock, VirtualLoop, run_virtual, scripted


def test_a_slow_target_loses_to_its_hedge_and_its_book_says_when(virtual_loop: VirtualLoop) -> None:
    primary, backup = scripted("primary", after=5.0), scripted("backup", after=0.2, value="hello")

    async def main() -> str:
        result = await hedge(primary, backup, args=("hi",), delay=1)
        assert result.latency == 1.2
        return result.value

    assert virtual_loop.run_until_complete(main()) == "hello"
    virtual_loop.run_until_complete(asyncio.sleep(0))
    [lost], [won] = primary.calls, backup.calls
    assert (lost.at, lost.args, lost.kwargs, lost.how, lost.ended) == (0.0, ("hi",), {}, "cancelled", 1.2)
    assert (won.at, won.how, won.ended) == (1.0, "answered", 1.2)
    assert primary.running == backup.running == 0


def test_what_is_not_said_is_answered_with_the_name() -> None:
    assert run_virtual(lambda _: hedge(scripted("who"))).value == "who"


def test_a_target_that_hangs_is_told_of_as_a_deadlock_where_nothing_ends_it() -> None:
    with pytest.raises(Deadlock):
        run_virtual(lambda _: hedge(scripted(after=inf), first_token_timeout=None))


def test_errors_are_raised_after_their_time() -> None:
    async def main(loop: VirtualLoop) -> None:
        first, second = scripted("first", after=1, error=ConnectionError("no")), scripted("second", error=ValueError)
        with pytest.raises(EveryAttemptFailed) as failed:
            await hedge(first, second, delay="off")
        assert [each.failure is not None for each in failed.value.attempts] == [True, True]
        assert isinstance(failed.value, ConnectionError)
        assert [call.how for call in (*first.calls, *second.calls)] == ["raised", "raised"]
        assert first.calls[0].ended == loop.time() == 1.0

    run_virtual(main)


def test_streams_come_item_by_item_and_break_off_as_told() -> None:
    async def main(loop: VirtualLoop) -> None:
        stuck = scripted("stuck", after=inf, items=["x"])
        broken = scripted("broken", after=0.5, items=["a", "b"], gap=0.25, error=ConnectionError("cut"))
        winner: Winner[str] = (await hedge(stuck, broken, delay=1)).value
        assert [(await anext(winner), loop.time()), (await anext(winner), loop.time())] == [("a", 1.5), ("b", 1.75)]
        with pytest.raises(ConnectionError, match="cut"):
            await anext(winner)
        assert stuck.calls[0].how == "cancelled"
        assert broken.calls[0].how == "raised"
        assert stuck.running == broken.running == 0

    run_virtual(main)


def test_a_stream_without_items_is_no_answer() -> None:
    async def main(_: VirtualLoop) -> None:
        empty = scripted("empty", after=1, items=list[int]())
        other = scripted("other", items=[1])
        result = await hedge(empty, other, delay="off")
        assert result.target == "other"
        await result.value.aclose()
        assert (empty.calls[0].how, other.calls[0].how) == ("answered", "cancelled")

    run_virtual(main)


def test_a_loser_takes_its_time_to_close() -> None:
    async def main(loop: VirtualLoop) -> None:
        slow, fast = scripted("slow", after=9, closing=0.5), scripted("fast", after=1)
        hedger = Hedger("closing", [slow, fast], Policy(mode="race"))
        await hedger()
        assert slow.running == 1
        await hedger.aclose()
        assert (slow.running, slow.calls[0].ended, loop.time()) == (0, 1.5, 1.5)

    run_virtual(main)


def test_calls_follow_the_script_in_turn_and_its_end_for_ever() -> None:
    async def main(_: VirtualLoop) -> None:
        flaky = scripted("flaky", value=1).then(error=ConnectionError("down")).then(value=3)
        assert await flaky() == 1
        with pytest.raises(ConnectionError):
            await flaky()
        assert [await flaky(), await flaky()] == [3, 3]

    run_virtual(main)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="late: seconds must be 0 or more"):
        scripted("late", after=-1)
    with pytest.raises(ValueError, match="either every call gives a stream, or none does"):
        scripted(items=[1]).then(value=2)


def test_two_in_one_tick_are_told_apart_by_their_order() -> None:
    async def main(_: VirtualLoop) -> None:
        result = await race(scripted("one", after=1), scripted("two", after=1))
        assert result.target == "one"

    run_virtual(main)
