"""The report as one page that needs nothing else."""

from __future__ import annotations

from hedgerow.report import plots, terminal, words
from hedgerow.report.analysis import Analysis, sides_of
from hedgerow.report.html import rendered
from hedgerow.report.result import Route


def render(analysis: Analysis) -> str:
    """The page. The same report gives the same bytes."""
    drawn = [(route, _plots(analysis, route)) for route in analysis.report.routes]
    return rendered(
        __package__,
        report=analysis.report,
        routes=drawn,
        nothing=terminal.NOTHING,
        told=terminal.told,
        facts=terminal.facts,
        sides=terminal.sides,
        as_change=words.change,
        as_seconds=words.seconds,
    )


def _plots(analysis: Analysis, route: Route) -> dict[str, str]:
    """Each with its caption."""
    hedged, holdout = sides_of(analysis.tallies[route.name])
    found = {
        "Time to first token: how many requests take longer": plots.exceedance(hedged, holdout, "first_token"),
        "Time to last byte: how many requests take longer": plots.exceedance(hedged, holdout, "total"),
        "What hedging changes in the time to first token": plots.changes(route.first_token),
        "Hedges over time": plots.rates(route),
        "What it cost": plots.costs(route),
    }
    return {caption: svg for caption, svg in found.items() if svg is not None}
