"""Pools that a reload has put others in the place of: closed when the last request that may use them is over."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from hedgerow.http.client import Pool

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.flight import Flight

INTERVAL = 1.0
"""Seconds between two looks at who still uses them."""


class _Old(NamedTuple):
    pools: Collection[Pool]
    flights: set[Flight]
    """The requests that began when these were in use; each may still hedge or fail over to any of them."""


class Retirement:
    """Where they wait."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._waiting: list[_Old] = []
        self._timer: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Pools that are not closed yet."""
        return sum(len(old.pools) for old in self._waiting) + len(self._closing)

    def add(self, pools: Collection[Pool]) -> None:
        """No request that begins from now on uses these."""
        if pools:
            self._waiting.append(_Old(pools, set(self._gateway.flights)))
            self._arm()

    async def close(self) -> None:
        """Close them all now, and look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        await asyncio.gather(*(pool.close() for old in waiting for pool in old.pools), *self._closing)

    def _arm(self) -> None:
        if self._timer is None:
            self._timer = self._gateway.loop.call_later(INTERVAL, self._look)

    def _look(self) -> None:
        self._timer = None
        waiting, self._waiting = self._waiting, []
        for old in waiting:
            old.flights.intersection_update(self._gateway.flights)
            if old.flights or any(pool.busy or pool.waiting for pool in old.pools):
                self._waiting.append(old)
                continue
            for pool in old.pools:
                task = self._gateway.loop.create_task(pool.close(), name=f"close {pool.name}")
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        if self._waiting:
            self._arm()
