"""Where: the order in which a request's targets are asked. The first is its primary, the next gets its hedge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Candidate


class Where(ABC):
    """One way to order the targets of a route. What it remembers goes by their names, and outlives a reload."""

    name: str

    @abstractmethod
    def order(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> Sequence[int]:
        """All of the candidates, as indices; those that are alike to it stay in their order."""

    def knows(self, targets: Collection[str]) -> None:  # noqa: B027  # most ways ask nobody in advance
        """These are among the targets of the route, in the order in which they are listed."""

    def sweep(self, targets: Collection[str]) -> None:  # noqa: B027  # most ways remember nobody
        """Give back the memory of all but these targets."""

    def refreshing(self, now: float) -> Iterator[None]:
        """Learn from what is known by now; in steps, away from requests, every few seconds."""
        return iter(())

    def led(self, usable: Sequence[Candidate]) -> None:  # noqa: B027  # most ways do not mind
        """What came of it: those that are well and may be first, the primary before all others.

        Not told of requests that went where their session was.
        """

    def view(self) -> dict[str, Any]:
        """What it goes by, for people."""
        return {"rule": self.name}
