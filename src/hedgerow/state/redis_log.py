"""Short-lived logs in Redis: what one process appends under a key, all can read, and follow as it grows.

Each is a Redis stream, which keeps the order of entries and lets a reader go on where it stopped. It needs
`hedgerow[redis]`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator
from typing import Any

log = logging.getLogger("hedgerow.state")
QUEUED = 10_000
"""Entries that wait to be written; more are dropped."""
PATIENCE = 2.0
"""Seconds that Redis may take to answer."""
_BATCH = 100
_FIELD = b"e"
_Entry = tuple[str, bytes, float, int | None]


class RedisLog:
    """What is appended is written in order and soon. A Redis that is away costs entries, never a request its time."""

    def __init__(self, url: str, *, prefix: str = "hedgerow:") -> None:
        """`url` as redis-py takes it: `redis://`, `rediss://` or `unix://`. Raises `ValueError` for any other."""
        from redis.asyncio import Redis

        self._redis: Any = Redis.from_url(url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)
        # One that waits for news may wait for longer.
        self._patient: Any = Redis.from_url(url, socket_connect_timeout=PATIENCE)
        self._prefix = prefix
        self._queue: asyncio.Queue[_Entry] = asyncio.Queue(QUEUED)
        self._writer: asyncio.Task[None] | None = None
        self._failing = False

    def append(self, key: str, entry: bytes, ttl: float, *, keep: int | None = None) -> None:
        """Add an entry; the log is gone `ttl` seconds after its last one. `keep`: only so many are kept, about."""
        try:
            self._queue.put_nowait((self._prefix + key, entry, ttl, keep))
        except asyncio.QueueFull:
            self._complain("it is too slow")
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write())

    async def read(self, key: str) -> tuple[list[bytes], bytes]:
        """All entries, and where to `follow` from. None if there is no such log, and while Redis is away."""
        try:
            found = await self._redis.xrange(self._prefix + key)
        except self._errors() as error:
            self._complain(str(error))
            return [], b"0"
        self._failing = False
        return [fields[_FIELD] for _, fields in found], found[-1][0] if found else b"0"

    async def follow(self, key: str, after: bytes, limit: float) -> AsyncGenerator[bytes, None]:
        """Entries after that one as they come, for `limit` seconds at most. Ends early when Redis is away."""
        loop = asyncio.get_running_loop()
        until = loop.time() + limit
        while (left := until - loop.time()) > 0.0:
            try:
                found = await self._patient.xread({self._prefix + key: after}, block=max(1, int(left * 1000)))
            except self._errors() as error:
                self._complain(str(error))
                return
            for entry_id, fields in found[0][1] if found else ():
                after = entry_id
                yield fields[_FIELD]

    async def close(self) -> None:
        """Write what waits, within a moment, and let go."""
        if self._writer is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._queue.join()
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        await self._redis.aclose()
        await self._patient.aclose()

    async def _write(self) -> None:
        while True:
            batch = [await self._queue.get()]
            while len(batch) < _BATCH and not self._queue.empty():
                batch.append(self._queue.get_nowait())
            pipeline = self._redis.pipeline(transaction=False)
            for key, entry, ttl, keep in batch:
                pipeline.xadd(key, {_FIELD: entry}, maxlen=keep, approximate=False)
                pipeline.pexpire(key, max(1, int(ttl * 1000)))
            try:
                await pipeline.execute()
                self._failing = False
            except self._errors() as error:
                self._complain(str(error))
            for _ in batch:
                self._queue.task_done()

    def _complain(self, why: str) -> None:
        if not self._failing:  # once until it is back
            self._failing = True
            log.warning("Redis cannot be used, and what it was to share is not shared: %s", why)

    @staticmethod
    def _errors() -> tuple[type[Exception], ...]:
        from redis.exceptions import RedisError

        return (RedisError, OSError, TimeoutError)
