"""Keys of a route's gates that cannot work, or do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from hedgerow.config.problem import Problem, show_path
from hedgerow.config.route import Route
from hedgerow.units import show_duration


def endless(name: str, route: Route) -> Iterator[Problem]:
    """A prefix for which a request has no time."""
    prefix, total = route.gates.prefix, route.timeouts.total
    if prefix.tokens is not None and prefix.time >= total:
        other = show_path(("routes", name, "timeouts", "total"))
        text = f"{show_duration(prefix.time)} is too long for {other} ({show_duration(total)}): it could never run out"
        yield Problem(("routes", name, "gates", "prefix", "time"), text)


def idle(name: str, route: Route) -> Iterator[Problem]:
    """Warnings about keys without effect."""
    gates, here = route.gates, ("routes", name, "gates")
    if not gates.require:
        if gates.model_fields_set and "require" not in gates.model_fields_set:
            yield Problem(here, "has no effect: it requires nothing; name gates in require")
        return
    if gates.strict and "wait" in gates.model_fields_set:
        yield Problem((*here, "wait"), "has no effect with strict: true: a rejected answer is dropped at once")
    if gates.prefix.tokens is None and gates.prefix.model_fields_set:
        yield Problem((*here, "prefix"), "has no effect without tokens")
    if gates.prefix.tokens is None and route.nonstream_as_stream:
        text = "keeps no answer back: with nonstream_as_stream all are streams; set gates.prefix.tokens"
        yield Problem(here, text)
