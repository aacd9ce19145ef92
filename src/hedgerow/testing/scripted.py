"""Targets that do what a test tells them, and keep a book of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import Any, Generic, Literal, Self, TypeVar, overload

T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)

How = Literal["answered", "raised", "cancelled"]


@dataclass(slots=True)
class Called:
    """One call of a scripted target. Times are the event loop's, in seconds.

    `at`: when it was called. `how` and `ended` are None while it runs. A stream that was closed early counts as
    cancelled.
    """

    at: float
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    how: How | None = None
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class _Step:
    after: float
    value: Any
    items: Sequence[Any] | None
    gap: float
    error: BaseException | type[BaseException] | None
    closing: float


class Scripted(Generic[R_co]):
    """An async callable, or one that gives an async iterator, for `hedge`, `Hedger` and `Target`. `scripted` makes it.

    `calls` is its book, in the order of the calls.
    """

    def __init__(self, name: str, step: _Step) -> None:
        self.__name__ = self.__qualname__ = self.name = name
        self.calls: list[Called] = []
        self._steps = [step]

    def then(
        self,
        *,
        after: float = 0.0,
        value: Any = None,
        items: Sequence[Any] | None = None,
        gap: float = 0.0,
        error: BaseException | type[BaseException] | None = None,
        closing: float = 0.0,
    ) -> Self:
        """What the next call does, and all that follow where nothing more is said; as for `scripted`."""
        if (items is None) != (self._steps[0].items is None):
            raise ValueError(f"{self.name}: either every call gives a stream, or none does")
        self._steps.append(_step(self.name, after, value, items, gap, error, closing))
        return self

    @property
    def running(self) -> int:
        """How many calls have not ended: 0 once nothing of them is left behind."""
        return sum(call.how is None for call in self.calls)

    def __call__(self, *args: Any, **kwargs: Any) -> R_co:
        step = self._steps[min(len(self.calls), len(self._steps) - 1)]
        call = Called(asyncio.get_running_loop().time(), args, kwargs)
        self.calls.append(call)
        made: Any = _answer(step, call) if step.items is None else _stream(step, step.items, call)
        return made  # type: ignore[no-any-return]  # which of the two is said by `scripted`

    def __repr__(self) -> str:
        return f"<scripted {self.name}, called {len(self.calls)} times>"


@overload
def scripted(
    name: str = ...,
    *,
    after: float = ...,
    items: Sequence[T],
    gap: float = ...,
    error: BaseException | type[BaseException] | None = ...,
    closing: float = ...,
) -> Scripted[AsyncGenerator[T]]: ...
@overload
def scripted(
    name: str = ...,
    *,
    after: float = ...,
    value: T,
    error: BaseException | type[BaseException] | None = ...,
    closing: float = ...,
) -> Scripted[Coroutine[Any, Any, T]]: ...
@overload
def scripted(
    name: str = ...,
    *,
    after: float = ...,
    error: BaseException | type[BaseException] | None = ...,
    closing: float = ...,
) -> Scripted[Coroutine[Any, Any, str]]: ...
def scripted(
    name: str = "target",
    *,
    after: float = 0.0,
    value: Any = None,
    items: Sequence[Any] | None = None,
    gap: float = 0.0,
    error: BaseException | type[BaseException] | None = None,
    closing: float = 0.0,
) -> Scripted[Any]:
    """A target, called `name`, that answers after `after` seconds with `value`; left out, with its name. With `error`
    it raises that.

    With `items` it is a stream: the first comes after `after` seconds, the others with `gap` between them, and then the
    `error`, if any. `after=inf` hangs. When it is cancelled it takes `closing` seconds to end. Seconds pass by
    `asyncio.sleep`: in virtual time at once. What each call got and how it ended is in `.calls`; `.then(...)` says what
    the next call does.
    """
    return Scripted(name, _step(name, after, value, items, gap, error, closing))


def _step(
    name: str,
    after: float,
    value: Any,
    items: Sequence[Any] | None,
    gap: float,
    error: BaseException | type[BaseException] | None,
    closing: float,
) -> _Step:
    if min(after, gap, closing) < 0:
        raise ValueError(f"{name}: seconds must be 0 or more")
    if items is not None and value is not None:
        raise ValueError(f"{name}: a value or items, not both")
    return _Step(after, name if value is None else value, items, gap, error, closing)


async def _answer(step: _Step, call: Called) -> Any:
    with _entry(call):
        await _wait(step.after, step.closing)
        if step.error is not None:
            raise step.error
        return step.value


async def _stream(step: _Step, items: Sequence[Any], call: Called) -> AsyncGenerator[Any]:
    with _entry(call):
        wait = step.after
        for item in items:
            await _wait(wait, step.closing)
            try:
                yield item
            except GeneratorExit:
                await asyncio.sleep(step.closing)
                raise
            wait = step.gap
        if not items:
            await _wait(wait, step.closing)
        if step.error is not None:
            raise step.error


async def _wait(seconds: float, closing: float) -> None:
    try:
        if seconds == inf:
            await asyncio.get_running_loop().create_future()
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        await asyncio.sleep(closing)
        raise


@contextmanager
def _entry(call: Called) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    try:
        yield
    except (asyncio.CancelledError, GeneratorExit):
        call.how = "cancelled"
        raise
    except BaseException:
        call.how = "raised"
        raise
    else:
        call.how = "answered"
    finally:
        call.ended = loop.time()
