"""One attempt in process: a task of its own that calls a target and, of a stream, goes on to read it."""

from __future__ import annotations

import asyncio
from asyncio import Task
from collections import deque
from collections.abc import Callable
from contextvars import Context
from inspect import isawaitable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from hedgerow.client.closing import Reaper, close
from hedgerow.client.failing import SyncTarget, Unjudged, failure_of, tell_of_mistake
from hedgerow.client.gates import tell_of_streams
from hedgerow.events import Failure, FailureClass, Outcome, Role

if TYPE_CHECKING:
    from hedgerow.client.flight import Flight
    from hedgerow.policy.health import Probe
    from hedgerow.policy.plan import Place

_EMPTY = Failure(FailureClass.EMPTY, "its stream ended without a first item")
_BY_ITSELF = Failure(FailureClass.PROTOCOL, "it cancelled itself")


class Attempt:
    """Everything of it happens in its own task and its own copy of the caller's context, from the call of its target
    to the closing of what that opened: whoever opened something closes it.
    """

    task: Task[None]
    probe: Probe | None = None
    first_token_at: float | None = None
    ended_at: float | None = None
    outcome: Outcome | None = None
    failure: Failure | None = None
    error: BaseException | None = None
    value: Any = None
    """The answer: a value, or what a context manager gave, or the object whose items are read."""
    streams: bool | None
    """Whether the answer is items that are read one by one; None: it is a plain value, which is all there is."""
    items: deque[Any]
    """Those read of the stream and not handed on yet."""
    end_error: BaseException | None = None
    """What its stream broke off with, after it had won; or what the block ended with that held its context."""
    won = False
    kept = False
    """It has lost, and is to run on to its end all the same."""
    over: bool
    """Nothing more is expected of it: it failed, lost, was handed on in full, or its caller left."""
    rejected: bool
    reading: bool
    """It waits for its target; else for its caller."""
    waiter: asyncio.Future[None] | None = None
    """Of a caller who wants the next item: something has changed."""
    _wanted: asyncio.Future[None] | None = None
    """Of its own task while it waits for its caller, or to hear whether it has won."""

    def __init__(
        self,
        flight: Flight,
        index: int,
        call: Callable[..., Any],
        place: Place,
        role: Role,
        now: float,
        context: Context,
    ) -> None:
        self.over = self.rejected = False
        self.reading = True
        self.streams = None
        self._flight = flight
        self.loop = loop = flight.home.loop
        self.index = index
        self.call = call
        self.target = target = place.candidate.target
        self.place = place
        self.role = role
        self.launched_at = now
        self.context = context
        # In the next turn of the loop, whatever tasks the loop makes otherwise.
        self.task = Task(self._run(), loop=loop, context=context, name=target)

    async def _run(self) -> None:
        flight = self._flight
        try:
            made = self.call(*flight.args, **flight.kwargs)
            kind, waited = type(made), False
            if kind is CoroutineType or (not _opens(kind) and isawaitable(made)):
                made, waited = await made, True
                kind = type(made)
            if hasattr(kind, "__aiter__"):
                await self._read(made, made)
            elif not waited and hasattr(kind, "__aenter__"):  # what was awaited may be one, and is an answer
                async with made as inside:
                    await (self._read(inside, made) if hasattr(type(inside), "__aiter__") else self._hold(inside))
            elif not waited:
                raise SyncTarget(self.target, made)
            elif flight.call.checks or self.over:
                await self._answer(made)
            else:  # nobody is to judge it
                self.value = made
                self.first_token_at = flight.time()
                flight.answered(self)
                if not self.won:
                    await self._answer(made)
        except asyncio.CancelledError:
            if not self.over:
                self._cancelled()
        except Exception as error:
            if not self.over:
                tell_of_mistake(self.target, error)
                self._fell(failure_of(error, flight.call.classify), error)
        except BaseException as error:  # the interpreter is to end
            flight.crashed_by(error)
            raise
        finally:
            del self._flight  # which holds this: leave no cycle to the collector

    async def _answer(self, value: Any) -> None:
        """See the whole answer to its fate. Where it does not win, it is closed, if it can be."""
        flight = self._flight
        try:
            if flight.call.checks and not self.over:
                self.value = value
                self.first_token_at = flight.time()
                await flight.judge(self)
            if not self.won and not self.over:
                self.reading = False
                await self._wait()
        finally:
            if not self.won and not self.kept:
                winner = flight.winner
                if winner is None or winner.value is not value:
                    await close(value)

    async def _hold(self, inside: Any) -> None:
        """What a context manager gave is the answer; it stays open for as long as the caller has it."""
        self.value, self.streams = inside, False
        self.first_token_at = self._flight.time()
        if self._flight.call.checks:
            await self._flight.judge(self)
        else:
            self._flight.answered(self)
        self.reading = False
        while not self.over:
            await self._wait()
        if (error := self.end_error) is not None:  # as the caller's own block ended
            raise error

    async def _read(self, stream: Any, opened: Any) -> None:
        """Read a stream to its first item, and further as its caller wants it."""
        self.value, self.streams = stream, True
        self.items = deque()
        try:
            flight, is_first = self._flight, self._flight.call.first_token
            if flight.call.checks:
                self._unjudged(flight)
            iterator = aiter(stream)
            async for item in iterator:
                self.items.append(item)
                if is_first is None or is_first(item):
                    break
            else:
                self._fell(_EMPTY, None)
                return
            self.first_token_at = flight.time()
            flight.answered(self)
            await self._serve(iterator)
        finally:
            if stream is opened:  # a context manager closes its own
                await close(opened)

    def _unjudged(self, flight: Flight) -> None:
        """Nobody will ask the gates."""
        if flight.run.strict:
            raise Unjudged(self.target)
        tell_of_streams(self.target)

    async def _serve(self, iterator: Any) -> None:
        """Read on, an item whenever one is wanted, until the end or until nobody wants any more."""
        items, flight = self.items, self._flight
        while not self.over:
            if not self.kept and not await self._wanted_more():
                return
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                self._end()
                return
            flight.last_item_at = flight.time()
            items.append(item)
            self._tell()

    async def _wanted_more(self) -> bool:
        self.reading = False
        await self._wait()
        self.reading = True
        self._flight.last_item_at = self._flight.time()
        return not self.over

    async def _wait(self) -> None:
        """Until its caller wants something, or its fate is known."""
        self._wanted = self.loop.create_future()
        try:
            await self._wanted
        finally:
            self._wanted = None

    def _cancelled(self) -> None:
        """Not by us: the target did it to itself, or somebody ends all tasks of the loop."""
        if self.task.cancelling():
            self.over = True
            self._flight.called_off(self)
        else:
            self._fell(_BY_ITSELF, RuntimeError("the target cancelled its own task"))

    def _fell(self, failure: Failure, error: BaseException | None) -> None:
        """It raised, or has nothing to say."""
        if self.won:
            self._broke_off(failure, error or RuntimeError(failure.message))
        else:
            self._flight.failed(self, failure, error)

    def break_off(self, failure: Failure, error: BaseException) -> None:
        """The winner is to end with this error."""
        self._broke_off(failure, error)
        self.stop()

    def _broke_off(self, failure: Failure, error: BaseException) -> None:
        self.end_error = error
        self.over = True
        self._flight.landed(self, failure)
        self._tell()

    def _end(self) -> None:
        """The stream is over."""
        self.over = True
        if self.kept:
            self._flight.answered_late(self)
        else:
            self._flight.landed(self)
            self._tell()

    def _tell(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def want(self) -> None:
        """Another item, please; or, once something of it has changed, look."""
        if self._wanted is not None and not self._wanted.done():
            self._wanted.set_result(None)

    def stop(self) -> None:
        """It is `over`: let its task close what it has opened and end, whatever it waits for."""
        if not self.task.done():
            self._remember()
            Reaper(self.task, self.target, self.loop, self._flight.course.grace)
            if self.reading:
                self.task.cancel()
            else:
                self.want()

    def _remember(self) -> None:
        """Nobody else waits for the end of its task: keep hold of it."""
        self._flight.home.hold(self.task)

    def cancel(self) -> None:
        """Break it off: whatever it waits for is cancelled, what it has opened is closed, in its own task."""
        self.over = True
        self.stop()

    def keep(self) -> None:
        """It has lost, and what it says is wanted all the same."""
        self.kept = True
        self._remember()
        if self.first_token_at is not None and self.streams is None:
            self.over = True
        self.want()

    def abandon(self) -> None:
        """Its caller has forgotten it."""
        self._flight.left(self)

    async def leave(self, *, in_haste: bool = False) -> None:
        """The caller wants no more of it; returns once what the target opened is closed, or in haste after `grace`."""
        within = self._flight.course.grace if in_haste and not self.task.done() else None
        if not self.over:
            self._flight.left(self)
            self._tell()
        if not self.task.done():
            await asyncio.wait((self.task,), timeout=within)


def _opens(kind: type) -> bool:
    """Whether it is a stream or a context manager, which some awaitables are as well."""
    return hasattr(kind, "__aiter__") or hasattr(kind, "__aenter__")
