"""What losers say, where they run on."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from hedgerow.client import records
from hedgerow.client.result import Alternative
from hedgerow.events import Outcome

if TYPE_CHECKING:
    from hedgerow.client.attempt import Attempt
    from hedgerow.client.flight import Flight

T = TypeVar("T")


class Alternatives(Generic[T]):
    """An async iterator over the answers of a call's losers, as they come; it ends with the last of them."""

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._running: dict[Attempt, asyncio.TimerHandle] = {}
        self._said: deque[Alternative[T]] = deque()
        self._news: asyncio.Future[None] | None = None

    @property
    def running(self) -> bool:
        """Whether some have not ended yet."""
        return bool(self._running)

    def expect(self, loser: Attempt, seconds: float) -> None:
        """Let this loser run on, for so long at most."""
        self._running[loser] = self._flight.loop.call_later(seconds, self._too_late, loser)
        loser.run_on()

    def add(self, loser: Attempt, value: T) -> None:
        """A loser has answered."""
        records.ended(self._flight, loser, Outcome.KEPT)
        took = self._flight.time() - self._flight.started_at
        self._said.append(Alternative(value, loser.target.name, loser.role, took))
        self.over(loser)

    def over(self, loser: Attempt) -> None:
        """A loser has ended, however it did."""
        if (timer := self._running.pop(loser, None)) is None:
            return
        timer.cancel()
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
        if not self._running:
            self._flight.settle()

    def _too_late(self, loser: Attempt) -> None:
        loser.cancel()
        records.ended(self._flight, loser, Outcome.SUPERSEDED)
        self.over(loser)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Alternative[T]:
        while not self._said:
            if not self._running:
                raise StopAsyncIteration
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        return self._said.popleft()
