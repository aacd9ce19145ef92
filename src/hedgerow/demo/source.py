"""Where a run's latencies come from, and the delay that follows from them."""

from __future__ import annotations

from statistics import NormalDist

import msgspec

from hedgerow.demo.formula import percentile
from hedgerow.demo.options import DemoOptions
from hedgerow.errors import ConfigError
from hedgerow.lab.presets import preset
from hedgerow.lab.recorded import COLUMN, NO_FILE, read_times

GRID = 2000
"""A preset's distribution is handed to the closed formula as this many equally likely times."""

_NORMAL = NormalDist()


class Source(msgspec.Struct, frozen=True):
    """Times to first token, equally likely, and the hedge delay; all in simulated seconds."""

    about: str
    samples: list[float]
    delay: float


def source(options: DemoOptions) -> Source:
    """The recorded times or the preset asked for. Raises `ConfigError`."""
    if options.latencies is not None:
        times = read_times(options.latencies, options.column, options.where)
        rows = f" where {' and '.join(options.where)}" if options.where else ""
        about = f"{len(times)} recorded times from {options.latencies.name}, column {options.column}{rows}"
        p95 = percentile(sorted(times), 0.95)
    elif options.where or options.column != COLUMN:
        raise ConfigError([NO_FILE])
    else:
        chosen = preset(options.preset)
        times = [chosen.shape.at(_NORMAL.inv_cdf((i + 0.5) / GRID)) for i in range(GRID)]
        about = f"preset {options.preset}, {chosen.about}"
        # A hair below, for presets that jump just there.
        p95 = chosen.shape.at(_NORMAL.inv_cdf(0.95 - 1e-9))
    return Source(about, times, round(p95, 3) if options.delay is None else options.delay)
