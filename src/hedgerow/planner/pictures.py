"""What the plots of a report are made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from hedgerow.planner.estimate import at_quantile, hedged
from hedgerow.planner.log import Floats
from hedgerow.planner.plan import Cell, Span
from hedgerow.planner.scene import Backup, Scene
from hedgerow.planner.trial import Flown

POINTS = 200
"""Of a curve, at most."""
_SPANS = 60
_BUDGETS = (0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3)
_DELAYS = (0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.965, 0.98, 0.985, 0.99, 0.995)
"""Shares of requests that are answered before the delays of the heat map."""
_ENOUGH = 20_000
"""Requests that a heat map is made of; one in several, of more."""


def heat_of(scene: Scene, backup: Backup, target: float) -> tuple[Cell, ...]:
    """Fixed delays within budgets, by arithmetic on the whole log; where a budget is too small, chance decides."""
    own, other = scene.sure(backup)
    step = max(1, len(own) // _ENOUGH)
    answered = np.isfinite(own[::step])
    first, second = own[::step][answered], other[::step][answered]
    chance = np.random.default_rng(len(first)).random(len(first))
    cells = []
    for delay in np.unique([at_quantile(first, share) for share in _DELAYS]).tolist():
        late = first > delay
        share = float(late.mean())
        helped = hedged(first, second, delay)
        for budget in _BUDGETS if share else ():
            lucky = chance < budget / share
            value = at_quantile(np.where(lucky, helped, first), target)
            cells.append(Cell(delay, budget, value, float((late & lucky).mean())))
    return tuple(cells)


def timeline_of(scene: Scene, before: Flown, after: Flown, target: float) -> tuple[Span, ...]:
    """The log in equal stretches of time; those without requests are left out."""
    at = scene.primary.at
    end = float(at[-1])
    length = max(end - float(at[0]), 1e-9) / _SPANS
    which = np.minimum(((at - at[0]) / length).astype(np.int64), _SPANS - 1)
    edges = np.searchsorted(which, np.arange(_SPANS + 1))
    spans = []
    for number in range(_SPANS):
        part = slice(int(edges[number]), int(edges[number + 1]))
        if part.stop > part.start:
            spans.append(
                Span(
                    start=float(at[0]) + number * length,
                    seconds=length,
                    requests=part.stop - part.start,
                    hedges=int(after.hedges[part].sum()),
                    failed=int(scene.primary.failed[part].sum()),
                    p99_before=_quantile(before.took[part], target),
                    p99_after=_quantile(after.took[part], target),
                )
            )
    return tuple(spans)


def curves_of(took: Mapping[str, Floats]) -> tuple[tuple[str, tuple[tuple[float, float], ...]], ...]:
    """By name: points (seconds, share of the answered that take longer), evenly spaced in the log of the share."""
    return tuple((name, _curve(each)) for name, each in took.items())


def _curve(took: Floats) -> tuple[tuple[float, float], ...]:
    ordered = np.sort(took[np.isfinite(took)])
    n = len(ordered)
    if not n:
        return ()
    places = np.unique(np.round(n - np.geomspace(n, 1.0, POINTS)).astype(np.int64))
    return tuple((float(ordered[place]), float(1.0 - (place + 1) / n)) for place in places[:-1].tolist())


def _quantile(took: Floats, target: float) -> float:
    answered = took[~np.isnan(took)]
    return at_quantile(answered, target) if len(answered) else float("nan")
