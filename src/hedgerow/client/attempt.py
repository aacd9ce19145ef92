"""One attempt in process: a task of its own that calls a target and, of a stream, goes on to read it."""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from contextlib import AsyncExitStack, suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

from hedgerow.client.failing import failure_of
from hedgerow.events import Failure, FailureClass, Outcome, Role

if TYPE_CHECKING:
    from hedgerow.client.flight import Flight
    from hedgerow.client.target import Target
    from hedgerow.policy.health import Probe
    from hedgerow.policy.plan import Place

_EMPTY = Failure(FailureClass.EMPTY, "its stream ended without a first item")
_BY_ITSELF = Failure(FailureClass.PROTOCOL, "it cancelled itself")


class Attempt:
    """Everything of it happens in its own task and its own copy of the caller's context, from the call of its target
    to the closing of its stream: whoever opened something closes it.
    """

    __slots__ = (
        "_flight",
        "_reading",
        "_wanted",
        "context",
        "end_error",
        "ended_at",
        "error",
        "failure",
        "first_token_at",
        "index",
        "items",
        "kept",
        "launched_at",
        "outcome",
        "over",
        "place",
        "probe",
        "rejected",
        "role",
        "stream",
        "target",
        "task",
        "value",
        "waiter",
    )

    def __init__(
        self, flight: Flight, index: int, target: Target, place: Place, role: Role, now: float, context: Context
    ) -> None:
        self._flight = flight
        self.index = index
        self.target = target
        self.place = place
        self.role = role
        self.launched_at = now
        self.context = context
        self.probe: Probe | None = None
        self.first_token_at: float | None = None
        self.ended_at: float | None = None
        self.outcome: Outcome | None = None
        self.failure: Failure | None = None
        self.error: BaseException | None = None
        self.end_error: BaseException | None = None
        """What its stream broke off with, after it had won."""
        self.value: Any = None
        self.stream: Any = None
        """What was opened, where the answer is not a plain value."""
        self.items: deque[Any] = deque()
        """Those read of the stream and not handed on yet."""
        self.over = False
        """Nothing more of it is of interest: it failed, lost, or was handed on in full."""
        self.kept = False
        """It has lost, and is to run on to its end all the same."""
        self.rejected = False
        self.waiter: asyncio.Future[None] | None = None
        """Of a caller who wants the next item: something has changed."""
        self._wanted: asyncio.Event | None = None
        self._reading = True
        self.task = flight.loop.create_task(self._run(), context=context)

    async def _run(self) -> None:
        flight = self._flight
        try:
            made = self.target.call(*flight.args, **flight.kwargs)
            if inspect.isawaitable(made):
                made = await made
            if hasattr(made, "__aiter__"):
                await self._read(made)
            elif hasattr(made, "__aenter__"):
                async with made as inside:
                    await (self._read(inside) if hasattr(inside, "__aiter__") else self._hold(inside))
            else:
                await self._answer(made)
        except asyncio.CancelledError:
            if not self.over:
                self._fell(_BY_ITSELF, RuntimeError("the target cancelled its own task"))
        except Exception as error:
            if not self.over:
                self._fell(failure_of(error, flight.classify), error)
        except BaseException as error:  # the interpreter is to end
            flight.crashed_by(error)
            raise

    async def _answer(self, value: Any) -> None:
        """The whole answer is here."""
        if self.over:
            await close(value)
            return
        self.value = value
        self.first_token_at = self._flight.time()
        await self._flight.answered(self)

    async def _hold(self, inside: Any) -> None:
        """What a context manager gave is the answer; it stays open for as long as the caller has it."""
        self.value = self.stream = inside
        self.first_token_at = self._flight.time()
        await self._flight.answered(self)
        await self._serve(None)

    async def _read(self, opened: Any) -> None:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(close, opened)
            self.stream = opened
            flight, is_first = self._flight, self._flight.first_token
            iterator = aiter(opened)
            async for item in iterator:
                self.items.append(item)
                if is_first is None or is_first(item):
                    break
            else:
                self._fell(_EMPTY, None)
                return
            self.first_token_at = flight.time()
            await flight.answered(self)
            await self._serve(iterator)

    async def _serve(self, iterator: Any) -> None:
        """Read on, an item whenever one is wanted, until the end or until nobody wants any more."""
        wanted = self._wanted = asyncio.Event()
        while not self.over:
            if not self.kept:
                self._reading = False
                await wanted.wait()
                self._reading = True
                wanted.clear()
                if iterator is None or self.over:
                    return
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                self._end()
                return
            self._flight.last_item_at = self._flight.time()
            self.items.append(item)
            self._tell()

    def _fell(self, failure: Failure, error: BaseException | None) -> None:
        """It raised, or has nothing to say."""
        if self._flight.winner is self:
            self.break_off(failure, error or RuntimeError(failure.message))
        else:
            self._flight.failed(self, failure, error)

    def break_off(self, failure: Failure, error: BaseException) -> None:
        """The winner's stream ends with this error."""
        self.end_error = error
        self.over = True
        self._flight.landed(self, failure)
        self._tell()
        if self._reading:
            self.task.cancel()

    def _end(self) -> None:
        """The stream is over."""
        self.over = True
        if self.kept:
            self._flight.answered_late(self, list(self.items))
        else:
            self._flight.landed(self)
            self._tell()

    def _tell(self) -> None:
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    def want(self) -> None:
        """Another item, please; or, once it is `over`, an end."""
        if self._wanted is not None:
            self._wanted.set()

    def run_on(self) -> None:
        """It has lost, and what it says is wanted all the same."""
        self.kept = True
        self.want()

    async def leave(self) -> None:
        """The caller wants no more of it; returns once what the target opened is closed."""
        if not self.over:
            self.over = True
            self._flight.left(self)
            self._tell()
        if self._reading and not self.task.done():
            self.task.cancel()
        self.want()
        if not self.task.done():
            await asyncio.wait((self.task,))

    def abandon(self) -> None:
        """As `leave`, by somebody who cannot wait."""
        if not self.over:
            self._flight.left(self)
            self.cancel()

    def cancel(self) -> None:
        """Break it off: whatever it waits for is cancelled, what it has opened is closed, in its own task."""
        self.over = True
        self.task.cancel()


async def close(thing: Any) -> None:
    """Close an answer that nobody wants, where it can be closed."""
    closing = getattr(thing, "aclose", None) or getattr(thing, "close", None)
    if closing is not None and not isinstance(thing, type):
        with suppress(Exception):
            done = closing()
            if inspect.isawaitable(done):
                await done
