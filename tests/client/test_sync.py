"""Sync callers: one loop in the background, losers that really are cancelled, forks, the end of the process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial

import pytest

from hedgerow import EveryAttemptFailed, hedge_sync
from hedgerow.client.sync import SyncHeld, SyncWinner

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")
TOLD: list[str] = []


async def slow(name: str = "slow") -> str:
    try:
        await asyncio.sleep(30)
    except asyncio.CancelledError:
        TOLD.append(f"{name} cancelled")
        raise
    return name


async def fast() -> str:
    await asyncio.sleep(0.01)
    WHO.set("fast")
    return "fast"


async def failing() -> str:
    raise ConnectionRefusedError("no")


async def items() -> AsyncIterator[int]:
    try:
        for number in range(3):
            yield number
    finally:
        TOLD.append("closed")


@asynccontextmanager
async def opened() -> AsyncIterator[str]:
    try:
        yield "inside"
    except KeyError:
        TOLD.append("rolled back")
        raise


@pytest.fixture(autouse=True)
def _told() -> None:
    TOLD.clear()


def until(text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in TOLD:
        assert time.monotonic() < deadline, TOLD
        time.sleep(0.001)


def test_the_loser_is_cancelled() -> None:
    """lemmas' sync race returns the 53 ms winner after 502 ms: its loser is a thread, which nobody can cancel (B10)."""
    result = hedge_sync(slow, fast, delay=0.01)
    assert (result.value, result.target, result.hedged) == ("fast", "fast", True)
    until("slow cancelled")


def test_what_the_winner_has_set_holds_for_the_caller() -> None:
    WHO.set("caller")
    hedge_sync(slow, fast, delay=0)
    assert WHO.get() == "fast"


def test_errors_are_the_same() -> None:
    with pytest.raises(ConnectionRefusedError) as caught:
        hedge_sync(failing, failing, delay=1)
    assert isinstance(caught.value, EveryAttemptFailed)
    with pytest.raises(ValueError, match="delay"):
        hedge_sync(fast, delay="soon")


def test_arguments_and_partials_go_through() -> None:
    async def add(one: int, two: int) -> int:
        return one + two

    assert hedge_sync(add, add, args=(1,), kwargs={"two": 2}, delay=1).value == 3
    assert hedge_sync(partial(add, 1, 2), delay=1).value == 3
    assert hedge_sync(lambda: add(1, 2), delay=1).value == 3


def test_a_stream_is_an_iterator_that_can_be_left() -> None:
    result = hedge_sync(items, items, delay=1)
    assert isinstance(result.value, SyncWinner)
    assert list(result.value) == [0, 1, 2]
    with hedge_sync(items, delay=1).value as stream:
        assert next(stream) == 0
    assert TOLD == ["closed", "closed"]


def test_a_context_is_one_and_hears_of_errors() -> None:
    result = hedge_sync(opened, delay=1)
    assert isinstance(result.value, SyncHeld)

    def use() -> None:
        with result.value as inside:
            assert inside == "inside"
            raise KeyError("mine")

    with pytest.raises(KeyError):
        use()
    assert TOLD == ["rolled back"]


def test_alternatives_are_an_iterator() -> None:
    async def other() -> str:
        await asyncio.sleep(0.05)
        return "other"

    result = hedge_sync(fast, other, mode="race", losers="keep")
    assert [each.value for each in result.alternatives] == ["other"]


def test_what_is_plainly_sync_is_refused() -> None:
    """A thread cannot be cancelled: its call would go on, and be paid for."""

    def sync() -> None: ...

    with pytest.raises(TypeError, match="is a sync function"):
        hedge_sync(sync, fast)  # type: ignore[arg-type]  # that is the point


def test_a_caller_within_a_running_loop_is_served_and_blocks_only_its_own() -> None:
    async def main() -> str:
        return hedge_sync(slow, fast, delay=0.01).value

    assert asyncio.run(main()) == "fast"


def test_a_caller_within_the_background_loop_is_told_to_await() -> None:
    async def nested() -> object:
        return hedge_sync(fast, delay=1).value

    with pytest.raises(RuntimeError, match="await it there instead"):
        hedge_sync(nested, delay=1)


def test_threads_share_the_one_loop() -> None:
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.extend(hedge_sync(fast, slow, delay=5).value for _ in range(20)))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert answers == ["fast"] * 100
    assert sum(thread.name == "hedgerow" for thread in threading.enumerate()) == 1


HEADER = """
import asyncio, os, sys, threading
from hedgerow import hedge_sync
async def fast():
    await asyncio.sleep(0.01)
    return 'fast'
"""


def clean(code: str, before: str = "") -> str:
    """What a process of its own says, which ends well and with all warnings on says nothing else."""
    command = [sys.executable, "-X", "dev", "-c", before + HEADER + code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_who_is_interrupted_leaves_nothing_running() -> None:
    out = clean(
        """
import signal
ended = threading.Event()
async def late():
    try:
        asyncio.get_running_loop().call_later(0.05, os.kill, os.getpid(), signal.SIGINT)
        await asyncio.sleep(60)
    finally:
        ended.set()
try:
    hedge_sync(late)
except KeyboardInterrupt:
    print('interrupted', ended.wait(10), hedge_sync(fast).value)
"""
    )
    assert out == "interrupted True fast\n"


def test_the_process_ends_at_once_and_closes_what_ran() -> None:
    out = clean(
        """
async def late():
    try:
        await asyncio.sleep(60)
    finally:
        print('closed', flush=True)
print(hedge_sync(fast, late, mode='race', losers='keep').value, flush=True)
"""
    )
    assert out == "fast\nclosed\n"


def test_a_call_at_the_very_end_says_that_it_is_the_end() -> None:
    out = clean(
        "print(hedge_sync(fast).value)",
        before="""
import atexit
@atexit.register
def last():  # registered before hedgerow's own, so it runs after it
    try:
        hedge_sync(fast)
    except RuntimeError as error:
        print(error)
""",
    )
    assert out == "fast\nthe process ends: hedging has been shut down\n"


def test_a_child_of_a_fork_has_a_loop_of_its_own() -> None:
    out = clean(
        """
import warnings
warnings.filterwarnings('ignore', category=DeprecationWarning)  # of forking with threads, which is what is tried here
print(hedge_sync(fast).value, flush=True)
for _ in range(3):
    pid = os.fork()
    if pid == 0:
        print('child', hedge_sync(fast).value, flush=True)
        grandchild = os.fork()
        if grandchild == 0:
            print('grandchild', hedge_sync(fast).value, flush=True)
            sys.exit()
        os.waitpid(grandchild, 0)
        sys.exit()
    assert os.waitpid(pid, 0)[1] == 0
print('parent', hedge_sync(fast).value)
"""
    )
    assert out == "fast\n" + "child fast\ngrandchild fast\n" * 3 + "parent fast\n"


def test_a_fork_while_other_threads_call_does_not_hang() -> None:
    out = clean(
        """
import warnings
warnings.filterwarnings('ignore', category=DeprecationWarning)
stop = threading.Event()
def call():
    while not stop.is_set():
        hedge_sync(fast)
threads = [threading.Thread(target=call) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(20):
    pid = os.fork()
    if pid == 0:
        code = 0 if hedge_sync(fast).value == 'fast' else 1
        os._exit(code)
    assert os.waitpid(pid, 0)[1] == 0
stop.set()
for thread in threads: thread.join()
print('done')
"""
    )
    assert out == "done\n"


def test_a_stream_of_the_parent_is_not_read_by_its_child() -> None:
    out = clean(
        """
import warnings
warnings.filterwarnings('ignore', category=DeprecationWarning)
async def items():
    yield 1
    yield 2
stream = hedge_sync(items).value
assert next(stream) == 1
pid = os.fork()
if pid == 0:
    try:
        next(stream)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
print(next(stream))
stream.close()
"""
    )
    assert out == "this belongs to the process that was forked, not to its child: call anew\n2\n"


def test_multiprocessing_pools_work_under_fork_and_spawn() -> None:
    out = clean(
        """
import multiprocessing, warnings
warnings.filterwarnings('ignore', category=DeprecationWarning)
def ask(number):
    return number, hedge_sync(fast).value
hedge_sync(fast)
with multiprocessing.get_context('fork').Pool(2) as pool:
    print(pool.map(ask, range(3)))
"""
    )
    assert out == "[(0, 'fast'), (1, 'fast'), (2, 'fast')]\n"
