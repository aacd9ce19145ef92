"""Contradictions between the keys of one route: times, bounds and amounts that cannot work together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

from hedgerow.config.hedge import Spend
from hedgerow.config.problem import KeyPath, Problem, show_path
from hedgerow.config.route import Route
from hedgerow.config.server import ServerSettings
from hedgerow.config.target import Target
from hedgerow.policy.delay import Fixed, Off, Slo, show
from hedgerow.units import show_duration

_DELAY, _WARMUP = ("hedge", "delay"), ("hedge", "warmup", "delay")
_LEAST, _MOST = ("hedge", "min_delay"), ("hedge", "max_delay")
_TOTAL, _FIRST = ("timeouts", "total"), ("timeouts", "first_token")
_LEARNED = ("target", "min_delay", "max_delay", "warmup")
"""Keys that matter only to delays that are learned."""


def times(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    """Delays, bounds and timeouts that leave no time for what they are to time."""
    if route.hedge.chained:
        yield from _chain(name, route, targets)
    elif route.hedge.races:
        yield from _race(name, route)
    elif route.hedges:
        yield from _first_delay(name, route)
        yield from _own_limit(name, route, targets)
        if not isinstance(route.hedge.delay, Fixed):
            yield from _learned(name, route)
    for key in ("first_token", "stall"):
        if getattr(route.timeouts, key) > route.timeouts.total:
            yield _clash(name, route, ("timeouts", key), _TOTAL, "it could never run out")


def _race(name: str, route: Route) -> Iterator[Problem]:
    hedge, at = route.hedge, ("routes", name, "hedge")
    if hedge.width > route.attempts:
        yield _narrow(name, route)
    for key in ("delay", "max_hedges"):
        if key in hedge.model_fields_set:
            yield Problem((*at, key), "cannot be set with mode: race, which waits for no delay; drop one of the two")


def _narrow(name: str, route: Route) -> Problem:
    """Fewer attempts than a race needs; told at `width` where the file sets that, else at `mode`."""
    hedge, at, most = route.hedge, ("routes", name, "hedge"), route.attempts
    if route.max_attempts is None:
        only = route.targets[0]
        many = f"the route lists {most} target{'s' * (most != 1)}"
        cure = "list more targets" + (f"; [{only}, {only}] asks the same one twice" if most == 1 else "")
    else:
        many, cure = f"max_attempts is {most}", "raise it"
    if "width" in hedge.model_fields_set:
        return Problem((*at, "width"), f"is {hedge.width}, but {many}: {cure}")
    return Problem((*at, "mode"), f"is race, which asks {hedge.width} targets together, but {many}: {cure}")


def _first_delay(name: str, route: Route) -> Iterator[Problem]:
    delay, limits = route.hedge.first_delay, route.timeouts
    fixed = isinstance(route.hedge.delay, Fixed)
    if delay is None or (not fixed and route.hedge.min_delay >= min(limits.first_token, limits.total)):
        return  # the bounds are at fault, see `_learned`
    at, ever = (_DELAY, "ever be hedged") if fixed else (_WARMUP, "be hedged before the warm-up is over")
    follows = "first_token" not in limits.model_fields_set  # total, where that is shorter than the default
    if delay >= limits.total and (follows or delay < limits.first_token):
        yield _clash(name, route, at, _TOTAL, f"nothing would {ever}")
    elif delay >= limits.first_token:
        yield _clash(name, route, at, _FIRST, f"no stream would {ever}")


def _own_limit(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    """A delay that the own limit of whoever is asked first cuts short."""
    delay, leads = route.hedge.first_delay, route.in_order(targets)
    if route.asked_by is None and not route.sticky.by:
        leads = leads[:1]
    limits = {
        each: targets[each].first_token for each in leads if each in targets and targets[each].only_for != "hedge"
    }
    first, own = next(iter(limits.items()), ("", None))
    if delay is not None and own is not None and all(limit and delay >= limit for limit in limits.values()):
        fixed = isinstance(route.hedge.delay, Fixed)
        at, ever = (_DELAY, "ever be hedged") if fixed else (_WARMUP, "be hedged before the warm-up is over")
        text = f"{show_duration(delay)} is too long for targets.{first}.first_token ({show_duration(own)})"
        yield Problem(("routes", name, *at), f"{text}: no stream would {ever}")


def _chain(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    if "delay" in route.hedge.model_fields_set and route.hedge.delay != Off():
        text = "contradicts hedge.mode: chain, where one target is asked after the other; drop one of the two"
        yield Problem(("routes", name, *_DELAY), text)
    before, total = sum(_first_tokens(route, targets)[:-1]), route.timeouts.total
    if before >= total:
        text = f"{show_duration(total)} is too short for the chain: the targets before the last may take"
        yield Problem(("routes", name, *_TOTAL), f"{text} {show_duration(before)}, so it would never be asked")


def hurried(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    """A warning about a chain whose last target has less time than it is said to have."""
    needed, total = sum(_first_tokens(route, targets)), route.timeouts.total
    if route.hedge.chained and needed > total:
        text = f"{show_duration(total)} leaves the last target of the chain less than its first_token"
        yield Problem(("routes", name, *_TOTAL), f"{text}: together they may take {show_duration(needed)}")


def _first_tokens(route: Route, targets: Mapping[str, Target]) -> list[float]:
    """How long each attempt of the route may take until its first token, in the order in which targets are asked."""
    asked = route.in_order(targets)[: route.attempts]
    own = [targets[each].first_token if each in targets else None for each in asked]
    return [route.timeouts.first_token if each is None else each for each in own]


def _learned(name: str, route: Route) -> Iterator[Problem]:
    hedge, limits = route.hedge, route.timeouts
    least, most, warmup = hedge.min_delay, hedge.max_delay, hedge.warmup.delay
    if least > most:
        yield _clash(name, route, _LEAST, _MOST, "there is no delay between them")
    elif warmup and "delay" in hedge.warmup.model_fields_set and not least <= warmup <= most:
        low, high = (_WARMUP, _MOST) if warmup > most else (_LEAST, _WARMUP)
        yield _clash(name, route, low, high, "every delay is kept between min_delay and max_delay")
    if least >= limits.total:
        yield _clash(name, route, _LEAST, _TOTAL, "nothing would ever be hedged")
    elif least >= limits.first_token:
        yield _clash(name, route, _LEAST, _FIRST, "no stream would ever be hedged")
    if isinstance(hedge.delay, Slo):
        if hedge.delay.seconds <= least:
            yield _clash(name, route, _LEAST, _DELAY, "no hedge could make that")
        if hedge.delay.seconds >= limits.total:
            yield _clash(name, route, _DELAY, _TOTAL, "no request lasts that long")
    if hedge.warmup.samples > hedge.window.samples:
        keys = ("hedge", "warmup", "samples"), ("hedge", "window", "samples")
        yield _clash(name, route, *keys, "the warm-up would never end", "many")


def unpriced(
    routes: Mapping[str, Route], targets: Mapping[str, Target], server: ServerSettings | None
) -> Iterator[Problem]:
    """Money can only be counted where every target that may be asked has a price."""
    asked: dict[str, str] = {}
    caps = {} if server is None else {"server.budget": server.budget, "server.tenant_budget": server.tenant_budget}
    for name, route in routes.items():
        spends: dict[str, Spend] = {f"{show_path(('routes', name))}.spend": route.spend, **caps}
        for who in [who for who, spend in spends.items() if spend.in_money]:
            for each in route.targets:
                asked.setdefault(each, who)
    for each, who in asked.items():
        if each in targets and not targets[each].counts_money:
            text = f"is required: {who} counts dollars, so say what this target charges: {{input: 0.25, output: 2}}"
            yield Problem(("targets", each, "price"), text)


def worthless(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    """A limit of nought where every further attempt costs something."""
    others = [targets[each].price for each in route.backups(targets) if each in targets]
    if route.hedge.races or not route.hedges or not all(price and price.is_known for price in others):
        return
    for key in ("usd_per_hour", "usd_per_day", "usd_per_month"):
        if getattr(route.spend, key) == 0:
            delay = show(route.hedge.delay, show_duration)
            text = f"is 0: with hedge.delay: {delay} no hedge could ever be paid for; drop it, or set delay: off"
            yield Problem(("routes", name, "spend", key), text)


def without_effect(name: str, route: Route) -> Iterator[Problem]:
    """Warnings about keys that matter only to learned delays, where it is fixed, or to hedges, in a chain."""
    hedge = route.hedge
    if hedge.chained:
        for key in sorted(hedge.model_fields_set - {"mode", "delay"}):
            yield Problem(("routes", name, "hedge", key), "has no effect in mode: chain, which never hedges")
    elif hedge.races:
        for key in (key for key in (*_LEARNED, "outage") if key in hedge.model_fields_set):
            yield Problem(("routes", name, "hedge", key), "has no effect in mode: race, where there is no delay")
    elif "width" in hedge.model_fields_set:
        yield Problem(("routes", name, "hedge", "width"), "has no effect without mode: race")
    elif isinstance(hedge.delay, Fixed):
        for key in (key for key in _LEARNED if key in hedge.model_fields_set):
            text = f"has no effect: hedge.delay is {show_duration(hedge.delay.seconds)}, nothing is learned for it"
            yield Problem(("routes", name, "hedge", key), text)


def _clash(name: str, route: Route, low: KeyPath, high: KeyPath, why: str, what: str = "long") -> Problem:
    """`low` is too much for `high`; told at whichever of the two the file sets, and a default is called one."""

    def section(key: KeyPath) -> Any:
        return reduce(getattr, map(str, key[:-1]), route)

    def is_set(key: KeyPath) -> bool:
        return key[-1] in section(key).model_fields_set

    def shown(key: KeyPath) -> str:
        match getattr(section(key), str(key[-1])):
            case int() as number:
                return str(number)
            case Fixed(seconds):
                return show_duration(seconds)
            case Slo() as spec:
                return show(spec, show_duration)
            case seconds:
                return show_duration(seconds)

    at, other = (low, high) if is_set(low) else (high, low)
    little = {"long": "short", "many": "few"}[what]
    relation = f"too {what if at == low else little} for"
    default = "" if is_set(other) else ", the default"
    return Problem(
        ("routes", name, *at),
        f"{shown(at)} is {relation} {show_path(('routes', name, *other))} ({shown(other)}{default}): {why}",
    )
