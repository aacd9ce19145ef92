"""The winner's stream, as its caller reads it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

if TYPE_CHECKING:
    from hedgerow.client.attempt import Attempt

T = TypeVar("T")


class Winner(Generic[T]):
    """An async iterator over the items of the stream that won, those included that it won with.

    Also an async context manager. Whoever stops early must leave it or call `aclose`: then what the target opened is
    closed before that returns. Attributes that are not here are those of the target's own object.
    """

    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt

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
            if attempt.waiter is not None:
                raise RuntimeError("two tasks read one stream")
            attempt.waiter = asyncio.get_running_loop().create_future()
            attempt.want()
            try:
                await attempt.waiter
            finally:
                attempt.waiter = None
        item: T = attempt.items.popleft()
        return item

    async def aclose(self) -> None:
        """Break the stream off, where it is not over, and wait until what the target opened is closed."""
        self._attempt.items.clear()
        await self._attempt.leave()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._attempt.stream, name)

    def __del__(self) -> None:
        self._attempt.abandon()
