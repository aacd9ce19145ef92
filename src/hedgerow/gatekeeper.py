"""Asks the gates of a route: the built-in ones at once, a user's own Python ones within their time.

The gates that can wait or fail (`Own`) are the reason that this is no decision code: a coroutine runs as a task on the
loop, a plain function in a thread, and both are given up when their time is over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

from hedgerow.answer import Answer
from hedgerow.policy.gates.gate import Gate, Verdict, judge


class Handle(Protocol):
    """A judgement that is under way."""

    def cancel(self) -> object:
        """Give it up: `done` is not called any more."""


class Gatekeeper:
    """The gates of one route, in order. Shared by all its requests."""

    __slots__ = ("_gates", "_loop")

    def __init__(self, gates: Sequence[Gate], loop: asyncio.AbstractEventLoop) -> None:
        self._gates = tuple(gates)
        self._loop = loop

    def judge(self, answer: Answer, request: bytes, done: Callable[[Verdict], None]) -> Handle | None:
        """Tells `done` what the gates say, once.

        With built-in gates only, or when one of them rejects before another's turn, it is called before this returns
        (None). Otherwise later, from the loop; until then the handle that is returned can call it off. A Python gate
        that raises, or is not done within its time, has not judged: see `Verdict.errors`. Of the start of a stream
        (`answer.complete` False) Python gates are not asked.
        """
        done(judge(self._gates, answer, request))
        return None
