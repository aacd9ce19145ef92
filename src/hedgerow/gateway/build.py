"""From a blueprint to a running gateway's parts: targets with pools, routes with hedgers, the core."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from urllib.parse import urlsplit

from hedgerow.events import Listener
from hedgerow.gateway.access import Access
from hedgerow.gateway.blueprint import Blueprint, TargetBlueprint
from hedgerow.gateway.core import Gateway, Limits
from hedgerow.gateway.route import Route
from hedgerow.gateway.target import Target
from hedgerow.hedger import Hedger, Place
from hedgerow.http.client import Pool
from hedgerow.http.client_settings import Origin
from hedgerow.policy.health import Health
from hedgerow.policy.naming import RouteNames
from hedgerow.policy.plan import Candidate


def build(
    blueprint: Blueprint, *, loop: asyncio.AbstractEventLoop, listeners: Sequence[Listener] = ()
) -> tuple[Gateway, Sequence[Target]]:
    """The gateway core and its targets (to be closed by whoever called). Raises `ConfigError` (a proxy, a CA file)."""
    targets = {name: _target(name, target) for name, target in blueprint.targets.items()}
    health = Health()
    routes = {
        name: Route(
            Hedger(name, [targets[n].place for n in route.targets], route.policy, listeners=listeners, health=health),
            [targets[n] for n in route.targets],
        )
        for name, route in blueprint.routes.items()
    }
    server = blueprint.server
    gateway = Gateway(
        routes,
        default_route=blueprint.default_route,
        match=RouteNames(routes).find,
        loop=loop,
        id_prefix=f"hr-{secrets.token_hex(5)}",
        limits=Limits(server.held_bytes, server.answer_bytes),
        access=Access(server.api_keys) if server.api_keys else None,
    )
    return gateway, tuple(targets.values())


def _target(name: str, target: TargetBlueprint) -> Target:
    origin = Origin.of(target.base_url)
    place = Place(Candidate(name, target.account), own_key=not target.passthrough, own_model=target.model is not None)
    return Target(
        place,
        Pool(origin, target.pool),
        host=origin.host_header,
        base_path=urlsplit(target.base_url).path.encode("ascii"),
        model=target.model,
        authorization=None if target.secret is None else b"Bearer " + target.secret.encode(),
        passthrough=target.passthrough,
        headers=b"".join(b"%b: %b\r\n" % field for field in target.headers),
    )
