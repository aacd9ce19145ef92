"""Once a second: how late the loop is, and this process's metrics written where other processes look for them."""

from __future__ import annotations

import asyncio
from typing import Final

from hedgerow.telemetry.metrics import Metrics

EVERY: Final = 1.0
"""Seconds. What a process has counted since is lost when it is killed, unless it was shown."""


class Pulse:
    """Beats until it is closed."""

    def __init__(self, metrics: Metrics, loop: asyncio.AbstractEventLoop) -> None:
        self._metrics = metrics
        self._loop = loop
        self._writing: asyncio.Future[None] | None = None
        self._due = loop.time() + EVERY
        self._timer = loop.call_at(self._due, self._beat)

    def _beat(self) -> None:
        now = self._loop.time()
        self._metrics.lag.add(max(now - self._due, 0.0))
        self._due = now + EVERY
        self._timer = self._loop.call_at(self._due, self._beat)
        shared = self._metrics.shared
        if shared is not None and (self._writing is None or self._writing.done()):
            samples = self._metrics.samples()
            self._writing = self._loop.run_in_executor(None, shared.write, samples, self._metrics.taken)

    async def close(self) -> None:
        """No more events will come: write the last numbers."""
        self._timer.cancel()
        shared, metrics = self._metrics.shared, self._metrics
        if shared is not None:
            samples = metrics.samples()
            await self._loop.run_in_executor(None, shared.write, samples, metrics.taken)
            shared.close()
