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
NEWS = 0.25
"""Seconds after which it is looked who else wants news."""
_BATCH = 100
_FIELD = b"e"
_Entry = tuple[str, bytes, float, int | None]


class _Follower:
    """Who wants the entries of a log after a certain one; None when there will be none."""

    def __init__(self, key: bytes, after: tuple[int, int]) -> None:
        self.key = key
        self.after = after
        self.news: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def next(self, until: float) -> bytes | None:
        """The next entry; None when there will be none by this time of the loop."""
        try:
            async with asyncio.timeout_at(until):
                return await self.news.get()
        except TimeoutError:
            return None

    def take(self, key: bytes, number: tuple[int, int], entry: bytes) -> None:
        """An entry of some log."""
        if key == self.key and number > self.after:
            self.after = number
            self.news.put_nowait(entry)


class RedisLog:
    """What is appended is written in order and soon. A Redis that is away costs entries, never a request its time."""

    def __init__(self, url: str, *, prefix: str = "hedgerow:") -> None:
        """`url` as redis-py takes it: `redis://`, `rediss://` or `unix://`. Raises `ValueError` for any other."""
        from redis.asyncio import Redis

        self._redis: Any = Redis.from_url(url, socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)
        self._prefix = prefix
        self._queue: asyncio.Queue[_Entry] = asyncio.Queue(QUEUED)
        self._writer: asyncio.Task[None] | None = None
        self._followers: set[_Follower] = set()
        self._reader: asyncio.Task[None] | None = None
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
        self._recovered()
        return [fields[_FIELD] for _, fields in found], found[-1][0] if found else b"0"

    async def follow(self, key: str, after: bytes, limit: float) -> AsyncGenerator[bytes, None]:
        """Entries after that one as they come, for `limit` seconds at most. Ends early when Redis is away."""
        follower = _Follower((self._prefix + key).encode(), _number(after))
        self._followers.add(follower)
        if self._reader is None:
            self._reader = asyncio.get_running_loop().create_task(self._read_for_all())
        until = asyncio.get_running_loop().time() + limit
        try:
            while (entry := await follower.next(until)) is not None:
                yield entry
        finally:
            self._followers.discard(follower)

    async def close(self) -> None:
        """Write what waits, within a moment, and let go."""
        if self._writer is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE):
                    await self._queue.join()
            self._writer.cancel()
            await asyncio.gather(self._writer, return_exceptions=True)
        if self._reader is not None:
            self._reader.cancel()
            await asyncio.gather(self._reader, return_exceptions=True)
        await self._redis.aclose()

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
                self._recovered()
            except self._errors() as error:
                self._complain(str(error))
            for _ in batch:
                self._queue.task_done()

    async def _read_for_all(self) -> None:
        """One connection, however many follow; who begins to follow meanwhile is heard after `NEWS` seconds."""
        while self._followers:
            since: dict[bytes, tuple[int, int]] = {}
            for each in self._followers:
                since[each.key] = min(each.after, since.get(each.key, each.after))
            streams = {key: b"%d-%d" % after for key, after in since.items()}
            try:
                found = await self._redis.xread(streams, block=int(NEWS * 1000))
            except self._errors() as error:
                self._complain(str(error))
                for follower in self._followers:
                    follower.news.put_nowait(None)
                break
            for key, entries in found:
                for entry_id, fields in entries:
                    for follower in self._followers:
                        follower.take(key, _number(entry_id), fields[_FIELD])
        self._reader = None

    def _recovered(self) -> None:
        if self._failing:
            self._failing = False
            log.warning("Redis can be used again")

    def _complain(self, why: str) -> None:
        if not self._failing:  # once until it is back
            self._failing = True
            log.warning("Redis cannot be used, and what it was to share is not shared: %s", why)

    @staticmethod
    def _errors() -> tuple[type[Exception], ...]:
        from redis.exceptions import RedisError

        return (RedisError, OSError, TimeoutError)


def _number(entry_id: bytes) -> tuple[int, int]:
    """The id of an entry, as what can be compared."""
    first, _, second = entry_id.partition(b"-")
    return int(first), int(second or 0)
