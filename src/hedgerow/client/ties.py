"""The order of what happens in one turn of the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.policy.commands import Happened, Kind

if TYPE_CHECKING:
    from hedgerow.client.flight import Flight


class Ties:
    """Tells a flight's run what its attempts came to: of several at once in a fixed order, whoever was the first to say
    so. Answers come before failures, and earlier attempts before later ones.
    """

    __slots__ = ("_batch", "_flight")

    def __init__(self, flight: Flight) -> None:
        self._flight = flight
        self._batch: list[Happened] = []

    def happened(self, happened: Happened) -> None:
        """An attempt has answered or failed."""
        if not self._batch:
            self._flight.home.loop.call_soon(self._take)
        self._batch.append(happened)

    def _take(self) -> None:
        batch, self._batch = self._batch, []
        for happened in sorted(batch, key=lambda each: (each.kind.value, each.attempt)):
            if not self._flight.over:
                tell(self._flight, happened)


def tell(flight: Flight, happened: Happened) -> None:
    """At once."""
    match happened:
        case Happened(Kind.ACCEPTED, attempt):
            flight.run.accepted(attempt)
        case Happened(Kind.REJECTED, attempt, failure, rank) if failure is not None:
            flight.run.rejected(attempt, failure, rank)
        case Happened(_, attempt, failure) if failure is not None:
            flight.run.failed(attempt, failure)
