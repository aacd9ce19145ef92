"""Contradictions between the order of a route's targets and what is said of the targets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from hedgerow.config.problem import Problem, show_path
from hedgerow.config.route import Route
from hedgerow.config.target import Target
from hedgerow.policy.order import Fastest, Rotate


def unpriced(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    """Who is cheapest can only be told where every target has a price."""
    if not isinstance(route.order, Fastest) or route.order.within is None:
        return
    for each in dict.fromkeys(route.targets):
        if each in targets and not targets[each].counts_money:
            who = show_path(("routes", name, "order"))
            text = f"is required: {who} is cheapest, so say what this target charges: {{input: 0.25, output: 2}}"
            yield Problem(("targets", each, "price"), text)


def leaderless(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    """Somebody must be asked first."""
    if all(each in targets and targets[each].only_for == "hedge" for each in route.targets):
        yield Problem(("routes", name, "targets"), "are all only_for: hedge; one of them must be asked first")


def without_effect(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    """Warnings about an order of nobody, sessions that stay nowhere, hedges that nobody gets."""
    if route.hedges and len(route.targets) > 1 and not route.backups(targets):
        first = route.in_order(targets)[0]
        who = "all targets" if targets[first].only_for == "primary" else f"all targets but {first}"
        yield Problem(("routes", name, "hedge"), f"has no effect: {who} are only_for: primary")
    if route.order is not None and len(set(route.targets)) == 1:
        yield Problem(("routes", name, "order"), f"has no effect: {route.targets[0]} is the route's only target")
    here, sticky = ("routes", name, "sticky"), route.sticky
    if sticky.by and any(targets[each].more_keys for each in route.targets):
        return  # a session keeps its key, whatever else holds
    if sticky.by and len(set(route.targets)) == 1:
        yield Problem((*here, "by"), f"has no effect: {route.targets[0]} is the route's only target, with one key")
    elif sticky.by and route.hedge.races:
        yield Problem((*here, "by"), "has no effect in mode: race: a session only stays at who answered alone")
    elif not sticky.by:
        for key in sorted(sticky.model_fields_set):
            yield Problem((*here, key), f"has no effect without {show_path((*here, 'by'))}")


def weightless(routes: Mapping[str, Route], targets: Mapping[str, Target]) -> Iterator[Problem]:
    """Warnings about weights that no route goes by."""
    used = {each for route in routes.values() for each in route.targets}
    weighed = {each for route in routes.values() if isinstance(route.asked_by, Rotate) for each in route.targets}
    for name, target in targets.items():
        if "weight" in target.model_fields_set and name in used - weighed:
            yield Problem(("targets", name, "weight"), "has no effect: no route that lists it says order: rotate")
