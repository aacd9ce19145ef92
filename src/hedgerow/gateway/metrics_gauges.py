"""What holds in a gateway now, as samples for its metrics: asked at a scrape, so that nothing keeps count of it."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import hedgerow
from hedgerow.events import BreakerState
from hedgerow.policy.plan import Candidate
from hedgerow.telemetry.families import Labels, Samples, Value, add

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.parts import Parts


_Sample = tuple[str, Labels, Value]
_FROM_ZERO = ("hedged_requests_total", "hedges_launched_total", "hedges_won_total", "saved_seconds_total")
"""Counters that are there before anything is counted: a rate of what is not there is nothing, and not zero."""
_QUOTAS = ("requests", "tokens", "input_tokens", "output_tokens")


def gauges(gateway: Gateway, epoch: float) -> Samples:
    """By the names of `telemetry.families`, without `hedgerow_`. `epoch` is the Unix time when the loop showed 0."""
    samples: Samples = {}
    for name, labels, value in _all(gateway, epoch):
        add(samples.setdefault(f"hedgerow_{name}", {}), labels, value)
    return samples


def _all(gateway: Gateway, epoch: float) -> Iterable[_Sample]:
    yield "build_info", (hedgerow.__version__, platform.python_version()), 1
    yield "processes", (), 1
    yield "draining", (), int(gateway.draining)
    yield "alternatives_bytes", (), gateway.keeping.size
    yield "replay_bytes", (), gateway.once.counts[2]
    if (reloader := gateway.reloader) is not None:
        for result, count in reloader.counts.items():
            yield "config_reloads_total", (result,), count
        yield "config_last_reload_successful", (), int(reloader.sound)
        yield "config_last_reload_success_timestamp_seconds", (), epoch + reloader.loaded_at
    if (parts := gateway.parts) is not None:
        now = gateway.loop.time()
        yield from _flying(gateway, parts)
        for name in parts.hedgers:
            yield from _route(gateway, parts, name, now)
        funds = parts.shared.funds
        yield from _budget("server", "", funds.everybody.state(funds.at(now)))
        # By target and model, and models are what clients may choose: there may be very many.
        breakers = Counter((target, view.state) for (target, _), view in parts.health.breakers(now).items())
        for name in parts.pools:
            yield from _target(parts, name, breakers, now)


def _flying(gateway: Gateway, parts: Parts) -> Iterable[_Sample]:
    routes, targets = Counter[str](), Counter[str]()
    for flight in gateway.flights:
        routes[flight.route.name] += 1
        targets.update(attempt.target.name for attempt in flight.attempts if not attempt.ended)
    for name in parts.hedgers:
        yield "requests_in_flight", (name,), routes[name]
    for name in parts.pools:
        yield "attempts_open", (name,), targets[name]


def _route(gateway: Gateway, parts: Parts, name: str, now: float) -> Iterable[_Sample]:
    hedger = parts.hedgers[name]
    for counter in _FROM_ZERO:
        yield counter, (name,), 0
    configured = parts.blueprint.routes[name].policy.kill_switch
    off = configured or hedger.controls.kill_switch or gateway.controls.kill_switch
    yield "kill_switch", (name,), int(off)
    state = hedger.state(now)
    yield "hedging_throttled", (name,), int(state["throttle"].throttled)
    for each in state["delays"]:
        if each["delay"] is not None:
            stream = "yes" if each["stream"] else "no"
            kind = name, each["primary"], each["backup"], stream, str(each["prompt_tokens"])
            yield "hedge_delay_seconds", kind, each["delay"]
    yield from _budget("route", name, state["spend"]["route"])


def _budget(scope: str, route: str, state: Mapping[str, Any]) -> Iterable[_Sample]:
    for kind in ("hedges", "failovers"):
        if (share := state[kind]) is not None:
            yield "budget_balance", (scope, route, kind), share["balance"]
            yield "budget_burst", (scope, route, kind), share["burst"]
    for window, money in state["nanousd"].items():
        yield "budget_spent_dollars", (scope, route, window), money["spent"]
        if money["limit"] is not None:
            yield "budget_limit_dollars", (scope, route, window), money["limit"]


def _target(parts: Parts, name: str, breakers: Counter[tuple[str, BreakerState]], now: float) -> Iterable[_Sample]:
    target, pool = parts.blueprint.targets[name], parts.pools[name].pool
    yield "pool_connections", (name, "idle"), pool.idle
    yield "pool_connections", (name, "busy"), pool.open - pool.idle
    yield "pool_connections", (name, "connecting"), pool.connecting
    yield "pool_waiting", (name,), pool.waiting
    for state in BreakerState:
        yield "breakers", (name, str(state)), breakers[name, state]
    keys = [Candidate(name, account) for account in (target.account, *(key.account for key in target.more_keys))]
    yield "target_out", (name,), int(all(parts.health.out_until(key, now) is not None for key in keys))
    for number, key in enumerate(keys, 1):
        yield "quota_limited_seconds", (name, str(number)), parts.shared.quota.limited_for(key, now)
        left = parts.shared.quota.headroom(key, now)
        for kind in _QUOTAS:
            if left is not None and (room := getattr(left, kind)) is not None:
                yield "quota_remaining", (name, str(number), kind), room.remaining
                if room.limit is not None:
                    yield "quota_limit", (name, str(number), kind), room.limit
