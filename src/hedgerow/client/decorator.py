"""Hedging as a decorator."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, Self, TypeVar, Unpack, cast, overload

from hedgerow.client.checking import refuse_unknown
from hedgerow.client.hedger import Hedger
from hedgerow.client.options import Options
from hedgerow.client.settings import Policy, Rules
from hedgerow.client.stream import Winner

P = ParamSpec("P")
Q = ParamSpec("Q")
S = TypeVar("S")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Hedged(Protocol[P, T_co]):
    """A function whose calls are hedged, with the same arguments and the same answer."""

    @property
    def hedger(self) -> Hedger[Any]:
        """What is behind it; called, it gives the `Result`."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T_co: ...
    @overload
    def __get__(self, instance: None, owner: type[Any] | None = ..., /) -> Self: ...
    @overload
    def __get__(
        self: Hedged[Concatenate[S, Q], T], instance: S, owner: type[Any] | None = ..., /
    ) -> Callable[Q, T]: ...


class Hedging(Protocol):
    """What `hedged` gives: the decorator."""

    @overload
    def __call__(self, function: Callable[P, AsyncIterator[T]], /) -> Hedged[P, AsyncIterator[T]]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[T]], /) -> Hedged[P, Awaitable[T]]: ...


def hedged(*backups: Callable[..., Any], **options: Unpack[Options]) -> Hedging:
    """A decorator for async functions and async generator functions: calls are hedged with `backups`, or without any
    with the function itself. `options` as for `hedge`. All of them are called with the same arguments; of a method the
    first is `self`, so its backups are functions that take it too, such as other methods of its class.

    What the function returned is returned, or its items are given. Its `hedger` attribute is the object behind it.

    ```python
    from hedgerow import hedged

    @hedged(delay=0.5)
    async def answer(prompt: str) -> str:
        return f"an answer to {prompt}"
    ```
    """
    said: dict[str, Any] = dict(options)
    refuse_unknown("hedged", said, Options.__optional_keys__)
    asked = {name: said.pop(name, None) for name in ("gate", "first_token", "classify")}
    name, policy = said.pop("name", None), Policy(**cast("Rules", said))

    def decorate(function: Callable[..., Any]) -> Any:
        targets = (function, *backups) if backups else (function, function)
        named = name or getattr(function, "__qualname__", "hedged")
        hedger: Hedger[Any] = Hedger(named, targets, policy, **asked)

        @wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any:
            return (await hedger(*args, **kwargs)).value

        @wraps(function)
        async def stream(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            winner: Winner[Any]
            async with (await hedger(*args, **kwargs)).value as winner:
                async for item in winner:
                    yield item

        made: Any = stream if inspect.isasyncgenfunction(function) else call
        made.hedger = hedger
        return made

    return cast("Hedging", decorate)
