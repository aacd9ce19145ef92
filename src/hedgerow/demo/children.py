"""Child processes of the demo: started, awaited until ready, watched while in use, and always cleaned up."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Sequence
from typing import TypeVar

import msgspec

from hedgerow.errors import HedgerowError

READY_WITHIN = 20.0
"""Seconds a child may take from its start to its ready line (a loaded machine, cold file cache)."""

STOP_WITHIN = 5.0
"""Seconds a child may take to end after SIGTERM before it is killed."""

STDERR_LINES = 20
"""How much of a failed child's stderr is shown."""


T = TypeVar("T")


class ChildFailed(HedgerowError):
    """A process of the demo did not start, or ended while it was needed; the message carries its last words."""


class Ready(msgspec.Struct, frozen=True):
    """The one line of JSON that a child prints on stdout once it accepts connections."""

    ready: bool
    url: str
    pid: int


class Child:
    """One `python -m hedgerow ...` process that has said it is ready."""

    __slots__ = ("_drain", "_process", "_tail", "name", "url")

    def __init__(
        self, name: str, url: str, process: asyncio.subprocess.Process, tail: deque[str], drain: asyncio.Task[None]
    ) -> None:
        self.name = name
        self.url = url
        self._process = process
        self._tail = tail
        self._drain = drain

    async def ended(self) -> ChildFailed:
        """Wait until the process is over, which it should not be; returns the error to raise."""
        status = await self._process.wait()
        await self._drain
        return _failed(self.name, f"ended with status {status} while it was needed", self._tail)


@contextlib.asynccontextmanager
async def child(name: str, *arguments: str) -> AsyncIterator[Child]:
    """Run `python -m hedgerow` with `arguments` for the length of the block.

    Raises `ChildFailed` with the end of its stderr when no ready line comes.
    """
    process = await asyncio.create_subprocess_exec(
        # -P: nothing in the folder the user happens to be in shall be imported.
        *(sys.executable, "-P", "-m", "hedgerow", *arguments),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        # Ctrl-C in a terminal goes to the whole process group: only the demo itself shall hear it, and stop the rest.
        start_new_session=True,
    )
    tail: deque[str] = deque(maxlen=STDERR_LINES)
    drain = asyncio.ensure_future(_drain(process.stderr, tail))
    try:
        ready = await _ready(name, process, tail, drain)
        yield Child(name, ready.url, process, tail, drain)
    finally:
        await _stop(process)
        await drain


async def while_alive(children: Sequence[Child], work: Coroutine[None, None, T]) -> T:
    """The result of `work`; when a child ends first, `work` is cancelled and `ChildFailed` raised."""
    task = asyncio.ensure_future(work)
    watchers = [asyncio.ensure_future(one.ended()) for one in children]
    try:
        await asyncio.wait([task, *watchers], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise next(watcher for watcher in watchers if watcher.done()).result()
        return task.result()
    finally:
        for one in (task, *watchers):
            one.cancel()
        await asyncio.gather(task, *watchers, return_exceptions=True)


async def _ready(name: str, process: asyncio.subprocess.Process, tail: deque[str], drain: asyncio.Task[None]) -> Ready:
    stdout = process.stdout
    assert stdout is not None  # noqa: S101 - asked for above
    try:
        async with asyncio.timeout(READY_WITHIN):
            line = await stdout.readline()
            if line:
                return msgspec.json.decode(line, type=Ready)
            status = await process.wait()
            await drain
    except TimeoutError:
        raise _failed(name, f"was not ready after {READY_WITHIN:.0f} s", tail) from None
    except msgspec.MsgspecError:
        raise _failed(name, f"printed {line[:80]!r} in place of its ready line", tail) from None
    raise _failed(name, f"ended with status {status} before it was ready", tail)


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_WITHIN):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _drain(stream: asyncio.StreamReader | None, tail: deque[str]) -> None:
    """Keep reading, so that the child never blocks on a full pipe."""
    assert stream is not None  # noqa: S101 - asked for above
    async for line in stream:
        tail.append(line.decode(errors="replace").rstrip())


def _failed(name: str, what: str, tail: deque[str]) -> ChildFailed:
    words = "\n".join(f"  {line}" for line in tail) or "  (nothing on stderr)"
    return ChildFailed(f"{name} {what}; its last words:\n{words}")
