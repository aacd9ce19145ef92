"""On real loops: asyncio's and uvloop's, and inside anyio's scopes."""

from __future__ import annotations

import asyncio
import gc
import importlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import anyio
import pytest

from hedgerow import Hedger, Policy, hedge

RUNS: dict[str, Callable[[Coroutine[Any, Any, Any]], Any]] = {
    "asyncio": asyncio.run,
    "uvloop": lambda main: importlib.import_module("uvloop").run(main),
}
ENDED: list[str] = []


async def slow() -> str:
    try:
        await asyncio.sleep(30)
    finally:
        ENDED.append("slow")
    return "slow"


async def fast() -> str:
    await asyncio.sleep(0.001)
    return "fast"


async def items() -> AsyncIterator[int]:
    try:
        for number in range(1_000):
            await asyncio.sleep(0)
            yield number
    finally:
        ENDED.append("items")


async def everything() -> None:
    assert (await hedge(slow, fast, delay=0.01)).value == "fast"
    async with (await hedge(slow_items, items, delay=0.01)).value as stream:
        assert [await anext(stream) for _ in range(500)] == list(range(500))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await hedge(slow, slow, delay=0.01)
    hedger: Hedger[str] = Hedger("r", [fast, fast], Policy(delay=1))
    assert {each.value for each in await asyncio.gather(*(hedger() for _ in range(500)))} == {"fast"}
    await asyncio.sleep(0)


async def slow_items() -> AsyncIterator[int]:
    await slow()
    yield 0


@pytest.mark.parametrize("loop", RUNS)
def test_everything_works_on_real_loops(loop: str) -> None:
    ENDED.clear()
    RUNS[loop](everything())
    assert sorted(ENDED) == ["items", "slow", "slow", "slow", "slow"]


async def scoped() -> None:
    """anyio cancels again at each turn of the loop, for as long as a task waits."""
    ENDED.clear()
    with anyio.move_on_after(0.05):
        await hedge(slow, slow, delay=0.01)
    await asyncio.sleep(0.01)
    assert ENDED == ["slow", "slow"]
    ENDED.clear()
    async with anyio.create_task_group() as group:

        async def reader() -> None:
            async for _ in (await hedge(items)).value:
                await anyio.sleep(0.001)

        group.start_soon(reader)
        await anyio.sleep(0.03)
        group.cancel_scope.cancel()
    await asyncio.sleep(0.01)
    assert ENDED == ["items"]


async def scoped_targets() -> None:
    async def within() -> str:
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(anyio.sleep, 0)
        return "within"

    async def given() -> AsyncIterator[int]:
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0.001)
            yield 1
            yield 2

    assert (await hedge(within)).value == "within"
    async with (await hedge(given)).value as stream:
        assert await anext(stream) == 1


@pytest.mark.parametrize("what", [scoped, scoped_targets])
def test_it_works_inside_anyios_scopes_and_they_inside_it(
    what: Callable[[], Coroutine[Any, Any, None]], caplog: pytest.LogCaptureFixture
) -> None:
    anyio.run(what, backend="asyncio")
    gc.collect()  # an error that nobody took speaks up
    assert caplog.messages == []
