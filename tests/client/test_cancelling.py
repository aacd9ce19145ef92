"""A caller who is cancelled, at whatever moment, leaves nothing behind: no task, nothing open, no error untold.

hedge-python, grit-toolkit and asynchedging up to 1.1.1 leave their attempts running, and paid for (B9).
"""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from hedgerow import EveryAttemptFailed, Hedger, Policy, hedge, hedger, race
from hedgerow.client import flight
from hedgerow.events import AttemptEnded, Event, Outcome, RequestFinished
from hedgerow.testing import VirtualLoop
from tests.client.support import Book, Closable, read, run, turn
from tests.leftovers import leftovers


def hedging(book: Book, listeners: list[Event] | None = None, closing: float = 0.0) -> Hedger[Any]:
    targets = [book.target("a", 9.0, closing=closing), book.target("b", 9.0, closing=closing)]
    heard = [] if listeners is None else [listeners.append]
    return Hedger("r", targets, Policy(delay=2), listeners=heard)


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_before_anything_was_launched() -> None:
    """Kevlar's issue 14: what had been cancelled was launched all the same (B13)."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        await cancelled(asyncio.create_task(hedging(book)()))
        assert book.called == []

    run(main)


def test_in_the_very_turn_of_the_launch() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        task = asyncio.create_task(hedging(book)())
        await asyncio.sleep(0)
        await cancelled(task)
        assert book.open == 0

    run(main)


@pytest.mark.parametrize("at", [1.0, 2.0, 5.0])
def test_while_it_waits(at: float) -> None:
    """hedge-python and grit-toolkit leave two attempts running (B9)."""

    async def main(loop: VirtualLoop) -> None:
        book, told = Book(), list[Event]()
        task = asyncio.create_task(hedging(book, told)())
        await asyncio.sleep(at)
        await cancelled(task)
        assert (book.open, loop.time()) == (0, at)
        ended = [each.outcome for each in told if isinstance(each, AttemptEnded)]
        assert ended == [Outcome.CLIENT_GONE] * len(ended)
        assert [each.outcome for each in told if isinstance(each, RequestFinished)] == [Outcome.CLIENT_GONE]
        await asyncio.sleep(60)
        assert len(book.called) == len(ended)  # nothing is launched after it: Kevlar's issue 14

    run(main)


def test_a_cancelled_call_waits_for_its_attempts_to_close_what_they_opened() -> None:
    async def main(loop: VirtualLoop) -> None:
        book = Book()
        task = asyncio.create_task(hedging(book, closing=0.5)())
        await asyncio.sleep(5)
        await cancelled(task)
        assert (book.open, loop.time()) == (0, 5.5)

    run(main)


def test_but_not_for_ever() -> None:
    async def main(loop: VirtualLoop) -> None:
        book = Book()
        task = asyncio.create_task(hedging(book, closing=0.5)())
        await asyncio.sleep(5)
        task.cancel()
        await asyncio.sleep(0.25)
        await cancelled(task)  # a second time, while it waits
        assert loop.time() == 5.25
        await asyncio.sleep(1)
        assert book.open == 0

    run(main)


def test_in_the_turn_of_the_win_a_plain_answer_is_closed() -> None:
    """Its caller never gets it, so nobody else could close it."""

    async def main(_: VirtualLoop) -> None:
        book, answer = Book(), Closable("a")
        task = asyncio.create_task(hedge(book.target("a", 3.0, answer), delay=2))
        await asyncio.sleep(3)
        await book.some_end()
        await cancelled(task)
        assert answer.closed == 1

    run(main)


def test_in_the_turn_of_the_win_a_stream_is_closed() -> None:
    """asynchedging up to 1.1.1 leaks what runs where its caller is cancelled (B9)."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        task = asyncio.create_task(hedge(book.stream("a", 3.0, 9.0), delay=2))
        await asyncio.sleep(3)
        await asyncio.sleep(0)
        await cancelled(task)
        await turn()
        assert book.open == 0

    run(main)


def test_in_the_turn_in_which_all_had_failed() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        task = asyncio.create_task(hedge(book.target("a", 3.0, error=ValueError()), delay=2))
        await asyncio.sleep(3)
        await book.some_end()
        task.cancel()
        with pytest.raises((asyncio.CancelledError, ValueError)):
            await task

    run(main)


def test_while_a_gate_judges() -> None:
    async def main(_: VirtualLoop) -> None:
        book, answer = Book(), Closable("a")

        async def slowly(_: object) -> bool:
            await asyncio.sleep(9)
            return True

        task = asyncio.create_task(hedge(book.target("a", 1.0, answer), delay=20, gate=slowly))
        await asyncio.sleep(5)
        await cancelled(task)
        await turn()
        assert answer.closed == 1

    run(main)


def test_mid_stream_while_it_waits_for_an_item() -> None:
    """Not when the garbage is collected, as hedge-python's unclosed responses, but before the cancellation goes on."""

    async def main(loop: VirtualLoop) -> None:
        book = Book()
        got: list[str] = []

        async def reader() -> None:
            await read((await hedge(book.stream("a", 1.0, 1.0, 60.0, closing=0.5), delay=99)).value, got)

        task = asyncio.create_task(reader())
        await asyncio.sleep(5)
        await cancelled(task)
        assert (got, book.open, loop.time()) == (["a0", "a1"], 0, 5.5)

    run(main)


def test_losers_that_were_to_be_kept_end_with_their_caller() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()
        task = asyncio.create_task(race(book.target("a", 3.0), book.target("b", 9.0), losers="keep"))
        await asyncio.sleep(3)
        await book.some_end()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await turn()
        assert book.open == 0

    run(main)


def test_under_a_timeout() -> None:
    async def main(loop: VirtualLoop) -> None:
        book = Book()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await hedging(book)()
        assert (book.open, loop.time()) == (0, 5.0)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(hedging(book)(), 1)
        assert book.open == 0

    run(main)


def test_in_a_task_group_whose_other_task_fails() -> None:
    async def main(loop: VirtualLoop) -> None:
        book = Book()

        async def both() -> None:
            async with asyncio.TaskGroup() as group:
                group.create_task(hedging(book)())
                group.create_task(book.target("c", 5.0, error=ValueError("c"))())

        with pytest.raises(ExceptionGroup) as caught:
            await both()
        assert [type(each) for each in caught.value.exceptions] == [ValueError]
        assert (book.open, loop.time()) == (0, 5.0)

    run(main)


def test_within_a_target_that_has_timeouts_and_groups_of_its_own() -> None:
    async def main(_: VirtualLoop) -> None:
        book = Book()

        async def strict() -> str:
            async with asyncio.timeout(1):
                await asyncio.sleep(60)
            return "never"

        async def grouped() -> str:
            async with asyncio.TaskGroup() as group:
                task = group.create_task(book.target("x", 1.0)())
            return str(task.result())

        result = await hedge(strict, grouped, delay=9)
        assert (result.value, result.latency) == ("x", 2.0)

    run(main)


def test_a_target_that_cancels_itself_has_failed() -> None:
    async def main(loop: VirtualLoop) -> None:
        book = Book()

        async def broken() -> str:
            future: asyncio.Future[str] = loop.create_future()
            loop.call_later(1, future.cancel)
            return await future

        result = await hedge(broken, book.target("b", 1.0), delay=9)
        assert (result.value, result.latency) == ("b", 2.0)
        with pytest.raises(EveryAttemptFailed, match="cancelled its own task"):
            await hedge(broken, delay=9)

    run(main)


def test_whoever_ends_all_tasks_of_a_loop_launches_nothing_by_it() -> None:
    """As `asyncio.run` does at its end: a cancelled attempt is no failure to be made up for."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        task = asyncio.create_task(hedging(book)())
        await asyncio.sleep(1)
        for each in asyncio.all_tasks() - {asyncio.current_task()}:
            each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(60)
        assert book.called == [("a", 0.0)]

    run(main)


def test_an_attempt_that_catches_its_cancellation_is_cancelled_again(caplog: pytest.LogCaptureFixture) -> None:
    """Losers are reaped with a deadline: code that hangs while it closes something is not waited for without end."""

    async def main(loop: VirtualLoop) -> None:
        ended = []

        async def stubborn() -> str:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(3_600)
            finally:
                ended.append(loop.time())
            return "late"

        book = Book()
        hedger: Hedger[str] = Hedger("r", [stubborn, book.target("b", 1.0)], Policy(delay=2), grace=5.0)
        assert (await hedger()).latency == 3.0
        await asyncio.sleep(30)
        assert ended == [8.0]

    with caplog.at_level(logging.WARNING):
        run(main)
    assert caplog.messages == ["an attempt at stubborn goes on 5 s after it was cancelled: cancelling again"]


def test_at_last_it_is_left_to_itself(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: VirtualLoop) -> None:
        stop = loop.create_future()

        async def immortal() -> str:
            while not stop.done():
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    continue
            return "x"

        book = Book()
        await hedge(immortal, book.target("b", 1.0), delay=2)
        await asyncio.sleep(90)
        stop.set_result(None)
        await asyncio.sleep(90)

    run(main)
    assert "does not end, however often it is cancelled" in caplog.messages[-1]


def test_a_kept_loser_that_runs_out_of_its_time_is_reaped_as_well(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: VirtualLoop) -> None:
        book = Book()
        result = await race(
            book.target("a", 1.0), book.target("stubborn", 60.0, closing=3_600.0), losers="keep", keep_time=5
        )
        assert [each async for each in result.alternatives] == []
        await asyncio.sleep(30)
        assert (book.open, loop.time()) == (0, 36.0)

    run(main)
    assert caplog.messages == ["an attempt at stubborn goes on 1 s after it was cancelled: cancelling again"]


def test_closing_a_hedger_waits_for_losers_and_at_last_cancels_them() -> None:
    """LiteLLM and grit-toolkit cancel losers and forget them; here whoever closes waits for them, with a deadline."""

    async def main(loop: VirtualLoop) -> None:
        book = Book()
        hedger: Hedger[str] = Hedger(
            "r", [book.target("a", 9.0, closing=3.0), book.target("b", 1.0)], Policy(delay=2), grace=10
        )
        await hedger()
        await hedger.aclose()
        assert (book.open, loop.time()) == (0, 6.0)
        kept: Hedger[str] = Hedger(
            "k", [book.target("a", 1.0), book.target("b", 99.0)], Policy(mode="race", losers="keep", keep_time=90)
        )
        await kept()
        await kept.aclose(within=2)
        assert (book.open, loop.time()) == (0, 9.0)

    run(main)


def test_a_fault_of_our_own_ends_the_call_and_all_its_attempts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    async def main(_: VirtualLoop) -> None:
        book = Book()
        monkeypatch.setattr(flight.Flight, "skip", broken)
        with pytest.raises(RuntimeError, match="hedgerow itself failed"):
            await hedge(book.target("a", 9.0), book.target("b", 9.0), delay=2, mode="shadow")
        await turn()
        assert [how for _, how, _ in book.ended] == ["cancelled"]

    async def one_target(_: VirtualLoop) -> None:
        book = Book()
        monkeypatch.setattr(hedger.Hedger, "first_token", broken)
        with pytest.raises(RuntimeError, match="hedgerow itself failed"):
            await hedge(book.target("a", 1.0))

    for when_due in (main, one_target):
        caplog.clear()
        run(when_due)
        assert "please report it" in caplog.text


def test_nothing_is_left_for_the_garbage_collector() -> None:
    """A collector that has much to do stops the program; what is counted is freed at once."""

    async def main(_: VirtualLoop) -> None:
        book = Book()
        hedger: Hedger[str] = Hedger("r", [book.target("a", 1.0), book.target("b", 1.0)], Policy(delay=5))
        await hedger()
        with leftovers():  # what others have left is none of it
            for _turn in range(100):
                await hedger()
            assert gc.collect() <= 10

    run(main)
