"""Requests by the keys that clients gave them: who asks again gets the answer that is under way, or was given.

After draft-ietf-httpapi-idempotency-key-header: the same key with another body is refused with 422, and one whose
request is under way and cannot be joined with 409. Unlike there, only good answers are given again: an error is a
reason to ask again, and then nothing is in the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from hashlib import sha256
from heapq import heappop, heappush
from itertools import count
from math import inf
from typing import TYPE_CHECKING

import msgspec

from hedgerow.errors import RequestError
from hedgerow.gateway.party import Party, Told
from hedgerow.http.exchange import Exchange

if TYPE_CHECKING:
    from hedgerow.gateway.blueprint import Replay

STORED = b"x-hedgerow-replayed: stored\r\n"
_OWN = 1024
"""Bytes that a kept answer counts as, beside its own."""
_PART = 8
"""One answer may take this part of the room."""
Tell = Callable[[str, bool], None]
"""Told of a request id that was asked for again, and whether it was still under way."""


class Kept(msgspec.Struct, frozen=True, gc=False):
    """An answer that was given."""

    request_id: str
    digest: bytes
    told: Told
    size: int


class Once:
    """One for all routes and clients; keys are made so that neither gets at another's."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.room = 0
        """Most bytes of answers that are kept, those under way included."""
        self._used = 0
        self._running: dict[object, Party] = {}
        self._kept: dict[object, Kept] = {}
        self._due: list[tuple[float, int, object]] = []  # a heap: when which of `_kept` is to be forgotten
        self._order = count()
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = inf

    @property
    def counts(self) -> tuple[int, int, int]:
        """Requests under way, answers kept, and bytes of both."""
        return len(self._running), len(self._kept), self._used

    def take(self, exchange: Exchange, key: object, replay: Replay, tell: Tell, *, keeps: bool) -> Party | None:
        """The exchange to answer in place of this one; None if it has been answered, or has joined another.

        Without `keeps` the answer is forgotten when it has been given. Raises `RequestError` (422, 409).
        """
        self._forget(self._loop.time())
        digest = sha256(exchange.body).digest()
        party = self._running.get(key)
        if party is not None:
            _check(digest, party.digest)
            if not party.joinable:
                raise RequestError(409, _TOO_LONG, code="idempotency_key_in_use")
            tell(party.request_id, True)
            party.join(exchange)
            return None
        if (kept := self._kept.get(key)) is not None:
            _check(digest, kept.digest)
            tell(kept.request_id, False)
            kept.told.give(exchange, STORED)
            if kept.told.streamed:
                exchange.end()
            return None
        window = replay.window if keeps else 0.0
        later = self._loop.call_later
        party = Party(self, key, digest, exchange, linger=replay.linger, window=window, later=later)
        self._running[key] = party
        return party

    def has_room(self, party: Party, more: int) -> bool:
        """Take room for so many more bytes of an answer under way, from older answers if need be; False if it is not
        to be had, then what the party had is free again.
        """
        if party.size + more <= self.room // _PART:
            self._make_room(more)
            if self._used + more <= self.room:
                party.size += more
                self._used += more
                return True
        self._used -= party.size
        party.size = 0
        return False

    def over(self, party: Party, *, whole: bool) -> None:
        """The party has ended; its answer is kept if it is `whole` and good."""
        if self._running.get(party.key) is not party:
            return
        del self._running[party.key]
        self._used -= party.size
        told = party.told
        good = whole and party.joinable and told is not None and 200 <= told.status < 300
        if told is None or not good or party.window <= 0:
            return
        size = party.size + _OWN
        self._make_room(size)
        if self._used + size > self.room:
            return
        self._used += size
        self._kept[party.key] = Kept(party.request_id, party.digest, told, size)
        due = self._loop.time() + party.window
        heappush(self._due, (due, next(self._order), party.key))
        self._wake(due)

    def close(self) -> None:
        """Nothing more will be asked."""
        if self._timer is not None:
            self._timer.cancel()

    def _make_room(self, size: int) -> None:
        while self._used + size > self.room and self._due:
            self._drop()

    def _forget(self, now: float) -> None:
        while self._due and self._due[0][0] <= now:
            self._drop()

    def _drop(self) -> None:
        _, _, key = heappop(self._due)
        self._used -= self._kept.pop(key).size

    def _wake(self, due: float) -> None:
        if due < self._wakes_at:
            self.close()
            self._wakes_at = due
            self._timer = self._loop.call_at(due, self._tick)

    def _tick(self) -> None:
        self._timer, self._wakes_at = None, inf
        self._forget(self._loop.time())
        if self._due:
            self._wake(self._due[0][0])


def _check(digest: bytes, known: bytes) -> None:
    if digest != known:
        raise RequestError(422, _OTHER, code="idempotency_key_reused")


_OTHER = (
    "This Idempotency-Key was used with another body: a key stands for one request. "
    "Send the same body, or take a new key."
)
_TOO_LONG = (
    "A request with this Idempotency-Key is under way, and its answer has become too long to be joined: "
    "wait for it, or take a new key."
)
