"""From settings to a running gateway's parts: targets with pools, routes with hedgers, the core."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Mapping, Sequence
from math import inf
from urllib.parse import urlsplit

from hedgerow import config
from hedgerow.config import Settings
from hedgerow.events import Listener
from hedgerow.gateway.access import Access
from hedgerow.gateway.core import Gateway, Limits
from hedgerow.gateway.route import Route
from hedgerow.gateway.target import Target
from hedgerow.hedger import Hedger, Place, Policy
from hedgerow.http.client import Pool
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.http.proxy import proxy_for
from hedgerow.policy.health import Health
from hedgerow.policy.plan import Candidate


def build(
    settings: Settings,
    *,
    loop: asyncio.AbstractEventLoop,
    listeners: Sequence[Listener] = (),
    environ: Mapping[str, str] = os.environ,
) -> tuple[Gateway, Sequence[Target]]:
    """The gateway core and its targets (to be closed by whoever called)."""
    targets = {name: _target(name, target, environ) for name, target in settings.targets.items()}
    health = Health()
    routes = {
        name: Route(
            Hedger(name, [targets[n].place for n in route.targets], _policy(route), listeners=listeners, health=health),
            [targets[n] for n in route.targets],
        )
        for name, route in settings.routes.items()
    }
    server = settings.server
    gateway = Gateway(
        routes,
        default_route=settings.default_route,
        match=settings.route_for,
        loop=loop,
        id_prefix=f"hr-{secrets.token_hex(5)}",
        limits=Limits(server.limits.held_bytes, server.limits.answer_bytes),
        access=Access(key.get_secret_value() for key in server.api_keys) if server.api_keys else None,
    )
    return gateway, tuple(targets.values())


def _policy(route: config.Route) -> Policy:
    hedge, timeouts = route.hedge, route.timeouts
    return Policy(
        delay=inf if hedge.delay is None else hedge.delay,
        max_hedges=0 if hedge.delay is None else hedge.max_hedges,
        max_attempts=route.attempts,
        first_token=timeouts.first_token,
        stall=timeouts.stall,
        total=timeouts.total,
    )


def _target(name: str, target: config.Target, environ: Mapping[str, str]) -> Target:
    origin = Origin.of(target.base_url)
    secret = target.secret
    place = Place(
        Candidate(name, target.account_name), own_key=not target.passthrough, own_model=target.model is not None
    )
    return Target(
        place,
        Pool(origin, _pool_settings(target, origin, environ)),
        host=origin.host_header,
        base_path=urlsplit(target.base_url).path.encode("ascii"),
        model=target.model,
        authorization=None if secret is None else b"Bearer " + secret.encode(),
        passthrough=target.passthrough,
        headers=b"".join(b"%b: %b\r\n" % field for field in target.extra_headers()),
    )


def _pool_settings(target: config.Target, origin: Origin, environ: Mapping[str, str]) -> PoolSettings:
    connections, tls = target.connections, target.tls
    match target.proxy:
        case "env":
            proxy = proxy_for(origin, environ)
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
