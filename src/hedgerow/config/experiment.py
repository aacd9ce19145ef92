"""Whether hedging pays, by experiment."""

from __future__ import annotations

from typing import Annotated

from hedgerow.config.amounts import share
from hedgerow.config.base import Model


class Experiment(Model):
    """Keeps some requests unhedged, so that `hedgerow report` can say what hedging brings. See \
[the experiment](experiment.md)."""

    holdout: Annotated[float, share(0.0, 0.9)] = 0.0
    """The share of the requests that could be hedged which are not, chosen by request id. After a failure they go to \
the next target as any other does."""
