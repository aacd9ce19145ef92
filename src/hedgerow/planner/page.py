"""A plan as one page that needs nothing else."""

from __future__ import annotations

from html import escape

from hedgerow.planner import plots, words, words_targets
from hedgerow.planner.plan import Plan, Route
from hedgerow.report.html import rendered


def render(plan: Plan) -> str:
    """The page. The same plan gives the same bytes."""
    return rendered(
        __package__,
        plan=plan,
        words=words,
        of_targets=words_targets,
        routes=[(route, _plots(plan, route)) for route in plan.routes],
    )


def _plots(plan: Plan, route: Route) -> dict[str, str]:
    """Each with its caption."""
    own = next((each for each in plan.targets if each.target == route.primary), None)
    target = words.pname(plan.target_quantile)
    found = {
        "How many requests take longer": plots.exceedance(route),
        "How long requests take": plots.distribution(plan, route),
        f"What extra attempts buy: {target}": plots.frontier(plan, route),
        f"{target} by fixed delay and budget, by arithmetic": plots.heat(plan, route),
        "Where the budget goes": plots.allocation(plan, route, own),
        "The log, hedged": plots.timeline(plan, route, () if own is None else own.outages),
    }
    return {caption: _named(svg, f"{route.primary}: {caption}") for caption, svg in found.items() if svg is not None}


def _named(svg: str, name: str) -> str:
    """With what a screen reader says of it."""
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(name)}"', 1)
