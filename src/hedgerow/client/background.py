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
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

T = TypeVar("T")
_STOP_WITHIN = 2.0
"""Seconds that what still runs has to close what it opened when the process ends."""
_MISSING = object()


class Background:
    """The thread with its loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="hedgerow", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()

    @property
    def here(self) -> bool:
        """Whether the caller is in this very thread."""
        return threading.current_thread() is self._thread

    def call(self, what: Coroutine[Any, Any, T]) -> T:
        """Run it there to its end. Whoever is interrupted while it waits has it cancelled.

        The coroutine has a copy of the caller's context; what it has set of that holds for the caller from then on.
        """
        if self.here:
            what.close()
            raise RuntimeError("sync hedging was called by something that hedgerow itself runs: await it there instead")
        before = copy_context()
        done: Future[tuple[T, list[tuple[ContextVar[Any], Any]]]] = asyncio.run_coroutine_threadsafe(
            _telling(what), self.loop
        )
        try:
            result, after = done.result()
        except BaseException:
            done.cancel()
            raise
        for variable, value in after:
            if before.get(variable, _MISSING) is not value:
                variable.set(value)
        return result

    def stop(self) -> None:
        """Cancel what runs, give it a moment, and end the thread."""
        if self.here or not self._thread.is_alive():
            return
        ended = asyncio.run_coroutine_threadsafe(_end_all(), self.loop)
        with suppress(TimeoutError):
            ended.result(_STOP_WITHIN)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_STOP_WITHIN)


async def _telling(what: Coroutine[Any, Any, T]) -> tuple[T, list[tuple[ContextVar[Any], Any]]]:
    result = await what
    return result, list(copy_context().items())


async def _end_all() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


_lock = threading.Lock()
_one: Background | None = None


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
    _one, _lock = None, threading.Lock()


atexit.register(_stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
