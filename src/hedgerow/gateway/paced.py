"""Letting a client that reads slowly hold its answer back, all the way to the upstream."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hedgerow.engine import Run

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt


class Paced:
    """The part of a flight that the client's speed is the affair of; two of the exchange's `Listener` methods."""

    __slots__ = ("_paused", "_winner", "run", "time")
    run: Run

    def __init__(self, time: Callable[[], float]) -> None:
        self.time = time
        self._winner: Attempt | None = None
        self._paused = False

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
