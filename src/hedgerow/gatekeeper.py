"""Asks the gates of a route: the built-in ones at once, those that may take their time or fail within a limit.

These are the reason that this is no decision code: a coroutine function runs as a task on the loop, a plain one in a
thread. Both are given up when their time is over; of a thread that means that nobody waits for it any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from hedgerow.answer import Answer
from hedgerow.policy.gates.gate import Gate, Rejection, Verdict, ask, judge, not_judged, rejection_of
from hedgerow.threads import Threads

THREADS = 8
"""Gates of one route that run in threads at the same time; further ones wait, and their time runs."""


class InThread(msgspec.Struct, frozen=True):
    """A gate that is given so many seconds, in a thread."""

    gate: Gate
    timeout: float

    @property
    def name(self) -> str:
        """The gate's own."""
        return self.gate.name


class OwnGate(msgspec.Struct, frozen=True):
    """A plain function of one's own, given an answer and its request's body."""

    name: str
    check: Callable[[Answer, bytes], object]

    def __call__(self, answer: Answer, request: bytes, /) -> Rejection | None:
        return rejection_of(self.name, self.check(answer, request))


class OnLoop(msgspec.Struct, frozen=True):
    """A coroutine function of one's own as a gate (see `rejection_of`) that is given so many seconds."""

    name: str
    check: Callable[[Answer, bytes], Awaitable[object]]
    timeout: float


AnyGate = Gate | InThread | OnLoop


class Handle(Protocol):
    """A judgement that is under way."""

    def cancel(self) -> object:
        """Give it up: `done` is not called any more."""


class Gatekeeper:
    """The gates of one route, in order. Shared by all its requests."""

    __slots__ = ("_at_once", "_gates", "_threads")

    def __init__(self, gates: Sequence[AnyGate]) -> None:
        self._gates = tuple(gates)
        self._at_once = tuple(gate for gate in gates if not isinstance(gate, InThread | OnLoop))
        self._threads = Threads(THREADS)

    def judge(self, answer: Answer, request: bytes, done: Callable[[Verdict], None]) -> Handle | None:
        """Tells `done` what the gates say, once.

        With gates that judge at once only, or when one of them rejects before another's turn, it is called before this
        returns (None). Otherwise later, from the loop; until then the handle that is returned can call it off. A gate
        that raises, or is not done within its time, has not judged: see `Verdict.errors`. Of the start of a stream
        (`answer.complete` False) gates that take their time are not asked.
        """
        if not answer.complete or len(self._at_once) == len(self._gates):
            done(judge(self._at_once, answer, request))
            return None
        judgement = _Judgement(self._gates, self._threads, answer, request, done)
        judgement.proceed()
        return None if judgement.over else judgement


class _Judgement:
    """All gates asked about one answer, one after the other."""

    __slots__ = ("_answer", "_at", "_done", "_errors", "_gates", "_request", "_task", "_threads", "_timer", "over")

    def __init__(
        self,
        gates: Sequence[AnyGate],
        threads: Threads,
        answer: Answer,
        request: bytes,
        done: Callable[[Verdict], None],
    ) -> None:
        self._gates = gates
        self._threads = threads
        self._answer = answer
        self._request = request
        self._done = done
        self._at = 0
        self._errors: tuple[str, ...] = ()
        self._task: asyncio.Task[Rejection | str | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.over = False

    def proceed(self) -> None:
        """Ask on, until a gate has to be waited for, or all is said."""
        while self._at < len(self._gates):
            gate = self._gates[self._at]
            if isinstance(gate, InThread | OnLoop):
                self._wait_for(gate)
                return
            verdict = judge((gate,), self._answer, self._request)
            self._errors += verdict.errors
            if verdict.rejection is not None:
                self._tell(verdict.rejection)
                return
            self._at += 1
        self._tell(None)

    def cancel(self) -> None:
        """Give it up."""
        self.over = True
        self._stop()

    def _wait_for(self, gate: InThread | OnLoop) -> None:
        loop, turn = asyncio.get_running_loop(), self._at
        self._timer = loop.call_later(gate.timeout, self._late, gate)
        if isinstance(gate, OnLoop):
            self._task = task = loop.create_task(_listen(gate, self._answer, self._request), name=f"gate {gate.name}")
            task.add_done_callback(
                lambda done: self._hear(turn, "CancelledError" if done.cancelled() else done.result())
            )
            return

        def work() -> None:
            if self.over or self._at != turn:
                return  # its time was over before its turn came
            said = _try(gate, self._answer, self._request)
            with suppress(RuntimeError):  # the loop is closed: nobody is left to hear it
                loop.call_soon_threadsafe(self._hear, turn, said)

        try:
            self._threads.run(work)
        except RuntimeError:
            loop.call_soon(self._hear, turn, "no further thread")

    def _hear(self, turn: int, said: Rejection | str | None) -> None:
        """A gate's answer; a str is why it has none."""
        if self.over or turn != self._at:
            return
        self._stop()
        if isinstance(said, Rejection):
            self._tell(said)
            return
        if said is not None:
            self._errors += (not_judged(self._gates[turn].name, said),)
        self._at += 1
        self.proceed()

    def _late(self, gate: InThread | OnLoop) -> None:
        self._hear(self._at, f"it took more than {gate.timeout:g} s")

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()

    def _tell(self, rejection: Rejection | None) -> None:
        self.over = True
        self._done(Verdict(rejection, self._at, self._errors))


async def _listen(gate: OnLoop, answer: Answer, request: bytes) -> Rejection | str | None:
    try:
        for each in (answer, *answer.others):
            if (rejection := rejection_of(gate.name, await gate.check(each, request))) is not None:
                return rejection
    except (Exception, SystemExit) as error:
        return type(error).__name__
    return None


def _try(gate: InThread, answer: Answer, request: bytes) -> Rejection | str | None:
    try:
        return ask(gate.gate, answer, request)
    except BaseException as error:  # whatever it is, it is not this thread's to raise
        return type(error).__name__
