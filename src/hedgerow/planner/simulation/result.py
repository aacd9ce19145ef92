"""What `hedgerow simulate` has found out: plain data, from which terminal and JSON are made.

Times are seconds of the simulation, shares are of 1. A percentile is that of all requests, of which one that failed
counts as never answered; None: so many failed that it is one of those.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Word = Literal["pays", "little", "hurts", "off"]


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """What came of some requests. `first` and `answered`: requests by the target asked first, and by the winner's.

    `skipped`: hedges that were due and not launched, by reason, and `held` attempts after a failure. `limited`:
    attempts that a rate limit turned away, by role. `opened`: how often a breaker opened. `load`: of the servers.
    """

    requests: int
    failed: int
    p50: float | None
    p95: float | None
    p99: float | None
    p999: float | None
    hedges: int
    failovers: int
    skipped: Mapping[str, int]
    held: Mapping[str, int]
    limited: Mapping[str, int]
    opened: int
    first: Mapping[str, int]
    answered: Mapping[str, int]
    load: float | None

    @property
    def extra(self) -> float:
        """Hedges per request."""
        return self.hedges / self.requests if self.requests else 0.0


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Of the requests that came in one phase (or in all): without hedging, and with. `seconds`: how long it lasted.

    `since`: when it began for the first time.
    """

    name: str
    since: float
    seconds: float
    without: Numbers
    hedged: Numbers


class Capped(msgspec.Struct, frozen=True, kw_only=True):
    """A budget: `most_at_once` is how far any stretch of time went beyond what it had earned, at most `burst`."""

    words: str
    share: float
    burst: float
    launched: int
    most_at_once: float


class BreakerChange(msgspec.Struct, frozen=True):
    """With hedging."""

    target: str
    state: str
    at: float
    why: str


class Verdict(msgspec.Struct, frozen=True):
    """`word` is for scripts."""

    word: Word
    text: str


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """All of it. Same configuration, scenario, seed and version: the same bytes.

    `law`: what targets' times are drawn from, in words. `notes`: what the simulation leaves out of this configuration.
    """

    version: str
    seed: int
    scenario: str
    about: str
    route: str
    targets: tuple[str, ...]
    hedging: str
    law: str
    rate: float
    phases: tuple[Phase, ...]
    total: Phase
    hedges: Capped | None
    failovers: Capped | None
    breakers: tuple[BreakerChange, ...]
    verdict: Verdict
    notes: tuple[str, ...]
