"""The same for sync code: calls run on a loop in the background, where a loser can really be cancelled."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from hedgerow.client.background import background
from hedgerow.client.calls import Call, hedge
from hedgerow.client.result import Result
from hedgerow.client.stream import Winner
from hedgerow.client.target import Target

T = TypeVar("T")
_END = object()


def hedge_sync(primary: Call, *backups: Call, args: Sequence[Any] = (), **options: Any) -> Result[Any]:
    """As `hedge`, for callers without a loop; `options` are the same. Targets must still be async callables.

    A thread cannot be cancelled, so a sync callable that lost would run on and be paid for: such targets are refused
    with a `TypeError`. A stream that wins is an iterator, and a context manager to leave it early. To hedge the calls
    of `OpenAI()` or `Anthropic()` give them the transport for sync clients.
    """
    for target in (primary, *backups):
        _check(target.call if isinstance(target, Target) else target)
    there = background()
    result = there.call(hedge(primary, *backups, args=args, **options))
    if isinstance(result.value, Winner):
        result.value = SyncWinner(result.value)
    return result


def _check(call: object) -> None:
    """Raises `TypeError` for what is plainly sync; of a lambda or an object nobody can say before it is called."""
    while hasattr(call, "func"):  # functools.partial
        call = call.func
    plain = inspect.isroutine(call) and getattr(call, "__name__", "") != "<lambda>"
    if plain and not (inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)):
        raise TypeError(
            f"{getattr(call, '__name__', call)} is a sync function: once called it cannot be cancelled, so it cannot "
            "be hedged. Give an async one, or use the transport for sync clients"
        )


class SyncWinner(Generic[T]):
    """The winner's stream as an iterator; leave it as a context manager, or `close` it, to stop early."""

    def __init__(self, winner: Winner[T]) -> None:
        self._winner = winner

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        item = background().call(_next(self._winner))
        if item is _END:
            raise StopIteration
        return item  # type: ignore[no-any-return]

    def close(self) -> None:
        """Break the stream off, where it is not over."""
        background().call(self._winner.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


async def _next(winner: Winner[Any]) -> Any:
    try:
        return await anext(winner)
    except StopAsyncIteration:
        return _END
