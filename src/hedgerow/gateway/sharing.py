"""What several gateways tell each other of kept answers, so that each can show what another has kept."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Coroutine
from hashlib import sha256
from typing import Any

import msgspec

from hedgerow.gateway.keeping import Content, Record
from hedgerow.policy.alternatives import Saying
from hedgerow.state.redis_log import RedisLog


class _Event(msgspec.Struct, omit_defaults=True):
    """One thing that happened to a record: it was opened (`route`, `pending`), something was said, an attempt passed.

    `at`: when, by the clock on the wall; gateways have no other in common.
    """

    at: float
    route: str | None = None
    pending: int = 0
    said: Saying | None = None
    passed: bool = False


log = logging.getLogger("hedgerow.gateway")
_decode = msgspec.json.Decoder(_Event).decode


class Shared:
    """The records of all gateways, in a log each."""

    def __init__(self, log: RedisLog, loop: asyncio.AbstractEventLoop) -> None:
        self._log = log
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def opened(self, record: Record) -> None:
        """Something is kept of a request from now on."""
        self._tell(record, _Event(_now(), record.route, record.pending))
        if record.content is not None:
            self._log.append(_asked(record.content), record.request_id.encode(), record.ttl, keep=1)

    def said(self, record: Record, saying: Saying) -> None:
        """One more answer; it is as old as it is, whether or not it was taken over from an earlier request."""
        self._tell(record, _Event(_now() - (self._loop.time() - saying.at), said=saying))

    def passed(self, record: Record) -> None:
        """One of those that were pending has answered, or will not."""
        self._tell(record, _Event(_now(), passed=True))

    async def find(self, tenant: str, request_id: str) -> tuple[Record, bytes] | None:
        """What another gateway keeps of this request, and where to `follow` it from."""
        entries, after = await self._log.read(_key(tenant, request_id))
        record: Record | None = None
        for event in map(_decode, entries):
            if event.route is not None:  # a request may have a name that another had
                record = Record(request_id, event.route, tenant, None, event.pending, 0.0)
            elif record is not None:
                self._take(record, event)
        return None if record is None else (record, after)

    async def follow(self, record: Record, after: bytes, limit: float) -> AsyncGenerator[None, None]:
        """Let the record hear what is new, for `limit` seconds at most."""
        async for entry in self._log.follow(_key(record.tenant, record.request_id), after, limit):
            self._take(record, _decode(entry))
            yield
            if not record.pending:
                return

    async def asked_before(self, content: Content) -> list[Saying]:
        """What was said to the latest request of the same content, to whatever gateway."""
        names, _ = await self._log.read(_asked(content))
        found = await self.find(content[0], names[-1].decode()) if names else None
        return [] if found is None else found[0].alternatives.sayings()

    def run(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Do it beside everything else; it is given up at `close`."""
        task = self._loop.create_task(_whatever_happens(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Write what is not written, and let go."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._log.close()

    def _tell(self, record: Record, event: _Event) -> None:
        try:
            entry = msgspec.json.encode(event)
        except Exception:  # whoever says something is not to suffer for it
            log.exception("hedgerow itself failed to share what is kept; please report it")
        else:
            self._log.append(_key(record.tenant, record.request_id), entry, record.ttl)

    def _take(self, record: Record, event: _Event) -> None:
        if event.said is not None:
            at = self._loop.time() - max(_now() - event.at, 0.0)
            record.add(msgspec.structs.replace(event.said, at=at))
        elif event.passed:
            record.passed()


async def _whatever_happens(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except Exception:
        log.exception("hedgerow itself failed to share what is kept; please report it")


def _now() -> float:
    return time.time()  # noqa: TID251  # nothing is decided by it but how long ago something was said elsewhere


def _key(tenant: str, request_id: str) -> str:
    return "kept:" + sha256(f"{tenant}\0{request_id}".encode()).hexdigest()


def _asked(content: Content) -> str:
    return "asked:" + sha256(content[0].encode() + b"\0" + content[1]).hexdigest()
