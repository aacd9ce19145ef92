"""From a blueprint to a running gateway's parts: targets with pools, routes with hedgers, the core."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from hedgerow.events import Listener
from hedgerow.gateway.access import Access
from hedgerow.gateway.blueprint import Blueprint, RouteBlueprint, TargetBlueprint
from hedgerow.gateway.core import Gateway, Limits
from hedgerow.gateway.route import Route
from hedgerow.gateway.routing import Routing, Ways
from hedgerow.gateway.target import Target, key_style
from hedgerow.hedger import Hedger, Place
from hedgerow.http.client import Pool
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.policy.health import Health
from hedgerow.policy.naming import RouteNames
from hedgerow.policy.plan import Candidate
from hedgerow.wire.base import Family

MakePool = Callable[[str, Origin, PoolSettings], Pool]
"""The pool of connections to the target of this name."""


def build(
    blueprint: Blueprint,
    *,
    loop: asyncio.AbstractEventLoop,
    listeners: Sequence[Listener] = (),
    make_pool: MakePool = lambda _name, origin, settings: Pool(origin, settings),
) -> tuple[Gateway, Sequence[Pool]]:
    """The gateway core and the pools of its targets (to be closed by whoever called).

    Raises `ConfigError` (a proxy, a CA file).
    """
    sites = {name: _Site(name, target, make_pool) for name, target in blueprint.targets.items()}
    health = Health()
    routes = {name: _ways(name, route, sites, listeners, health) for name, route in blueprint.routes.items()}
    server = blueprint.server
    gateway = Gateway(
        Routing(routes, default=blueprint.default_route, match=RouteNames(routes).find),
        loop=loop,
        id_prefix=f"hr-{secrets.token_hex(5)}",
        limits=Limits(server.held_bytes, server.answer_bytes),
        access=Access(server.api_keys) if server.api_keys else None,
    )
    return gateway, [site.pool for site in sites.values()]


def _ways(
    name: str, route: RouteBlueprint, sites: Mapping[str, _Site], listeners: Sequence[Listener], health: Health
) -> Ways:
    at = [sites[target] for target in route.targets]
    hedger = Hedger(name, [site.place for site in at], route.policy, listeners=listeners, health=health)
    speaking = {}
    for family in Family:
        which = [index for index, site in enumerate(at) if family in site.families]
        if which:
            targets = [at[index].seen_by(family) for index in which]
            speaking[family] = Route(hedger.narrowed(which), targets, route.reading)
    return Ways(Route(hedger, [site.seen_by(Family.HTTP) for site in at], route.reading), speaking, route.endpoints)


class _Site:
    """A configured target: one pool, whatever families of protocols come that way."""

    def __init__(self, name: str, target: TargetBlueprint, make_pool: MakePool) -> None:
        self._target = target
        self._origin = Origin.of(target.base_url)
        self._seen: dict[Family, Target] = {}
        self.families = target.families
        self.pool = make_pool(name, self._origin, target.pool)
        self.place = Place(
            Candidate(name, target.account), own_key=not target.passthrough, own_model=target.model is not None
        )

    def seen_by(self, family: Family) -> Target:
        """The target for requests of this family."""
        if family not in self._seen:
            self._seen[family] = self._make(family)
        return self._seen[family]

    def _make(self, family: Family) -> Target:
        target = self._target
        return Target(
            self.place,
            self.pool,
            host=self._origin.host_header,
            base_path=urlsplit(target.base_url).path.encode("ascii"),
            model=target.model,
            authorization=None if target.secret is None else b"Bearer " + target.secret.encode(),
            passthrough=target.passthrough,
            headers=b"".join(b"%b: %b\r\n" % field for field in target.headers),
            style=key_style(target.key_header, family),
            as_sent=target.key_header == "auto" and family in (Family.ANTHROPIC, Family.GEMINI),
            stream_usage=target.stream_usage,
        )
