"""The same for sync code: calls run on a loop in the background, where a loser can really be cancelled."""

from __future__ import annotations

import inspect
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack, cast, overload

from hedgerow.client.background import background
from hedgerow.client.calls import hedge
from hedgerow.client.options import Options
from hedgerow.client.result import Alternative, Result
from hedgerow.client.stream import Held, Winner
from hedgerow.client.target import Callee, Holding, Plain, Streaming, Target, inner

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_END = object()


@overload
def hedge_sync(  # type: ignore[overload-overlap]  # of what is both, the first holds
    primary: Streaming[T],
    *backups: Streaming[T],
    args: Sequence[Any] = ...,
    kwargs: Mapping[str, Any] = ...,
    **options: Unpack[Options],
) -> SyncResult[SyncWinner[T]]: ...
@overload
def hedge_sync(
    primary: Holding[T],
    *backups: Holding[T],
    args: Sequence[Any] = ...,
    kwargs: Mapping[str, Any] = ...,
    **options: Unpack[Options],
) -> SyncResult[SyncHeld[T]]: ...
@overload
def hedge_sync(
    primary: Plain[T],
    *backups: Plain[T],
    args: Sequence[Any] = ...,
    kwargs: Mapping[str, Any] = ...,
    **options: Unpack[Options],
) -> SyncResult[T]: ...
def hedge_sync(
    primary: Callee[Any],
    *backups: Callee[Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    **options: Unpack[Options],
) -> SyncResult[Any]:
    """As `hedge`, for callers without a loop; `primary`, `backups` and `options` are the same. Targets must still be
    async callables.

    A thread cannot be cancelled, so a sync callable that lost would run on and be paid for: such targets are refused
    with a `TypeError`. A stream that wins is an iterator, and a context manager to leave it early; alternatives are an
    iterator. All calls run in one thread in the background; a caller that is itself in a running loop blocks that. To
    hedge the calls of `OpenAI()` or `Anthropic()` give them the transport for sync clients.

    ```python
    from hedgerow import hedge_sync
    from hedgerow.testing import scripted

    print(hedge_sync(scripted("slow", after=1), scripted("quick"), delay=0.01).value)
    ```
    """
    for target in (primary, *backups):
        _check(target.call if isinstance(target, Target) else target)
    called = hedge(primary, *backups, args=args, kwargs=kwargs or {}, **options)
    result = _run(cast("Coroutine[Any, Any, Result[Any]]", called))
    value = result.value
    if isinstance(value, Winner):
        value = SyncWinner(value)
    elif isinstance(value, Held):
        value = SyncHeld(value)
    others: SyncAlternatives[Any] = SyncAlternatives(result.alternatives)
    told = result.latency, result.hedged, result.reason
    return SyncResult(value, result.target, result._attempts, result._started_at, *told, others)


def _run(what: Coroutine[Any, Any, T]) -> T:
    return background().call(what)


def _check(call: object) -> None:
    """Raises `TypeError` for what is plainly sync; of a lambda or an object nobody can say before it is called."""
    call = inner(call)
    if not inspect.isroutine(call) or call.__name__ == "<lambda>":
        return
    if not any(map(_is_async, (call, inspect.unwrap(call)))):  # asynccontextmanager and SDKs wrap async ones
        raise TypeError(
            f"{call.__name__} is a sync function: once called it cannot be cancelled, so it cannot "
            "be hedged. Give an async one, or use the transport for sync clients"
        )


def _is_async(call: object) -> bool:
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


class SyncResult(Result[T], Generic[T], eq=False):
    """The answer that won: a `Result`, whose streams, contexts and `alternatives` are for sync code."""

    if TYPE_CHECKING:
        alternatives: SyncAlternatives[Any]  # type: ignore[assignment]  # it takes the place of the other


class SyncWinner(Generic[T]):
    """The winner's stream as an iterator; leave it as a context manager, or `close` it, to stop early."""

    def __init__(self, winner: Winner[T]) -> None:
        self._winner, self._there = winner, background()

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        item = self._there.call(_next(self._winner))
        if item is _END:
            raise StopIteration
        return cast("T", item)

    def close(self) -> None:
        """Break the stream off, where it is not over, and wait until what the target opened is closed."""
        self._there.call(self._winner.aclose())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class SyncHeld(Generic[T_co]):
    """What the winner's context manager gave, which stays open until this is left: `with result.value as it`."""

    def __init__(self, held: Held[T_co]) -> None:
        self._held, self._there = held, background()

    def __enter__(self) -> T_co:
        return self._there.call(self._held.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._there.call(self._held.__aexit__(kind, error, traceback))

    def close(self) -> None:
        """Leave it."""
        self._there.call(self._held.aclose())


class SyncAlternatives(Generic[T]):
    """The answers of a call's losers, as they come."""

    def __init__(self, said: Any) -> None:
        self._said, self._there = said, background()

    def __iter__(self) -> Iterator[Alternative[T]]:
        return self

    def __next__(self) -> Alternative[T]:
        item = self._there.call(_next(self._said))
        if item is _END:
            raise StopIteration
        return cast("Alternative[T]", item)


async def _next(items: Any) -> Any:
    try:
        return await anext(items)
    except StopAsyncIteration:
        return _END
