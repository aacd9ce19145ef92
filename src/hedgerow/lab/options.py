"""Everything one can choose about a lab."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from hedgerow.errors import ConfigError
from hedgerow.lab.accounts import OnCancel, Prices
from hedgerow.lab.latency import DEFAULT_TAIL, HeavyTail, LatencyModel, Pace, Resampled, Shape, bits
from hedgerow.lab.presets import Preset, preset
from hedgerow.lab.recorded import COLUMN, NO_FILE, read_times
from hedgerow.lab.regimes import SlowRegimes, SlowSpec
from hedgerow.lab.script import FaultMix


@dataclass(frozen=True, slots=True, kw_only=True)
class LabOptions:
    """One simulated provider. All times are simulated; divided by `speed` they are real."""

    name: str = "lab"
    """The provider's name: part of its draws, its answers' first word. Give two labs different names."""
    host: str = "127.0.0.1"
    port: int = 0
    """0 takes a free port; the ready line says which."""
    seed: int = 1
    """Same seed, name and request keys: same draws."""
    preset: str = "steady"
    p50_ms: float | None = None
    """With `p95_ms`: a time to first token of your own in place of the preset's."""
    p95_ms: float | None = None
    p99_ms: float | None = None
    """Left out: what follows from `tail`."""
    tail: float = DEFAULT_TAIL
    """Pareto index above p95 when `p99_ms` is left out; smaller is heavier."""
    latencies: Path | None = None
    """A CSV file of recorded times to first token, in place of the preset's."""
    column: str = COLUMN
    where: tuple[str, ...] = ()
    """Rows of the file to use, as "column=value"; all must hold."""
    order: str = "sampled"
    """Recorded times are "sampled" (drawn at random by key) or walked in "sequence" (file order, row by request)."""
    speed: float = 1.0
    """Simulated times are divided by this, scripted ones too, so that recorded tails of 100 s replay in seconds."""
    rho: float = 0.0
    """Correlation with other labs of the same seed and `rho`, from 0 to 1."""
    slow: str | None = None
    """Slow regimes, "FACTOR:SHARE:SECONDS"."""
    prefill_ms: float = 0.0
    """Added to the first token per 1,000 prompt tokens (4 characters count as one)."""
    gap_ms: float | None = None
    """Median time between tokens; left out: the preset's."""
    jitter: float | None = None
    """Log standard deviation of the times between tokens; left out: the preset's."""
    tokens: int | None = None
    """Length of an answer when the request sets no limit; left out: the preset's."""
    fault: str = ""
    """Faults by probability, e.g. "429:0.01,cut:0.005,stall:0.01"."""
    ignore_cancel: bool = False
    """An answer is generated to its end, and billed, though its client has left."""
    billed_on_cancel: str = "generated"
    """What an answer costs whose client has left: "full", "generated", "input" or "none"."""
    cached: float = 0.0
    """The share of each prompt that is said to come from a cache, 0 to 1."""
    models: tuple[str, ...] = ("lab-small", "lab-large")
    """What GET /v1/models lists. Any model is answered."""
    input_price: float = 0.25
    """Dollars per million prompt tokens."""
    output_price: float = 2.0
    """Dollars per million generated tokens."""
    cached_price: float | None = None
    """Dollars per million prompt tokens from the cache; left out: as any other."""

    def __post_init__(self) -> None:
        if problems := list(self._problems()):
            raise ConfigError(problems)

    def _problems(self) -> list[str]:
        low = {"prefill_ms": self.prefill_ms, "gap_ms": self.gap_ms, "jitter": self.jitter, "tokens": self.tokens}
        low |= {"input_price": self.input_price, "output_price": self.output_price, "cached_price": self.cached_price}
        problems = [
            f"{name}: must be a number from 0 up, got {value:g}"
            for name, value in low.items()
            if value is not None and not 0 <= value < math.inf
        ]
        if not 0 < self.speed < math.inf:
            problems.append(f"speed: must be above 0, got {self.speed:g}")
        if not 0 <= self.rho <= 1:
            problems.append(f"rho: must be between 0 and 1, got {self.rho:g}")
        if not 0 <= self.cached <= 1:
            problems.append(f"cached: must be between 0 and 1, got {self.cached:g}")
        if self.billed_on_cancel not in list(OnCancel):
            problems.append(f"billed_on_cancel: must be one of {', '.join(OnCancel)}, got {self.billed_on_cancel!r}")
        if not 0 <= self.port <= 65535:
            problems.append(f"port: must be between 0 and 65535, got {self.port}")
        if not (self.name and self.name.isascii() and self.name.replace("-", "").replace("_", "").isalnum()):
            problems.append(f"name: letters, digits, - and _ only, got {self.name!r}")
        if (self.p50_ms is None) != (self.p95_ms is None) or (self.p99_ms is not None and self.p50_ms is None):
            problems.append("p50_ms, p95_ms: give both (p99_ms may be added) or neither")
        if self.latencies is not None and self.p50_ms is not None:
            problems.append("latencies, p50_ms: one or the other")
        if self.order not in ("sampled", "sequence"):
            problems.append(f"order: must be sampled or sequence, got {self.order!r}")
        if self.latencies is None and self.order == "sequence":
            problems.append("order: 'sequence' needs `latencies`")
        if self.latencies is None and (self.where or self.column != COLUMN):
            problems.append(NO_FILE)
        return problems


class Behaviour:
    """What the options come to: the parts a provider is put together from."""

    __slots__ = ("faults", "gap", "model", "options", "pace", "prices", "tokens")

    def __init__(self, options: LabOptions, *, seed: int | None = None) -> None:
        """`seed` replaces the options'. Reads the recorded times. Raises ConfigError."""
        base = preset(options.preset)
        self.options = options
        self.model = _model(options, base, options.seed if seed is None else seed)
        self.gap = base.gap if options.gap_ms is None else options.gap_ms / 1000
        self.pace = Pace(base.jitter if options.jitter is None else options.jitter)
        self.tokens = base.tokens if options.tokens is None else options.tokens
        self.faults = FaultMix(options.fault)
        self.prices = Prices.usd_per_million(options.input_price, options.output_price, options.cached_price)


def _model(options: LabOptions, base: Preset, seed: int) -> LatencyModel:
    shape: Shape = base.shape
    sequence: tuple[float, ...] = ()
    if options.latencies is not None:
        times = read_times(options.latencies, options.column, options.where)
        shape = Resampled(times)
        sequence = tuple(times) if options.order == "sequence" else ()
    elif options.p50_ms is not None and options.p95_ms is not None:
        p99 = None if options.p99_ms is None else options.p99_ms / 1000
        shape = HeavyTail(options.p50_ms / 1000, options.p95_ms / 1000, p99, options.tail)
    slow = None
    if options.slow is not None:
        slow = SlowRegimes(SlowSpec.parse(options.slow), bits(seed, "slow", options.name))
    return LatencyModel(
        provider=options.name,
        seed=seed,
        shape=shape,
        rho=options.rho,
        prefill=options.prefill_ms / 1000,
        slow=slow,
        sequence=sequence,
    )
