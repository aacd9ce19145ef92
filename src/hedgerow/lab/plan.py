"""One answer's timetable, fixed when the request comes in."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from hedgerow.lab.latency import Pace
from hedgerow.lab.script import SLOWED, Fault, Script


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """When each token of an answer is due, in real seconds since the request, and where a fault strikes.

    Token i (from 0) is due at `ttft` plus i gaps of about `gap` seconds.
    """

    ttft: float
    gap: float
    tokens: int
    pace: Pace
    walk: int
    script: Script

    @property
    def strikes_at(self) -> int | None:
        """The token in whose place the fault strikes; None when the answer comes whole, if slowly."""
        return None if self.script.fault is Fault.SLOW else self.script.stops_at(self.tokens)

    def gap_before(self, token: int) -> float:
        """Seconds between token `token` (from 1) and the one before."""
        gap = self.gap * self.pace.gap(self.walk, token)
        slowed = self.script.fault is Fault.SLOW and token >= (self.script.stops_at(self.tokens) or 0)
        return gap * SLOWED if slowed else gap

    def due(self, token: int) -> float:
        """When token `token` (from 0) is due."""
        even = self.pace.total(self.walk, token + 1)
        if self.script.fault is Fault.SLOW:
            slow_from = max(1, self.script.stops_at(self.tokens) or 0)
            even += (SLOWED - 1) * max(0.0, even - self.pace.total(self.walk, slow_from))
        return self.ttft + self.gap * even

    def generated(self, elapsed: float) -> int:
        """How many tokens are due by `elapsed`."""
        return bisect_right(range(self.tokens), elapsed, key=self.due)
