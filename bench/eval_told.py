"""What came of a replay."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hedgerow.events import Arm, Reason


@dataclass(slots=True)
class Told:
    """What came of it, by request in the order in which they came."""

    came_at: list[float]
    took: list[float]
    """Seconds to the first token; `inf` where the request failed."""
    hedges: list[int]
    failovers: list[int]
    first_place: list[int]
    """Where the first attempt went."""
    arms: list[Arm | None] = field(default_factory=list)
    """Which side of an experiment each was on."""
    skipped: Counter[Reason] = field(default_factory=Counter)
    most: float = 0.0
    """The most hedges in any stretch of time beyond what the budget's share and minutes grant: at most its burst."""
    most_failovers: float = 0.0
    """The same of failovers."""
    delays: list[float] = field(default_factory=list)
    """What hedges waited for, in the order in which they were launched,"""
    hedged_at: list[float] = field(default_factory=list)
    """and when that was."""
