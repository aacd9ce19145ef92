"""One event loop in a thread of its own, where sync code has its calls run.

It is started by the first call and ends with the process. A child of a fork has none until it calls, and then its own.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from typing import Any, TypeVar

from hedgerow.client.contexts import carry_over

T = TypeVar("T")
_STOP_WITHIN = 2.0
"""Seconds that what still runs has to close what it opened when the process ends."""


class Background:
    """The thread with its loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._ends = False
        self._thread = threading.Thread(target=self._run, name="hedgerow", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # the interpreter ends
            self.loop.close()
            raise

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
        finally:
            self.loop.close()

    @property
    def here(self) -> bool:
        """Whether the caller is in this very thread."""
        return threading.current_thread() is self._thread

    def call(self, what: Coroutine[Any, Any, T]) -> T:
        """Run it there to its end. Whoever is interrupted while it waits has it cancelled.

        The coroutine has a copy of the caller's context; what it has set of that holds for the caller from then on.
        Raises `RuntimeError` where nobody would ever run it.
        """
        if (why := self._why_not()) is not None:
            what.close()
            raise RuntimeError(why)
        before = copy_context()
        done: Future[tuple[T, Context]] = asyncio.run_coroutine_threadsafe(_telling(what), self.loop)
        try:
            result, after = done.result()
        except BaseException:
            done.cancel()
            raise
        carry_over(before, after)
        return result

    def _why_not(self) -> str | None:
        if self.here:
            return "sync hedging was called by something that hedgerow itself runs: await it there instead"
        if self._ends:
            return "the process ends: hedging has been shut down"
        if self is not _one:
            return "this belongs to the process that was forked, not to its child: call anew"
        return None

    def stop(self) -> None:
        """Cancel what runs, give it a moment, and end the thread."""
        self._ends = True
        if self.here or not self._thread.is_alive():
            return
        ended = asyncio.run_coroutine_threadsafe(_end_all(), self.loop)
        with suppress(TimeoutError):
            ended.result(_STOP_WITHIN)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_STOP_WITHIN)


async def _telling(what: Coroutine[Any, Any, T]) -> tuple[T, Context]:
    result = await what
    return result, copy_context()


async def _end_all() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


_lock = threading.Lock()
_one: Background | None = None
_parents: list[Background | None] = []
"""Of the processes that this one was forked from: never touched, nor collected, since that would close the loops."""


def background() -> Background:
    """The one of this process."""
    global _one  # it is the process's
    with _lock:
        if _one is None:
            _one = Background()
        return _one


def _stop() -> None:
    if _one is not None:
        _one.stop()


def _forked() -> None:
    """In the child: the thread has stayed with the parent, and whoever held the lock, too."""
    global _one, _lock
    _parents.append(_one)
    _one, _lock = None, threading.Lock()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
