"""Letting a client that reads slowly hold its answer back, all the way to the upstream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from hedgerow.engine import Run
from hedgerow.http.upstream import Call

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.keeping import Keeping


class Paced:
    """The part of a flight that the client's speed is the affair of; two of the exchange's `Listener` methods.

    The flight sets it up: it is made for every request.
    """

    __slots__ = ("_gateway", "_paused", "_winner", "run", "started_at", "time")
    run: Run
    started_at: float
    time: Callable[[], float]
    _gateway: Gateway
    _winner: Attempt | None
    _paused: bool

    def on_pause(self) -> None:
        """The client reads too slowly: so do we."""
        if self._winner is not None and self._winner.call is not None:
            self._paused = True
            self._winner.call.pause()

    def on_resume(self) -> None:
        """The client has caught up. The silence while nobody read was not the upstream's."""
        if self._paused and self._winner is not None and self._winner.call is not None:
            self._paused = False
            self._winner.last_data_at = self.time()
            self._winner.call.resume()
            self.run.watch()

    def last_data_at(self) -> float:
        """When a piece of the winner's answer last came; never, while we do not read."""
        if self._paused:
            return inf  # the silence while we do not read is the client's
        return self._winner.last_data_at if self._winner is not None else self.started_at

    def linger(self, call: Call) -> None:
        """The answer is complete, but its body may go on."""
        if self._paused:
            call.resume()  # what is left is not for the client, however slowly it reads
        self._gateway.linger(call)

    @property
    def keeping(self) -> Keeping:
        """Where answers are kept."""
        return self._gateway.keeping

    def later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        """Have something called later; for what is too rare for the alarm."""
        return self._gateway.loop.call_later(seconds, call)
