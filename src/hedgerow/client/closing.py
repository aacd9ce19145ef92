"""Closing what nobody wants any more, and seeing to it that attempts which were cancelled do end."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from inspect import isawaitable
from typing import Any

log = logging.getLogger("hedgerow")
ROUNDS = 5
"""How often an attempt that does not end is cancelled before it is left to itself."""


async def close(thing: Any) -> None:
    """Close an answer, where it can be closed; what it says to that interests nobody."""
    closing = getattr(thing, "aclose", None) or getattr(thing, "close", None)
    if closing is None or isinstance(thing, type):
        return
    try:
        with suppress(Exception):
            done = closing()
            if isawaitable(done):
                await done
    except BaseExceptionGroup as error:  # what anyio's task groups make of a generator's end
        if error.split(GeneratorExit)[1] is not None:
            raise


class Reaper:
    """Cancels again, every `grace` seconds, what has been cancelled and does not end: code that catches the
    cancellation, or hangs while it closes something.
    """

    __slots__ = ("_grace", "_left", "_loop", "_name", "_task", "_timer")

    def __init__(self, task: asyncio.Task[None], name: str, loop: asyncio.AbstractEventLoop, grace: float) -> None:
        self._task, self._name, self._loop, self._grace = task, name, loop, grace
        self._left = ROUNDS
        self._timer = loop.call_later(grace, self._again)
        task.add_done_callback(self._ended)

    def _ended(self, _task: asyncio.Task[None]) -> None:
        self._timer.cancel()

    def _again(self) -> None:
        self._left -= 1
        if self._left == ROUNDS - 1:
            log.warning("an attempt at %s goes on %g s after it was cancelled: cancelling again", *self._told())
        elif not self._left:
            log.error("an attempt at %s does not end, however often it is cancelled (every %g s)", *self._told())
            return
        self._task.cancel()
        self._timer = self._loop.call_later(self._grace, self._again)

    def _told(self) -> tuple[str, float]:
        return self._name, self._grace
