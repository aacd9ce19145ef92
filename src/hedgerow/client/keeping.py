"""What losers say, where they run on."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from hedgerow.client import records
from hedgerow.client.closing import close
from hedgerow.client.result import Alternative
from hedgerow.events import Outcome

if TYPE_CHECKING:
    from hedgerow.client.attempt import Attempt
    from hedgerow.client.flight import Flight

T = TypeVar("T")


class Alternatives(Generic[T]):
    """An async iterator over the answers of a call's losers, as they come; it ends with the last of them.

    Several tasks may read it: each answer goes to one of them. What it gives is the reader's to close, if that can be.
    """

    def __init__(self, flight: Flight | None = None) -> None:
        self._flight = flight
        self._running: dict[Attempt, asyncio.TimerHandle] = {}
        self._said: deque[Alternative[T]] = deque()
        self._news: asyncio.Future[None] | None = None

    @property
    def running(self) -> bool:
        """Whether some losers have not ended yet."""
        return bool(self._running)

    def stop(self) -> None:
        """Nobody wants what the others would say: break them off."""
        for loser in list(self._running):
            self._too_late(loser)

    async def aclose(self) -> None:
        """Nobody wants any more: break off those that run, and close what was said and not taken.

        Being cancelled breaks off the closing of one, and the others are closed all the same.
        """
        self.stop()
        cancelled: asyncio.CancelledError | None = None
        while self._said:
            try:
                await close(self._said.popleft().value)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    def expect(self, loser: Attempt, seconds: float) -> None:
        """Let this loser run on, for so long at most."""
        self._running[loser] = loser.loop.call_later(seconds, self._too_late, loser)
        loser.keep()
        if loser.over:  # it has answered in the very turn of the loop in which another won
            self.add(loser)

    def add(self, loser: Attempt) -> None:
        """A loser has answered."""
        if (flight := self._flight) is not None and loser in self._running:
            records.ended(flight, loser, Outcome.KEPT)
            took = flight.time() - flight.started_at
            value: Any = list(loser.items) if loser.streams else loser.value
            self._said.append(Alternative(value, loser.target, loser.role, took))
            self.over(loser)

    def over(self, loser: Attempt) -> None:
        """A loser has ended, however it did."""
        if (timer := self._running.pop(loser, None)) is None:
            return
        timer.cancel()
        self._tell()
        if not self._running and (flight := self._flight) is not None:
            flight.settle()

    def _too_late(self, loser: Attempt) -> None:
        loser.cancel()
        if self._flight is not None:
            records.ended(self._flight, loser, Outcome.SUPERSEDED)
        self.over(loser)

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
            self._news = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Alternative[T]:
        while not self._said:
            if not self._running:
                raise StopAsyncIteration
            if self._news is None:
                self._news = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._news)  # several may wait for it
        return self._said.popleft()


NONE: Alternatives[object] = Alternatives()
"""Of a call whose losers are cancelled."""
