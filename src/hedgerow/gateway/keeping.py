"""Where the answers that were kept wait for whoever asks for them: in memory, bounded in time, number and bytes."""

from __future__ import annotations

import logging
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from hedgerow.policy.alternatives import MOST, Alternative, Alternatives, Saying

if TYPE_CHECKING:
    from hedgerow.gateway.aftermath import Straggler
    from hedgerow.gateway.sharing import Shared

log = logging.getLogger("hedgerow.gateway")
MOST_REQUESTS = 10_000
MOST_BYTES = 64 * 1024 * 1024
"""What is kept at most; with more the oldest go first."""
Content = tuple[str, bytes]
"""A tenant, and a digest of what it asked for."""
Hearer = Callable[[Alternative | None], None]
"""Told of an alternative that is new or that one more has agreed with; None when no more will come."""


def alternatives_path(request_id: str) -> str:
    """The page where a client finds what is kept of this request."""
    return f"/v1/hedgerow/requests/{request_id}/alternatives"


class Record:
    """What is kept of one request. Only its own `tenant` may see it."""

    __slots__ = (
        "_hearers",
        "alternatives",
        "content",
        "pending",
        "request_id",
        "route",
        "size",
        "tenant",
        "timer",
        "ttl",
    )

    def __init__(
        self, request_id: str, route: str, tenant: str, content: Content | None, pending: int, ttl: float
    ) -> None:
        self.request_id = request_id
        self.route = route
        self.tenant = tenant
        self.content = content
        self.alternatives = Alternatives()
        self.pending = pending
        """Attempts that may still answer."""
        self.ttl = ttl
        """Seconds for which it is kept."""
        self.size = 0
        self.timer: TimerHandle | None = None
        self._hearers: list[Hearer] = []

    @property
    def name(self) -> tuple[str, str]:
        """Whose it is, and what it is called."""
        return self.tenant, self.request_id

    def hear(self, hearer: Hearer) -> None:
        """Have it told what is there, and what comes, until `leave`."""
        for alternative in self.alternatives:
            hearer(alternative)
        if self.pending:
            self._hearers.append(hearer)
        else:
            hearer(None)

    def leave(self, hearer: Hearer) -> None:
        """It is to be told nothing more."""
        if hearer in self._hearers:
            self._hearers.remove(hearer)

    def add(self, saying: Saying) -> None:
        """One more answer."""
        alternative = self.alternatives.add(saying)
        self._tell(self._hearers, alternative)

    def passed(self) -> None:
        """One of those that were pending has answered, or will not."""
        self.pending -= 1
        if not self.pending:
            self.silence()

    def silence(self) -> None:
        """No more will come."""
        hearers, self._hearers = self._hearers, []
        self._tell(hearers, None)

    @staticmethod
    def _tell(hearers: Iterable[Hearer], alternative: Alternative | None) -> None:
        for hearer in tuple(hearers):
            try:
                hearer(alternative)
            except Exception:  # whoever says something is not to suffer for it
                log.exception("hedgerow itself failed to tell of an alternative; please report it")

    def view(self) -> dict[str, Any]:
        """For people and programs."""
        return {
            "request_id": self.request_id,
            "route": self.route,
            "pending": self.pending,
            "disagreement": self.alternatives.disagreement,
            "alternatives": [alternative.view() for alternative in self.alternatives],
        }


class Keeping:
    """All that is kept by one gateway. Each record leaves at the end of its time, sooner if there is no room."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        requests: int = MOST_REQUESTS,
        room: int = MOST_BYTES,
        shared: Shared | None = None,
    ) -> None:
        self._loop = loop
        self.shared = shared
        """Where other gateways keep theirs and see ours; None where this one is alone."""
        self._requests = requests
        self._all = self._room = room
        self._records: dict[tuple[str, str], Record] = {}
        self._by_content: dict[Content, Record] = {}
        self.stragglers: set[Straggler] = set()
        """Losers that run on."""

    def __len__(self) -> int:
        """Requests of which something is kept."""
        return len(self._records)

    @property
    def size(self) -> int:
        """Bytes of what is kept, about."""
        return self._all - self._room

    def find(self, request_id: str, tenant: str) -> Record | None:
        """What is kept of this request, if it is this tenant's."""
        return self._records.get((tenant, request_id))

    def has(self, content: Content | None) -> bool:
        """Whether something was said to a request like this one."""
        return content is not None and content in self._by_content

    def open(self, record: Record, earlier: Iterable[Saying] = ()) -> None:
        """Keep it from now on, and with it what was said before to the same question, elsewhere `earlier`."""
        if (namesake := self._records.get(record.name)) is not None:  # clients may name their requests
            self._forget(namesake)
        self._records[record.name] = record
        record.timer = self._loop.call_later(record.ttl, self._forget, record)
        if self.shared is not None:
            self.shared.opened(record)
        if record.content is not None:
            before = self._by_content.get(record.content)
            self._by_content[record.content] = record
            oldest = self._loop.time() - record.ttl
            for saying in list(earlier if before is None else before.alternatives.sayings())[-MOST:]:
                if saying.at > oldest:
                    self.add(record, saying)
        self._make_room()

    def add(self, record: Record, saying: Saying) -> None:
        """One more answer, unless the record had to go."""
        if self._records.get(record.name) is not record:
            return
        size = _size(saying)
        record.size += size
        self._room -= size
        record.add(saying)
        if self.shared is not None:
            self.shared.said(record, saying)
        self._make_room()

    def passed(self, record: Record) -> None:
        """One of its pending attempts has answered, or will not."""
        record.passed()
        if self.shared is not None:
            self.shared.passed(record)

    def close(self) -> None:
        """Nothing more will be asked: break off who runs on, and forget everything."""
        for straggler in tuple(self.stragglers):
            straggler.break_off()
        for record in tuple(self._records.values()):
            self._forget(record)

    async def closed(self) -> None:
        """Call `close` first. What other gateways are to see has been written."""
        if self.shared is not None:
            await self.shared.close()

    def _make_room(self) -> None:
        while (len(self._records) > self._requests or self._room < 0) and self._records:
            self._forget(next(iter(self._records.values())))

    def _forget(self, record: Record) -> None:
        if self._records.get(record.name) is not record:
            return
        del self._records[record.name]
        if record.content is not None and self._by_content.get(record.content) is record:
            del self._by_content[record.content]
        self._room += record.size
        record.size = 0
        if record.timer is not None:
            record.timer.cancel()
        record.silence()


def _size(saying: Saying) -> int:
    """Bytes that it takes, about: its text is there twice, as it is and as it is compared."""
    return 1_000 + 4 * len(saying.answer.text) + len(saying.document)
