"""A route in few words, for those who start a gateway or check its configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from hedgerow.policy.budget import Share
from hedgerow.policy.delay import Auto, Fixed, Slo, show
from hedgerow.policy.order import Fastest, Rotate
from hedgerow.units import show_duration

if TYPE_CHECKING:
    from hedgerow.config import Route, Target

_ROLES = {"primary": "primary only", "hedge": "hedges only"}


def one_line(route: Route, targets: Mapping[str, Target]) -> str:
    """Who is asked in which order, when the next is, and what else the route does."""
    named = [_named(each, targets[each]) for each in route.in_order(targets)]
    order = ordering(route)
    asked = ", ".join(named) + f" ({order})" if order else " → ".join(named)
    return "; ".join([f"{asked}, {hedging(route)}", *more(route)])


def _named(name: str, target: Target) -> str:
    role = _ROLES.get(target.only_for)
    return f"{name} ({role})" if role else name


def ordering(route: Route) -> str:
    """Who of the route's targets is asked first, in words; "" where it is the first."""
    match route.asked_by:
        case Fastest(within=within):
            return f"the {'fastest' if within is None else 'cheapest'} first"
        case Rotate():
            return "each in turn"
        case None:
            return ""


def hedging(route: Route) -> str:
    """When and how often requests of the route are hedged, in words."""
    hedge = route.hedge
    if len(route.targets) == 1 and not hedge.chained:
        return "no hedge: one target"
    if not route.hedges:
        return "one after the other" if hedge.chained and route.max_attempts != 1 else "no hedge"
    if hedge.kill_switch or route.background:
        return f"no hedge: {'kill_switch' if hedge.kill_switch else 'background'} is set"
    match hedge.delay:
        case _ if hedge.races:
            when = f"by asking {hedge.width} targets together"
        case Fixed(seconds):
            when = f"after {show_duration(seconds)}"
        case Auto():
            when = "after a delay learned from the latency"
        case Slo(seconds):
            when = f"in time for {show_duration(seconds)}"
        case spec:
            when = f"after {show(spec, show_duration)}, learned from the latency"
    cap = "" if hedge.cap is None else f", at most {Share(hedge.cap, hedge.burst, hedge.per_minute).bound}"
    return f"{'would hedge' if hedge.mode == 'shadow' else 'hedge'} {when}{cap}"


def more(route: Route) -> Iterator[str]:
    """What the route does beyond hedging, where it says so."""
    if route.sticky.by:
        yield f"sessions stay (by {', '.join(route.sticky.by)})"
    if route.gates.require:
        names = ", ".join(str(gate.__struct_config__.tag) for gate in route.gates.require)
        yield f"{'strict ' if route.gates.strict else ''}gates {names}"
    if route.losers != "cancel":
        yield f"losers run on for {show_duration(route.keep.max_time)}"
    if route.idempotency.window is not None:
        yield f"idempotency keys hold for {show_duration(route.idempotency.window)}"
    if route.nonstream_as_stream:
        yield "whole answers asked for as streams"
    if route.on_stall != "error":
        yield f"a stalled answer is {'begun anew' if route.on_stall == 'restart' else 'continued'}"


def place(target: Target) -> str:
    """The model and where it is, and what is said of the target."""
    return ", ".join([f"{target.sent_model or '(as asked)'} at {target.base_url}", *_details(target)])


def _details(target: Target) -> Iterator[str]:
    if target.more_keys:
        yield f"{1 + len(target.more_keys)} keys"
    if target.only_for != "any":
        yield _ROLES[target.only_for]
    if target.region:
        yield f"region {target.region}"
    if target.weight != 1:
        yield f"weight {target.weight}"
    if target.first_token is not None:
        yield f"first token {show_duration(target.first_token)}"
    if lacks := [each for each in type(target).model_fields["supports"].default if each not in target.supports]:
        yield f"no {', no '.join(lacks)}"
    if target.max_context is not None:
        yield f"room for {target.max_context} tokens"
