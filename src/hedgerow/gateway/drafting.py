"""From settings to the blueprint: with `drafting_server` all of the gateway that knows the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from math import inf
from pathlib import Path
from types import MappingProxyType

import msgspec

from hedgerow import config
from hedgerow.config import Settings
from hedgerow.gateway.blueprint import (
    Blueprint,
    Key,
    Reading,
    Replay,
    RouteBlueprint,
    TargetBlueprint,
)
from hedgerow.gateway.drafting_costs import costs_of
from hedgerow.gateway.drafting_server import server_of
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.http.proxy import proxy_for
from hedgerow.policy.account import Limits
from hedgerow.policy.alternatives import KeepSettings
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.policy.budget import Share
from hedgerow.policy.cancelling import Probed
from hedgerow.policy.delay import Off, show
from hedgerow.policy.gates.settings import GateSettings, Prefix
from hedgerow.policy.latency.cells import Learning
from hedgerow.policy.order import Sticky
from hedgerow.policy.outage import ThrottleSettings
from hedgerow.policy.plan import OnFailure
from hedgerow.policy.settings import Conditions, Policy
from hedgerow.units import show_duration
from hedgerow.wire.base import Family
from hedgerow.wire.continuing import Form
from hedgerow.wire.needs import JSON_SCHEMA, TOOLS, VISION

CAPABILITIES = frozenset({TOOLS, VISION, JSON_SCHEMA})


def blueprint_of(
    settings: Settings, *, environ: Mapping[str, str] = os.environ, probed: Mapping[str, Probed] = MappingProxyType({})
) -> Blueprint:
    """What the settings mean. `environ` names the proxies of targets that obey the environment.

    `probed` is what is known of targets whose cancelling was tried out.
    """
    prices = settings.server.prices.file
    return Blueprint(
        targets={name: _target(target, environ, prices, probed.get(name)) for name, target in settings.targets.items()},
        routes={name: _route(route, settings.targets) for name, route in settings.routes.items()},
        default_route=settings.default_route,
        budget=_cap(settings.server.budget),
        tenant_budget=_cap(settings.server.tenant_budget),
        server=server_of(settings.server),
    )


def _target(
    target: config.Target, environ: Mapping[str, str], prices: Path | None, probed: Probed | None
) -> TargetBlueprint:
    return TargetBlueprint(
        base_url=target.base_url,
        account=target.account_name,
        secret=target.secret,
        passthrough=target.passthrough,
        model=target.sent_model,
        headers=target.extra_headers(),
        pool=_pool(target, environ),
        families=tuple(map(Family, target.protocol)),
        key_header=target.key_header,
        stream_usage=target.stream_usage,
        override=tuple(_override(target)),
        **costs_of(target, prices, probed),
        weight=target.weight,
        first_token=target.first_token,
        more_keys=tuple(Key(account=account, secret=secret) for account, secret in target.more_keys),
        only_for=target.only_for,
        region=target.region,
        lacks=CAPABILITIES - set(target.supports),
        max_context=target.max_context,
        idempotency_header=target.idempotency_header,
        continues=None if target.continues == "off" else Form(target.continues),
        breaker=_breaker(target.breaker),
        on_cancel_failure=OnFailure(target.on_cancel_failure),
        probed=probed,
    )


def _override(target: config.Target) -> Iterable[tuple[str, bytes | None]]:
    for name, value in target.override.items():
        if name != "model":
            yield name, None if value is None else msgspec.json.encode(value)


def _breaker(breaker: config.Breaker) -> BreakerSettings:
    return BreakerSettings(
        failure_ratio=breaker.failure_ratio,
        slow_ratio=breaker.slow_ratio,
        slow_after=breaker.slow_after,
        failures=breaker.failures,
        minimum=breaker.minimum,
        window=breaker.window,
        open_for=breaker.open_for,
        open_at_most=breaker.open_for * 1.5,
        successes=breaker.successes,
    )


def _pool(target: config.Target, environ: Mapping[str, str]) -> PoolSettings:
    connections, tls = target.connections, target.tls
    match target.proxy:
        case "env":
            proxy = proxy_for(Origin.of(target.base_url), environ)
        case "off":
            proxy = None
        case url:
            proxy = url
    return PoolSettings(
        max_connections=connections.max,
        max_waiting=connections.queue,
        queue_timeout=connections.queue_timeout,
        connect_timeout=connections.connect_timeout,
        idle_timeout=connections.idle_timeout,
        ca_file=None if tls.ca_file is None else str(tls.ca_file),
        verify=tls.verify,
        proxy=proxy,
    )


def _route(route: config.Route, targets: Mapping[str, config.Target]) -> RouteBlueprint:
    hedge = route.hedge
    reading = Reading(
        reasoning_counts=route.reasoning_counts,
        as_stream=route.nonstream_as_stream,
        allow=frozenset(hedge.allow),
        traits=tuple((name.encode(), text.lower().encode(), _trait(name, text)) for name, text in _headers(hedge)),
        on_stall=route.on_stall,
        total=route.timeouts.total,
        session=route.sticky.by,
        needs=any(CAPABILITIES - set(at.supports) or at.max_context for at in map(targets.__getitem__, route.targets)),
    )
    again = route.idempotency
    return RouteBlueprint(
        targets=route.targets,
        policy=_policy(route, targets),
        reading=reading,
        endpoints=route.endpoints,
        keep=_keep(route),
        replay=None if again.window is None else Replay(again.window, again.linger, again.streams),
    )


def _keep(route: config.Route) -> KeepSettings | None:
    keep = route.keep
    if route.losers == "cancel":
        return None
    drains = route.losers == "drain"
    return KeepSettings(keep.max_time, keep.max_usd, keep.max_tokens, keep.ttl, keep.scope == "content", drains)


def _headers(hedge: config.Hedge) -> Iterable[tuple[str, str]]:
    return hedge.only_if.headers.items()


def _trait(name: str, text: str) -> str:
    return f"headers: {name}: {text}"


def _policy(route: config.Route, targets: Mapping[str, config.Target]) -> Policy:
    hedge, timeouts, only_if = route.hedge, route.timeouts, route.hedge.only_if
    window = hedge.window.samples
    return Policy(
        order=route.asked_by,
        sticky=Sticky(route.sticky.ttl, route.sticky.sessions) if route.sticky.by else None,
        delay=show(Off() if hedge.races or hedge.chained else hedge.delay, show_duration),
        min_delay=hedge.min_delay,
        max_delay=hedge.max_delay,
        target=hedge.target,
        warmup_delay=inf if hedge.warmup.delay is None else hedge.warmup.delay,
        learning=Learning(window, hedge.window.age, min(100, window), hedge.warmup.samples),
        shadow=hedge.mode == "shadow",
        width=hedge.width if hedge.races else 1,
        chain=hedge.chained,
        max_hedges=0 if hedge.chained or len(route.targets) == 1 else hedge.max_hedges,
        max_attempts=route.attempts_with(targets),
        limits=_limits(route),
        conditions=Conditions(
            streaming=only_if.streaming,
            max_tokens_below=only_if.max_tokens_below,
            traits=frozenset(_trait(name, text) for name, text in _headers(hedge)),
            max_input_tokens=hedge.max_input_tokens,
            background=route.background,
        ),
        rollout=hedge.rollout,
        holdout=route.experiment.holdout,
        kill_switch=hedge.kill_switch,
        quota_keep=hedge.quota_keep,
        quota_share=hedge.quota_share,
        throttle=_throttle(hedge.outage),
        first_token=timeouts.first_token,
        stall=timeouts.stall,
        total=timeouts.total,
        gates=_gates(route.gates),
    )


def _gates(gates: config.Gates) -> GateSettings | None:
    tokens = gates.prefix.tokens
    prefix = None if tokens is None else Prefix(tokens, gates.prefix.time)
    if not gates.require:
        return None
    return GateSettings(gates.require, prefix, gates.wait, gates.strict, gates.unhealthy)


def _throttle(outage: config.Outage) -> ThrottleSettings:
    return ThrottleSettings(outage.max_tokens, outage.token_ratio, both_slow=outage.both_slow)


def _limits(route: config.Route) -> Limits:
    hedge, failover, spend = route.hedge, route.failover, route.spend
    most = hedge.width - 1 if hedge.races else hedge.max_hedges
    endless = hedge.cap is None or hedge.cap >= most  # no more than that are ever asked for
    return Limits(
        None if endless or hedge.cap is None else Share(hedge.cap, hedge.burst, hedge.per_minute),
        None if failover.budget is None else Share(failover.budget, failover.burst, failover.per_minute),
        *_money(spend),
    )


def _money(spend: config.Spend) -> tuple[int | None, int | None, int | None, int | None]:
    return spend.usd_per_hour, spend.usd_per_day, spend.usd_per_month, spend.tokens_per_minute


def _cap(cap: config.Cap) -> Limits:
    hedges, failovers = (None if each is None else Share(each, cap.burst) for each in (cap.hedges, cap.failovers))
    return Limits(hedges, failovers, *_money(cap))
