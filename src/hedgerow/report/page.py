"""The report as one page that needs nothing else: no scripts, no fonts, no images from anywhere."""

from __future__ import annotations

from importlib.resources import files

import jinja2

from hedgerow.report import plots, terminal, words
from hedgerow.report.analysis import Analysis, sides_of
from hedgerow.report.result import Route


def render(analysis: Analysis) -> str:
    """The page. The same report gives the same bytes."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(
        seconds=words.seconds,
        percent=words.percent,
        money=words.money,
        change=words.change,
        pnn=words.pnn,
        when=terminal.when,
    )
    environment.globals.update(
        told=terminal.told, facts=terminal.facts, sides=terminal.sides, as_change=words.change, as_seconds=words.seconds
    )
    text = files(__package__).joinpath("page.html.j2").read_text("utf-8")
    drawn = [(route, _plots(analysis, route)) for route in analysis.report.routes]
    return environment.from_string(text).render(report=analysis.report, routes=drawn, nothing=terminal.NOTHING)


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
