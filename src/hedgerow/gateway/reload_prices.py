"""Prices that change while the gateway runs: they are fetched by the process that reads the configuration."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

import msgspec

from hedgerow.errors import ConfigError
from hedgerow.gateway.blueprint import Blueprint, Source, TargetBlueprint

log = logging.getLogger("hedgerow.gateway")
FETCH = "--prices"
"""Tells the reader to fetch prices first, unless they are fresh."""
FIRST = 5.0
"""Seconds after the start until prices are looked at."""

Read = Callable[[Source], Awaitable[tuple[Blueprint, Sequence[str]]]]


class PriceUpdates:
    """Asks for prices every so often, and hands on those that came. What else the file says then is left alone."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        source: Source,
        read: Read,
        use: Callable[[Mapping[str, TargetBlueprint]], None],
    ) -> None:
        """`use` is told of all targets as the file has them now."""
        self._loop = loop
        self._source = msgspec.structs.replace(source, reader=(*source.reader, FETCH))
        self._read = read
        self._use = use
        self._every: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def obey(self, every: float | None) -> None:
        """From now on every so many seconds; None: not any more."""
        if every == self._every:
            return
        first, self._every = self._every is None, every
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if every is not None:
            self._timer = self._loop.call_later(FIRST if first else every, self._due)

    async def stop(self) -> None:
        """No more."""
        self.obey(None)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _due(self) -> None:
        self._task = self._loop.create_task(self._update(), name="prices")
        if self._every is not None:
            self._timer = self._loop.call_later(self._every, self._due)

    async def _update(self) -> None:
        try:
            blueprint, said = await self._read(self._source)
        except ConfigError as error:
            for problem in error.problems:
                log.error("prices: %s", problem)
            log.error("prices: they stay as they are")
            return
        for line in said:
            log.warning("prices: %s", line)
        self._use(blueprint.targets)


def repriced(targets: Mapping[str, TargetBlueprint], by: Mapping[str, TargetBlueprint]) -> dict[str, TargetBlueprint]:
    """The same targets, those that have theirs from the price book, and are what they were, at their new prices."""
    return {
        name: msgspec.structs.replace(target, price=found.price, listed=found.listed, price_from=found.price_from)
        if target.beside_book is not None and (found := by.get(name)) is not None and _same(found, target)
        else target
        for name, target in targets.items()
    }


def _same(one: TargetBlueprint, other: TargetBlueprint) -> bool:
    """Whether it is the price book alone that can make their prices differ."""
    known, same = (one.base_url, one.model, one.beside_book), (other.base_url, other.model, other.beside_book)
    return known == same
