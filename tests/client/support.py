"""Scripted targets that keep a book of what became of each call, and what may never be left behind."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, TypeVar

from hedgerow.testing import VirtualLoop

T = TypeVar("T")


class Book:
    """What became of each call of its targets: when it was called, and how and when it ended."""

    def __init__(self) -> None:
        self.called: list[tuple[str, float]] = []
        self.ended: list[tuple[str, str, float]] = []

    def target(
        self, name: str, seconds: float, answer: Any = None, *, error: Exception | None = None, closing: float = 0.0
    ) -> Callable[..., Coroutine[Any, Any, Any]]:
        """After `seconds` it answers (with its name, if nothing else is said) or raises; it needs `closing` seconds to
        end when it is cancelled.
        """

        async def call(*_args: Any, **_kwargs: Any) -> Any:
            with self.entry(name):
                try:
                    await asyncio.sleep(seconds)
                except asyncio.CancelledError:
                    await asyncio.sleep(closing)
                    raise
                if error is not None:
                    raise error
                return name if answer is None else answer

        call.__name__ = call.__qualname__ = name
        return call

    def stream(
        self, name: str, *gaps: float, error: Exception | None = None, closing: float = 0.0
    ) -> Callable[..., AsyncIterator[str]]:
        """An async generator function: an item after each of the gaps, then the error, if any."""

        async def items(*_args: Any, **_kwargs: Any) -> AsyncIterator[str]:
            with self.entry(name):
                try:
                    for number, gap in enumerate(gaps):
                        await asyncio.sleep(gap)
                        yield f"{name}{number}"
                    if error is not None:
                        raise error
                finally:
                    await asyncio.sleep(closing)

        items.__name__ = items.__qualname__ = name
        return items

    def context(self, name: str, seconds: float) -> Callable[..., Any]:
        """An async context manager that takes so long to enter."""

        @asynccontextmanager
        async def inside(*_args: Any, **_kwargs: Any) -> AsyncIterator[str]:
            with self.entry(name):
                await asyncio.sleep(seconds)
                yield name

        return inside

    @contextmanager
    def entry(self, name: str) -> Iterator[None]:
        """One call."""
        loop = asyncio.get_running_loop()
        self.called.append((name, loop.time()))
        how = "crashed"
        try:
            yield
            how = "done"
        except asyncio.CancelledError:
            how = "cancelled"
            raise
        except GeneratorExit:
            how = "closed"
            raise
        except Exception as error:
            how = type(error).__name__
            raise
        finally:
            self.ended.append((name, how, loop.time()))

    async def some_end(self) -> None:
        """Until a call has ended, in the very turn of the loop in which it did."""
        while not self.ended:  # noqa: ASYNC110  # an event would take a turn more
            await asyncio.sleep(0)

    @property
    def open(self) -> int:
        """Calls that have not ended."""
        return len(self.called) - len(self.ended)


class Closable:
    """An answer that holds something open, such as a response."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = 0

    async def aclose(self) -> None:
        self.closed += 1

    def __repr__(self) -> str:
        return self.name


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `main(loop)` in virtual time; at its end nothing may be left: no task, no future whose error nobody took, no
    line in the log but those of hedgerow itself.
    """
    loop = VirtualLoop()
    said: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: said.append(context))
    heard = Heard()
    logging.getLogger("asyncio").addHandler(heard)
    try:
        result = loop.run_until_complete(main(loop))
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        assert left == []
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()
        logging.getLogger("asyncio").removeHandler(heard)
    gc.collect(1)  # what was forgotten speaks up when it is collected
    assert said == []
    assert heard.lines == []
    return result


class Heard(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def turn(times: int = 3) -> None:
    """Let the loop turn: what is ready has then run."""
    for _ in range(times):
        await asyncio.sleep(0)


async def read(items: AsyncIterator[T], into: list[T]) -> None:
    """Read a stream to its end."""
    async for item in items:
        into.append(item)  # noqa: PERF401  # what was read before an error is to be there
