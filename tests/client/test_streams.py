"""Streams and contexts: raced to the first real item, handed on whole, closed by whoever opened them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest

from hedgerow import EveryAttemptFailed, Hedger, Held, Policy, Winner, hedge, hedged, race
from hedgerow.events import AttemptEnded, Event, FailureClass, Outcome
from hedgerow.testing import VirtualLoop
from tests.client.support import Book, read, run, turn


def test_the_winner_goes_on_whole_while_the_loser_is_closed() -> None:
    """hedgedhttp and bhope cut the winner's body short: its scope ended when the call returned (B11)."""

    async def main(loop: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.stream("a", 9.0), book.stream("b", 1.0, 1.0, 1.0), delay=2)
        assert (result.target, result.latency) == ("b", 3.0)
        items = [(item, loop.time()) async for item in result.value]
        assert items == [("b0", 3.0), ("b1", 4.0), ("b2", 5.0)]
        assert book.ended == [("a", "cancelled", 3.0), ("b", "done", 5.0)]

    run(main)


def test_the_first_real_item_decides_and_none_before_it_is_lost() -> None:
    """LiteLLM's fastest_response commits to the first 200: content after 1,557 ms, of a rival at 200 (B2)."""

    async def role_first(loop: VirtualLoop, content_after: float) -> AsyncIterator[str]:
        yield "role"
        await asyncio.sleep(content_after)
        yield f"content after {content_after:g}"
        yield "end"

    async def main(loop: VirtualLoop) -> None:
        def stalled() -> AsyncIterator[str]:
            return role_first(loop, 60)

        def good() -> AsyncIterator[str]:
            return role_first(loop, 1)

        result = await hedge(stalled, good, delay=2, first_token=lambda item: item.startswith("content"))
        assert (result.target, result.latency) == ("good", 3.0)
        assert [item async for item in result.value] == ["role", "content after 1", "end"]

    run(main)


def test_an_empty_stream_is_a_failure() -> None:
    """An empty 200 wins every race (B2): eRPC's issue 780."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.stream("a"), book.stream("b", 1.0), delay=5)
        assert [item async for item in result.value] == ["b0"]
        assert result.attempts[0].failure is not None
        assert result.attempts[0].failure.kind is FailureClass.EMPTY
        with pytest.raises(EveryAttemptFailed, match="a: its stream ended without a first item"):
            await hedge(book.stream("a"), book.stream("b"), delay=5)

    run(main)


def test_a_stream_that_fails_before_its_first_item_is_asked_elsewhere_and_after_it_never() -> None:
    """LiteLLM's PR 32835: another model went on after what was sent, and said it twice or otherwise (B20)."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.stream("a", error=OSError("early")), book.stream("b", 1.0), delay=5)
        assert [item async for item in result.value] == ["b0"]
        result = await hedge(book.stream("a", 1.0, 1.0, error=OSError("late")), book.stream("b", 1.0), delay=5)
        got: list[str] = []
        with pytest.raises(OSError, match="late"):
            await read(result.value, got)
        assert got == ["a0", "a1"]
        assert [item async for item in result.value] == []

    run(main)


def test_leaving_a_stream_early_closes_it_before_that_returns() -> None:
    async def main(loop: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.stream("a", 1.0, 1.0, closing=0.5), delay=5)
        async with result.value as items:
            assert await anext(items) == "a0"
        assert (book.open, loop.time()) == (0, 1.5)
        await items.aclose()
        assert [item async for item in items] == []

    run(main)


def test_a_stream_that_is_forgotten_is_closed() -> None:
    async def main(_: VirtualLoop) -> None:
        book, told = Book(), list[Event]()
        hedger: Hedger[Winner[str]] = Hedger("r", [book.stream("a", 1.0, 1.0)], Policy(), listeners=[told.append])
        result = await hedger()
        assert await anext(result.value) == "a0"
        del result
        gc.collect()
        await turn()
        assert book.open == 0
        assert [each.outcome for each in told if isinstance(each, AttemptEnded)] == [Outcome.CLIENT_GONE]

    run(main)


def test_a_stream_that_stalls_after_its_first_item_ends_with_a_timeout() -> None:
    """A winner that hangs mid-stream hangs its caller for ever (B20)."""

    async def main(loop: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.stream("a", 1.0, 60.0), delay=90, stall_timeout=5)
        got: list[str] = []
        with pytest.raises(TimeoutError):
            await read(result.value, got)
        assert (got, loop.time()) == (["a0"], 6.0)
        await turn()
        assert book.open == 0

    run(main)


def test_a_caller_who_is_slow_to_read_is_no_stall() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.stream("a", 1.0, 1.0, 1.0), delay=90, stall_timeout=5)
        got = []
        async for item in result.value:
            got.append(item)
            await asyncio.sleep(60)
        assert got == ["a0", "a1", "a2"]

    run(main)


def test_a_stream_is_over_at_the_deadline_even_if_nobody_reads_it() -> None:
    async def main(loop: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.stream("a", 1.0, 1.0), delay=90, deadline=10)
        await asyncio.sleep(60 - loop.time())
        assert book.ended == [("a", "closed", 10.0)]
        assert await anext(result.value) == "a0"
        with pytest.raises(TimeoutError):
            await anext(result.value)

    run(main)


def test_items_are_read_no_faster_than_they_are_wanted() -> None:
    async def main(_: VirtualLoop) -> None:
        made = []

        async def items() -> AsyncIterator[int]:
            for number in range(100):
                made.append(number)
                yield number

        result = await hedge(items)
        assert [await anext(result.value) for _ in range(3)] == [0, 1, 2]
        await asyncio.sleep(60)
        assert len(made) <= 4
        await result.value.aclose()

    run(main)


def test_two_readers_of_one_stream_are_told_of_it() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.stream("a", 1.0, 5.0), delay=90)
        await anext(result.value)
        first = asyncio.ensure_future(anext(result.value))
        await turn()
        with pytest.raises(RuntimeError, match="two tasks read one stream"):
            await anext(result.value)
        assert await first == "a1"
        await result.value.aclose()

    run(main)


class SdkStream:
    """As the SDKs have them: an iterator that is a context manager too, with attributes of its own."""

    response = "headers"

    def __init__(self, *items: str) -> None:
        self._items = list(items)
        self.closed = 0

    def __aiter__(self) -> SdkStream:
        return self

    async def __anext__(self) -> str:
        if not self._items:
            raise StopAsyncIteration
        return self._items.pop(0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        self.closed += 1


def test_a_coroutine_that_gives_a_stream_is_a_stream_and_its_attributes_are_there() -> None:
    async def main(_: VirtualLoop) -> None:
        stream = SdkStream("x", "y")

        async def create() -> SdkStream:
            return stream

        result = await hedge(create)
        assert result.value.response == "headers"
        assert [item async for item in result.value] == ["x", "y"]
        await turn()
        assert stream.closed == 1

    run(main)


def test_a_context_manager_of_a_stream_is_left_when_the_stream_is() -> None:
    async def main(_: VirtualLoop) -> None:
        stream, left = SdkStream("x", "y"), []

        @asynccontextmanager
        async def opened() -> AsyncIterator[SdkStream]:
            yield stream
            left.append(asyncio.current_task())

        result = await hedge(opened)
        assert isinstance(result.value, Winner)
        async with result.value as items:
            assert await anext(items) == "x"
            assert left == []
        assert len(left) == 1

    run(main)


def test_a_context_manager_stays_open_until_its_caller_leaves_it() -> None:
    async def main(loop: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.context("a", 9.0), book.context("b", 1.0), delay=2)
        held = result.value
        assert isinstance(held, Held)
        async with held as inside:
            assert inside == "b"
            await asyncio.sleep(60)
            assert book.ended == [("a", "cancelled", 3.0)]
        assert book.ended[1:] == [("b", "done", 63.0)]
        assert loop.time() == 63.0

    run(main)


def test_a_context_manager_is_told_of_its_callers_error() -> None:
    """Committed, in place of rolled back: what a manager hears decides what it does."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await hedge(book.context("a", 1.0))
        error = ValueError("mine")
        with pytest.raises(ValueError, match="mine") as caught:
            async with result.value:
                raise error
        assert caught.value is error
        assert book.ended == [("a", "ValueError", 1.0)]

    run(main)


def test_who_opens_something_closes_it_in_the_same_task() -> None:
    """Cancel scopes and task groups within an async generator break where another task closes it."""

    async def main(_: VirtualLoop) -> None:
        tasks = []

        async def items() -> AsyncIterator[int]:
            tasks.append(asyncio.current_task())
            async with asyncio.TaskGroup():
                try:
                    yield 1
                    yield 2
                finally:
                    tasks.append(asyncio.current_task())

        result = await hedge(items)
        async with result.value as stream:
            await anext(stream)
        assert tasks[0] is tasks[1]

    run(main)


def test_losers_that_are_kept_say_all_they_have() -> None:
    async def main(loop: VirtualLoop) -> None:
        book = Book()
        targets: list[Callable[..., Any]] = [
            book.stream("a", 1.0, 1.0),
            book.stream("b", 2.0, 2.0),
            book.stream("c", 99.0),
        ]
        result = await race(*targets, losers="keep", keep_time=20)
        assert [item async for item in result.value] == ["a0", "a1"]
        said = [(each.value, each.target, each.latency) async for each in result.alternatives]
        assert said == [(["b0", "b1"], "b", 4.0)]
        assert (book.ended[-1], loop.time()) == (("c", "cancelled", 21.0), 21.0)

    run(main)


def test_a_kept_loser_that_answered_in_the_winners_turn_is_an_alternative() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await race(book.target("a", 1.0), book.target("b", 1.0), losers="keep")
        assert result.value == "a"
        assert [each.value async for each in result.alternatives] == ["b"]

    run(main)


def test_a_loser_that_fails_is_no_alternative_and_nothing_is_one_without_keeping() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        result = await race(book.target("a", 1.0), book.target("b", 2.0, error=OSError()), losers="keep")
        assert [each async for each in result.alternatives] == []
        result = await race(book.target("a", 1.0), book.target("b", 2.0))
        assert [each async for each in result.alternatives] == []

    run(main)


def test_a_decorated_async_generator_is_one() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()

        @hedged(book.stream("b", 1.0, 1.0), delay=2)
        async def items(_: str) -> AsyncIterator[str]:
            await asyncio.sleep(60)
            yield "late"

        assert [item async for item in items("prompt")] == ["b0", "b1"]
        assert book.called == [("b", 2.0)]
        await turn()

    run(main)
