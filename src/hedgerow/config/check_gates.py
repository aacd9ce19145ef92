"""Keys of a route's gates that cannot work, or do nothing."""

from __future__ import annotations

from collections.abc import Iterator

from hedgerow.config.problem import Problem, show_path
from hedgerow.config.route import Route
from hedgerow.policy.gates.settings import Finished, Matches, Python
from hedgerow.units import show_duration

_AT_THE_END = (Finished, Matches, Python)
"""Gates that need the whole answer. Those of lengths do too, but what is too short for them ends within a prefix."""
_WHOLE = 1_000
"""Tokens: who keeps back so many means whole answers."""


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
    yield from _speechless(name, route)


def _speechless(name: str, route: Route) -> Iterator[Problem]:
    """Streams that are kept back for gates that say nothing before the end."""
    gates = route.gates
    tokens = gates.prefix.tokens
    if tokens is None or tokens >= _WHOLE or not all(isinstance(each, _AT_THE_END) for each in gates.require):
        return
    names = ", ".join(dict.fromkeys(str(each.__struct_config__.tag) for each in gates.require))
    text = f"delays every stream, but {names} can say nothing of a start: only answers within it are judged in time"
    yield Problem(("routes", name, "gates", "prefix"), text)
