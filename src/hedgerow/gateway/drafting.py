"""From settings to the blueprint of a gateway: the only module of the gateway that knows the configuration."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import inf

from hedgerow import config
from hedgerow.config import Settings
from hedgerow.gateway.blueprint import Blueprint, Certificate, Reading, RouteBlueprint, ServerBlueprint, TargetBlueprint
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.http.limits import Limits
from hedgerow.http.proxy import proxy_for
from hedgerow.policy.plan import Policy
from hedgerow.wire.base import Family


def blueprint_of(settings: Settings, *, environ: Mapping[str, str] = os.environ) -> Blueprint:
    """What the settings mean. `environ` names the proxies of targets that obey the environment."""
    return Blueprint(
        targets={name: _target(target, environ) for name, target in settings.targets.items()},
        routes={name: _route(route) for name, route in settings.routes.items()},
        default_route=settings.default_route,
        server=_server(settings.server),
    )


def _target(target: config.Target, environ: Mapping[str, str]) -> TargetBlueprint:
    return TargetBlueprint(
        base_url=target.base_url,
        account=target.account_name,
        secret=target.secret,
        passthrough=target.passthrough,
        model=target.model,
        headers=target.extra_headers(),
        pool=_pool(target, environ),
        families=tuple(map(Family, target.protocol)),
        key_header=target.key_header,
        stream_usage=target.stream_usage,
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


def _route(route: config.Route) -> RouteBlueprint:
    hedge, timeouts = route.hedge, route.timeouts
    policy = Policy(
        delay=inf if hedge.delay is None else hedge.delay,
        max_hedges=0 if hedge.delay is None else hedge.max_hedges,
        max_attempts=route.attempts,
        budget=hedge.budget,
        first_token=timeouts.first_token,
        stall=timeouts.stall,
        total=timeouts.total,
    )
    reading = Reading(
        reasoning_counts=route.reasoning_counts, as_stream=route.nonstream_as_stream, allow=frozenset(hedge.allow)
    )
    return RouteBlueprint(targets=route.targets, policy=policy, reading=reading, endpoints=route.endpoints)


def _server(server: config.ServerSettings) -> ServerBlueprint:
    limits, timeouts, tls = server.limits, server.timeouts, server.tls
    return ServerBlueprint(
        host=server.listen.host,
        port=server.listen.port,
        reuse_port=server.reuse_port,
        certificate=None if tls is None else Certificate(cert=str(tls.cert), key=str(tls.key)),
        api_keys=tuple(key.get_secret_value() for key in server.api_keys),
        http=Limits(
            header_bytes=limits.header_bytes,
            body_bytes=limits.body_bytes,
            header_timeout=timeouts.header,
            body_timeout=timeouts.body,
            idle_timeout=timeouts.idle,
        ),
        held_bytes=limits.held_bytes,
        answer_bytes=limits.answer_bytes,
        drain=timeouts.drain,
        log_level=server.log_level,
        event_log=None if server.event_log is None else str(server.event_log),
        admin_token=server.admin.secret,
        reload=server.reload,
    )
