"""The winner's stream or context, as its caller has it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from hedgerow.client.attempt import Attempt

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Open:
    """Something of the winner that is to be left, by `async with` or `aclose`. Attributes that are not here are those
    of the target's own object.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

    async def aclose(self) -> None:
        """Break it off, where it is not over, and wait until what the target opened is closed."""
        await self._attempt.leave()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._attempt.value, name)

    def __del__(self) -> None:
        attempt = self.__dict__.get("_attempt")
        if attempt is not None and not attempt.over:
            with suppress(RuntimeError):  # the loop is closed: so is what it had
                attempt.loop.call_soon_threadsafe(attempt.abandon)  # who collects garbage may be any thread


class Winner(_Open, Generic[T]):
    """An async iterator over the items of the stream that won, those included that it won with.

    Also an async context manager. Whoever stops early must leave it or call `aclose`; being cancelled while it waits
    for an item breaks it off, as it does any async generator.
    """

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> T:
        attempt = self._attempt
        while not attempt.items:
            if attempt.over:
                error, attempt.end_error = attempt.end_error, None
                if error is not None:
                    raise error
                raise StopAsyncIteration
            await self._another(attempt)
        item: T = attempt.items.popleft()
        return item

    async def _another(self, attempt: Attempt) -> None:
        """Until there is one, or an end."""
        if attempt.waiter is not None:
            raise RuntimeError("two tasks read one stream")
        attempt.waiter = attempt.loop.create_future()
        attempt.want()
        try:
            await attempt.waiter
        except asyncio.CancelledError:
            attempt.items.clear()
            await attempt.leave(in_haste=True)
            raise
        finally:
            attempt.waiter = None

    async def aclose(self) -> None:
        """Break the stream off, where it is not over, and wait until what the target opened is closed."""
        self._attempt.items.clear()
        await super().aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()


class Held(_Open, Generic[T_co]):
    """What the winner's context manager gave, which stays open until this is left: `async with result.value as it`."""

    async def __aenter__(self) -> T_co:
        inside: T_co = self._attempt.value
        return inside

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """The target's context manager is told of the error; it cannot keep it from going on."""
        if isinstance(error, Exception | asyncio.CancelledError) and not self._attempt.over:
            self._attempt.end_error = error
        await self.aclose()
        if error is not None:
            error.__traceback__ = traceback
