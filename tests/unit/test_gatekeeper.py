"""Gates that take their time: in threads and on the loop, within their limits, and nothing left behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from hedgerow.answer import Answer
from hedgerow.gatekeeper import AnyGate, Gatekeeper, InThread, OnLoop, OwnGate
from hedgerow.policy.gates.gate import Rejection, Verdict, as_gate
from hedgerow.testing import run_virtual
from hedgerow.threads import Threads

ANSWER = Answer("some text")
LONG = 60.0


def thread(check: Callable[[Answer], object], timeout: float = LONG) -> InThread:
    return InThread(OwnGate("mine", lambda answer, _request: check(answer)), timeout)


def task(check: Callable[[Answer], Awaitable[object]], timeout: float = LONG) -> OnLoop:
    return OnLoop("mine", lambda answer, _request: check(answer), timeout)


async def verdict(gates: list[AnyGate], answer: Answer = ANSWER, request: bytes = b"") -> Verdict:
    heard: asyncio.Future[Verdict] = asyncio.get_running_loop().create_future()
    Gatekeeper(gates).judge(answer, request, heard.set_result)
    return await asyncio.wait_for(heard, 30)


async def until(true: Callable[[], bool]) -> None:
    """Wait for what must come true."""
    for _ in range(3000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come true")


def run(main: Coroutine[Any, Any, Verdict]) -> Verdict:
    return asyncio.run(main)


GOOD = as_gate(lambda answer: None, "good")
BAD = as_gate(lambda answer: "no", "bad")


@pytest.mark.parametrize("kind", ["thread", "task"])
@pytest.mark.parametrize(
    ("said", "rejection", "error"),
    [
        (None, None, None),
        (True, None, None),
        (False, Rejection("mine"), None),
        ("too short", Rejection("mine", "too short"), None),
        (3, None, "TypeError"),
        (KeyError("secret"), None, "KeyError"),
        (SystemExit(3), None, "SystemExit"),
    ],
)
def test_what_a_python_gate_says(kind: str, said: object, rejection: Rejection | None, error: str | None) -> None:
    def check(_answer: Answer) -> object:
        if isinstance(said, BaseException):
            raise said
        return said

    async def acheck(answer: Answer) -> object:
        await asyncio.sleep(0)
        return check(answer)

    gate: AnyGate = thread(check) if kind == "thread" else task(acheck)
    errors = () if error is None else (f"gate mine did not judge: {error}",)
    assert run(verdict([GOOD, gate, GOOD])) == Verdict(rejection, 1 if rejection else 3, errors)


def test_gates_are_asked_in_order_up_to_the_first_rejection() -> None:
    asked: list[str] = []

    async def later(_answer: Answer) -> None:
        asked.append("later")

    gates: list[AnyGate] = [thread(lambda _: asked.append("first")), BAD, task(later)]
    assert run(verdict(gates)) == Verdict(Rejection("bad", "no"), 1)
    assert asked == ["first"]


def test_without_gates_that_wait_the_verdict_comes_before_judge_returns() -> None:
    heard: list[Verdict] = []
    assert Gatekeeper([GOOD, BAD]).judge(ANSWER, b"", heard.append) is None
    assert heard == [Verdict(Rejection("bad", "no"), 1)]
    assert Gatekeeper([BAD, thread(lambda _: None)]).judge(ANSWER, b"", heard.append) is None
    assert len(heard) == 2


def test_of_the_start_of_a_stream_gates_that_wait_are_not_asked() -> None:
    heard: list[Verdict] = []
    keeper = Gatekeeper([thread(lambda _: "never asked"), GOOD])
    assert keeper.judge(Answer("x", complete=False), b"", heard.append) is None
    assert heard == [Verdict(None, 1)]


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_every_choice_is_judged(kind: str) -> None:
    def check(answer: Answer) -> bool:
        return "b" not in answer.text

    async def acheck(answer: Answer) -> bool:
        return check(answer)

    gate: AnyGate = thread(check) if kind == "thread" else task(acheck)
    assert run(verdict([gate], Answer("a", others=(Answer("b"),)))).rejection == Rejection("mine")


def test_the_request_is_handed_on() -> None:
    plain = InThread(OwnGate("mine", lambda _answer, request: request.decode()), LONG)
    assert run(verdict([plain], request=b"asked")).rejection == Rejection("mine", "asked")


def test_a_thread_that_is_late_has_not_judged_and_may_go_on_for_ever() -> None:
    release, ended = threading.Event(), threading.Event()

    def stuck(_answer: Answer) -> str:
        release.wait(LONG)
        ended.set()
        return "far too late"

    async def main() -> None:
        assert await verdict([thread(stuck, 0.05), GOOD]) == Verdict(
            None, 2, ("gate mine did not judge: it took more than 0.05 s",)
        )
        release.set()
        await until(ended.is_set)
        await asyncio.sleep(0.02)  # what it says is heard, and nobody listens

    asyncio.run(main())


def test_a_thread_that_ends_after_its_loop_disturbs_nobody() -> None:
    release = threading.Event()
    asyncio.run(verdict([thread(lambda _: release.wait(LONG), 0.01)]))
    release.set()
    for each in threading.enumerate():
        if each.name == "hedgerow-gate":
            each.join(0.2)  # an exception in a thread would fail the test


def test_a_task_that_is_late_is_cancelled_and_has_not_judged() -> None:
    told: list[str] = []

    async def slow(_answer: Answer) -> None:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            told.append("cancelled")
            raise

    async def main(loop: Any) -> None:
        assert (await verdict([task(slow, 2.0)])).errors == ("gate mine did not judge: it took more than 2 s",)
        assert loop.time() == 2.0
        await asyncio.sleep(0)
        assert told == ["cancelled"]
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(main)


def test_a_task_that_takes_no_notice_of_that_is_not_waited_for() -> None:
    async def stubborn(_answer: Answer) -> str:
        try:
            await asyncio.sleep(10)
        except asyncio.CancelledError:
            await asyncio.sleep(5)
        return "too late"

    async def main(loop: Any) -> None:
        assert (await verdict([task(stubborn, 2.0)])).good
        assert loop.time() == 2.0
        await asyncio.sleep(100)

    run_virtual(main)


def test_a_task_that_cancels_itself_has_not_judged() -> None:
    async def gone(_answer: Answer) -> None:
        raise asyncio.CancelledError

    assert run(verdict([task(gone)])).errors == ("gate mine did not judge: CancelledError",)


@pytest.mark.parametrize("kind", ["thread", "task"])
def test_a_judgement_that_is_called_off_is_not_heard_of(kind: str) -> None:
    release = threading.Event()

    async def slow(_answer: Answer) -> None:
        await asyncio.sleep(LONG)

    async def main() -> None:
        heard: list[Verdict] = []
        gate: AnyGate = task(slow, 0.05) if kind == "task" else thread(lambda _: release.wait(LONG), 0.05)
        handle = Gatekeeper([gate]).judge(ANSWER, b"", heard.append)
        assert handle is not None
        await asyncio.sleep(0)
        handle.cancel()
        release.set()
        await asyncio.sleep(0.1)
        assert heard == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_threads_that_are_stuck_hold_up_no_more_than_their_own_gates() -> None:
    release = threading.Event()

    async def main() -> None:
        keeper = Gatekeeper([thread(lambda _: release.wait(LONG), 0.05)])
        heard: list[Verdict] = []
        for _ in range(50):
            keeper.judge(ANSWER, b"", heard.append)
        assert keeper._threads.running == 8
        await until(lambda: len(heard) == 50)
        assert all(each.good and each.errors for each in heard)
        release.set()
        late = Gatekeeper([BAD, GOOD])
        late.judge(ANSWER, b"", heard.append)
        assert heard[-1] == Verdict(Rejection("bad", "no"), 0)

    asyncio.run(main())


def test_a_job_whose_time_is_over_before_its_turn_is_not_run() -> None:
    release, ran = threading.Event(), []

    def check(_answer: Answer) -> None:
        ran.append(1)
        release.wait(LONG)

    async def main() -> None:
        keeper = Gatekeeper([thread(check, 0.05)])
        heard: list[Verdict] = []
        for _ in range(30):
            keeper.judge(ANSWER, b"", heard.append)
        await until(lambda: len(heard) == 30)
        release.set()
        await asyncio.sleep(0.1)
        assert len(ran) == 8

    asyncio.run(main())


# --- the threads -------------------------------------------------------------------------------------------------


def test_there_are_no_more_threads_than_needed_or_allowed_and_idle_ones_end() -> None:
    threads, gate, done = Threads(3, idle=0.05), threading.Barrier(4), threading.Semaphore(0)

    def job() -> None:
        gate.wait(10)
        done.release()

    for _ in range(3):
        threads.run(job)
    assert threads.running == 3
    gate.wait(10)  # all three run at once
    for _ in range(3):
        assert done.acquire(timeout=10)
    deadline = threading.Event()
    for _ in range(200):
        if threads.running == 0:
            break
        deadline.wait(0.02)
    assert threads.running == 0
    threads.run(done.release)
    assert done.acquire(timeout=10)


def test_every_job_is_run_however_many_come_at_once() -> None:
    threads, done = Threads(4, idle=0.001), threading.Semaphore(0)
    for _ in range(2000):
        threads.run(done.release)
    for _ in range(2000):
        assert done.acquire(timeout=10)
    assert threads.running <= 4
