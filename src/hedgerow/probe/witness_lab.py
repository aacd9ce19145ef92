"""The lab's own books: they have every request by its key, when its client left, and what was generated after that."""

from __future__ import annotations

import asyncio
from urllib.parse import quote

import msgspec

from hedgerow.probe.witness import HALF, TOO_LATE, Cancelled, Get, Said, Ticks, Witness


class _Record(msgspec.Struct):
    ending: str
    tokens: int
    left_at: float | None = None
    tokens_after: int = 0


class _Log(msgspec.Struct):
    records: list[_Record]


class _Stats(msgspec.Struct):
    name: str
    clock: float


_STEP = 0.02
_MARGIN = 10.0
"""Seconds past the expected end after which an answer is not waited for any more."""
_UNSEEN = 1.0
"""Seconds after which a request that is not in the books is taken never to have been read."""


class LabWitness(Witness):
    """`GET /lab/log`."""

    name = "the lab's log"

    def __init__(self, get: Get) -> None:
        self._get = get
        self._clock = asyncio.get_running_loop().time

    async def there(self) -> bool:
        """Whether the upstream is a lab."""
        return await self._offset() is not None

    async def before(self) -> str | None:
        """Others do not matter: the books are by request."""
        return None

    async def after(self, cancelled: Cancelled) -> Said:
        """Wait until the lab is done with it."""
        offset = await self._offset() or 0.0
        record: _Record | None = None
        async for now in Ticks(_STEP, cancelled.ends_at + _MARGIN):
            record = await self._record(cancelled.key)
            if record is None and now - cancelled.at > _UNSEEN:
                return Said(True, "it never read the request", None, 0)
            if record is not None and record.ending != "open":
                break
        if record is None:
            return Said(None, "its log does not have the request")
        noticed = None if record.left_at is None else record.left_at - offset
        if record.ending == "open":
            return Said(False, "it is still at it", noticed)
        if record.left_at is None:
            return Said(None, "it was done before it saw the cancel", None, 0)
        made = record.tokens - record.tokens_after
        if cancelled.nearly_whole(made):
            return Said(None, TOO_LATE, noticed, record.tokens_after)
        return Said(record.tokens_after < HALF * cancelled.rest(made), "", noticed, record.tokens_after)

    async def _record(self, key: str) -> _Record | None:
        body = await self._get(f"/lab/log?key={quote(key, safe='')}")
        records = [] if body is None else msgspec.json.decode(body, type=_Log).records
        return records[-1] if records else None

    async def _offset(self) -> float | None:
        """How much its clock is ahead of ours."""
        before = self._clock()
        body = await self._get("/lab/stats")
        try:
            stats = None if body is None else msgspec.json.decode(body, type=_Stats)
        except msgspec.DecodeError:
            return None
        return None if stats is None else stats.clock - (before + self._clock()) / 2
