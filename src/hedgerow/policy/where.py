"""Where: the order in which a request's targets are asked. The first is its primary, the next gets its hedge."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Candidate


class Where(ABC):
    """One way to order the targets of a route. What it remembers goes by their names, and outlives a reload."""

    name: str

    @abstractmethod
    def order(self, ask: Ask, candidates: Sequence[Candidate], now: float) -> Sequence[int]:
        """All of the candidates, as indices; those that are alike to it stay in their order."""

    def led(self, usable: Sequence[Candidate]) -> None:  # noqa: B027  # most ways do not mind
        """What came of it: those that are well, the primary first."""

    def view(self) -> dict[str, Any]:
        """What it goes by, for people."""
        return {"rule": self.name}
