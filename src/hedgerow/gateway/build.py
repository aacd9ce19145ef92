"""From a blueprint to a running gateway's parts: targets with pools, routes with hedgers, the core."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections.abc import Callable, Mapping, Sequence

from hedgerow.audience import Audience
from hedgerow.errors import ConfigError
from hedgerow.events import CancelFailed, Listener
from hedgerow.gateway import sharing
from hedgerow.gateway.blueprint import Blueprint, RouteBlueprint, TargetBlueprint
from hedgerow.gateway.core import Gateway
from hedgerow.gateway.gates import gates_of
from hedgerow.gateway.parts import Parts, Pooled
from hedgerow.gateway.reload_watch import stamp_of
from hedgerow.gateway.route import Route
from hedgerow.gateway.routing import Routing, Ways
from hedgerow.gateway.target import Target, base_path, key_style
from hedgerow.gateway.trial import Gates
from hedgerow.hedger import Hedger
from hedgerow.http.client import Pool
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.policy.cancelling import runs_on
from hedgerow.policy.health import Health, Watch
from hedgerow.policy.judge import Shared
from hedgerow.policy.naming import RouteNames
from hedgerow.policy.plan import Candidate, Place
from hedgerow.policy.terms import Terms
from hedgerow.state.redis_log import RedisLog
from hedgerow.wire.base import Family
from hedgerow.wire.override import tree_of

MakePool = Callable[[str, Origin, PoolSettings], Pool]
"""The pool of connections to the target of this name."""


def build(
    blueprint: Blueprint,
    *,
    loop: asyncio.AbstractEventLoop,
    listeners: Sequence[Listener] = (),
    make_pool: MakePool = lambda _name, origin, settings: Pool(origin, settings),
    old: Parts | None = None,
) -> tuple[Gateway, Sequence[Pool]]:
    """The gateway core and the pools of its targets (to be closed by whoever called).

    Routes of `old`, a gateway that is asked no more, go on learning here. Raises `ConfigError` (a proxy, a CA file, a
    gate).
    """
    gateway, parts = Builder(listeners, make_pool).gateway(blueprint, loop, old)
    return gateway, [pooled.pool for pooled in parts.pools.values()]


class Builder:
    """Makes the parts of one gateway, at first and again when its configuration changes.

    What it holds outlives that: who listens, the health of targets, what an operator has set for all routes.
    """

    def __init__(
        self,
        listeners: Sequence[Listener] = (),
        make_pool: MakePool = lambda _name, origin, settings: Pool(origin, settings),
    ) -> None:
        self._listeners = listeners
        self._make_pool = make_pool
        self._health = Health()
        self._shared = Shared(random.Random().random)  # noqa: S311  # who is hedged is no secret

    def gateway(
        self, blueprint: Blueprint, loop: asyncio.AbstractEventLoop, old: Parts | None = None
    ) -> tuple[Gateway, Parts]:
        """The gateway, and its parts as they are now; `old` as for `parts`. Raises `ConfigError`."""
        parts = self.parts(blueprint, loop.time(), old)
        gateway = Gateway(
            parts.routing,
            loop=loop,
            id_prefix=f"hr-{secrets.token_hex(5)}",
            controls=self._shared.controls,
            listeners=self._listeners,
            shared=_shared(blueprint.server.redis, loop),
        )
        gateway.install(parts)
        return gateway, parts

    def parts(self, blueprint: Blueprint, now: float, old: Parts | None = None) -> Parts:
        """What the blueprint comes to. Pools of `old` are used again where they fit; its routes go on learning.

        Raises `ConfigError` (a proxy, a CA file, a gate); then nothing has changed: a new pool holds nothing before it
        is used.
        """
        kept = {} if old is None else old.pools
        pools = {name: self._pooled(name, target, kept.get(name)) for name, target in blueprint.targets.items()}
        sites = {name: Site(name, target, pools[name]) for name, target in blueprint.targets.items()}
        gates = {name: gates_of(name, route.policy.gates) for name, route in blueprint.routes.items()}
        hedgers = {name: self._hedger(name, route, sites) for name, route in blueprint.routes.items()}
        self._settle(blueprint, now)
        self._tell_of_cancels(blueprint, {} if old is None else old.blueprint.targets, now)
        if old is not None:
            for name, hedger in hedgers.items():
                if name in old.hedgers:
                    hedger.adopt(old.hedgers[name], now)
        ways = {name: _ways(hedgers[name], route, sites, gates[name]) for name, route in blueprint.routes.items()}
        routing = Routing(ways, default=blueprint.default_route, match=RouteNames(ways).find)
        return Parts(blueprint, routing, hedgers, pools, self._health, self._shared)

    def reprice(self, blueprint: Blueprint) -> None:
        """What its targets charge holds from now on."""
        self._shared.terms = {name: terms_of(each) for name, each in blueprint.targets.items()}

    def _pooled(self, name: str, target: TargetBlueprint, old: Pooled | None) -> Pooled:
        origin, settings = Origin.of(target.base_url), target.pool
        ca = None if settings.ca_file is None else stamp_of(settings.ca_file)
        if old is not None and old.fits(origin, settings, ca):
            return old
        try:
            return Pooled(self._make_pool(name, origin, settings), origin, settings, ca)
        except ConfigError as error:
            raise ConfigError([f"targets.{name}.{problem}" for problem in error.problems]) from None

    def _hedger(self, name: str, route: RouteBlueprint, sites: Mapping[str, Site]) -> Hedger:
        places = [place for target in route.targets for place in sites[target].places]
        return Hedger(name, places, route.policy, listeners=self._listeners, health=self._health, shared=self._shared)

    def _settle(self, blueprint: Blueprint, now: float) -> None:
        """What all routes have in common."""
        targets = blueprint.targets
        self._health.watch({name: watch_of(each) for name, each in targets.items()})
        self.reprice(blueprint)
        self._shared.funds.resize(blueprint.budget, blueprint.tenant_budget, now)

    def _tell_of_cancels(self, blueprint: Blueprint, old: Mapping[str, TargetBlueprint], now: float) -> None:
        """Say which targets are known to go on with what is cancelled there, where that is news."""
        tell = Audience(self._listeners).tell
        for name, target in blueprint.targets.items():
            found, action = target.probed, target.on_cancel_failure
            before = old[name].probed if name in old else None
            known = before is not None and before.fails
            if found is not None and found.fails and found != before:
                tell(CancelFailed(name, True, found.detail, action, now))
            elif known and (found is None or not found.fails):
                why = "the probe that said otherwise is no longer valid" if found is None else found.detail
                tell(CancelFailed(name, False, why, action, now))


def watch_of(target: TargetBlueprint) -> Watch:
    """How its health is judged."""
    return Watch(target.breaker, target.model is None)


def terms_of(target: TargetBlueprint) -> Terms:
    """What attempts at it cost."""
    return Terms(
        target.price,
        target.listed,
        stream=target.on_cancel,
        whole=target.on_cancel_whole,
        bills_refusals=target.bills_refusals,
    )


def _shared(redis: str | None, loop: asyncio.AbstractEventLoop) -> sharing.Shared | None:
    return None if redis is None else sharing.Shared(RedisLog(redis), loop)


def _ways(hedger: Hedger, route: RouteBlueprint, sites: Mapping[str, Site], gates: Gates | None) -> Ways:
    at = [(sites[target], number) for target in route.targets for number in range(len(sites[target].places))]
    speaking = {}
    for family in Family:
        which = [index for index, (site, _) in enumerate(at) if family in site.families]
        if which:
            targets = [site.seen_by(family, number) for site, number in map(at.__getitem__, which)]
            speaking[family] = Route(
                hedger.narrowed([hedger.places[index] for index in which]),
                targets,
                route.reading,
                gates,
                route.replay,
                route.keep,
            )
    targets = [site.seen_by(Family.HTTP, number) for site, number in at]
    any_path = Route(hedger, targets, route.reading, gates, route.replay, route.keep)
    return Ways(any_path, speaking, route.endpoints)


def places_of(name: str, target: TargetBlueprint) -> list[Place]:
    """A place for each key of a target."""
    accounts = [target.account, *(key.account for key in target.more_keys)]
    return [_place(name, target, account, number) for number, account in enumerate(accounts, 1)]


def _place(name: str, target: TargetBlueprint, account: str, number: int) -> Place:
    key = number if target.more_keys else 0
    candidate = Candidate(
        name,
        account,
        target.weight,
        target.first_token,
        key,
        leads=target.only_for != "hedge",
        backs=target.only_for != "primary",
        region=target.region or "",
        lacks=target.lacks,
        max_context=target.max_context,
        runs_on=runs_on(target.probed, target.on_cancel_failure),
    )
    return Place(candidate, own_key=not target.passthrough, own_model=target.model is not None)


class Site:
    """A configured target: one pool, whatever families of protocols come that way, and a place for each of its keys."""

    def __init__(self, name: str, target: TargetBlueprint, pooled: Pooled) -> None:
        self._target = target
        self._origin = pooled.origin
        self._pool = pooled.pool
        self._seen: dict[tuple[Family, int], Target] = {}
        self.families = target.families
        self._secrets = [target.secret, *(key.secret for key in target.more_keys)]
        self.places = places_of(name, target)

    def seen_by(self, family: Family, number: int) -> Target:
        """The target for requests of this family, with the key of this number."""
        if (family, number) not in self._seen:
            self._seen[family, number] = self._make(family, number)
        return self._seen[family, number]

    def _make(self, family: Family, number: int) -> Target:
        target, secret = self._target, self._secrets[number]
        return Target(
            self.places[number],
            self._pool,
            host=self._origin.host_header,
            base_path=base_path(target.base_url, family, versioned=target.versioned),
            model=target.model,
            authorization=None if secret is None else b"Bearer " + secret.encode(),
            passthrough=target.passthrough,
            headers=b"".join(b"%b: %b\r\n" % field for field in target.headers),
            withholds=target.withholds,
            style=key_style(target.key_header, family),
            as_sent=target.key_header == "auto" and family in (Family.ANTHROPIC, Family.GEMINI),
            stream_usage=target.stream_usage,
            override=tree_of(target.override) or None,
            continues=target.continues,
            key_field=(target.idempotency_header or "").lower().encode(),
        )
