"""Who at the upstream can tell whether it stopped: what a witness is asked, and what it says."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable

import msgspec

from hedgerow.probe.calling import Heard

Get = Callable[[str], Awaitable[bytes | None]]
"""Asks the upstream for a path; the body of a 200, None for anything else."""

HALF = 0.5
"""What of the rest of an answer must have been generated for the upstream to have gone on. Less is stopping late."""

TOO_LATE = "its answer was nearly whole when it was cancelled"


class Cancelled(msgspec.Struct, frozen=True):
    """An attempt that was cancelled. Times are the loop's.

    `key` is what it was called by in a header, `limit` the most tokens of its answer, of which `tokens` had come. By
    `ends_at` it would have been whole. Our end was closed `closed_after` seconds; None: not that we know.
    """

    heard: Heard
    key: str
    at: float
    ends_at: float
    limit: int
    tokens: int
    closed_after: float | None

    def rest(self, made: int = 0) -> int:
        """Tokens that were to be generated yet, where that many had been."""
        return max(1, self.limit - max(self.tokens, made))

    def nearly_whole(self, made: int) -> bool:
        """Whether too little was left to tell stopping from going on."""
        return self.rest(made) < self.limit / 10


class Said(msgspec.Struct, frozen=True):
    """What a witness says. `stopped` None: it cannot tell, and `note` says why.

    `noticed_at`: by when the upstream had stopped, or knew (the loop's time); `tokens_after` as in `Finding`.
    """

    stopped: bool | None
    note: str = ""
    noticed_at: float | None = None
    tokens_after: int | None = None


class Witness(ABC):
    """Asks one upstream what it does."""

    name: str
    """Where it looks, for people."""

    @abstractmethod
    async def before(self) -> str | None:
        """Look at the upstream before an attempt is sent to it; why nothing can be told this time, if so."""

    @abstractmethod
    async def after(self, cancelled: Cancelled) -> Said:
        """What the upstream says of the attempt that has just been cancelled; takes as long as that needs."""


class Ticks:
    """Times to look, one every `step` seconds until `until` (the loop's time)."""

    def __init__(self, step: float, until: float) -> None:
        self._step = step
        self.until = until
        """May be moved."""
        self._loop = asyncio.get_running_loop()
        self._first = True

    def __aiter__(self) -> Ticks:
        return self

    async def __anext__(self) -> float:
        if not self._first:
            if self._loop.time() >= self.until:
                raise StopAsyncIteration
            await asyncio.sleep(self._step)
        self._first = False
        return self._loop.time()
