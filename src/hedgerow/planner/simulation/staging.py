"""A route of a configuration, as an engine in virtual time needs it: by the very way that a serving process takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf

import msgspec

from hedgerow.config import Settings
from hedgerow.errors import ConfigError
from hedgerow.gateway.blueprint import Blueprint
from hedgerow.gateway.build import places_of, terms_of, watch_of
from hedgerow.gateway.drafting import blueprint_of
from hedgerow.policy.health import Health, Watch
from hedgerow.policy.judge import Shared
from hedgerow.policy.plan import Place
from hedgerow.policy.settings import Policy
from hedgerow.policy.spend import Funds


@dataclass(frozen=True, slots=True)
class Staged:
    """`primary`: the target that is asked first as long as all is well, by the order that holds."""

    name: str
    primary: str
    places: Sequence[Place]
    policy: Policy
    watches: Mapping[str, Watch]
    blueprint: Blueprint

    @property
    def targets(self) -> list[str]:
        """Each once, the primary first."""
        return list(dict.fromkeys([self.primary, *(place.candidate.target for place in self.places)]))

    @property
    def one_account(self) -> bool:
        """Whether all of it is at one provider, as far as keys tell."""
        return len({place.candidate.account for place in self.places}) == 1

    def health(self) -> Health:
        """Of targets of which nothing is known yet."""
        return Health(self.watches)

    def shared(self, draw: Callable[[], float]) -> Shared:
        """What the route has in common with others: budgets above its own, prices. `draw` gives numbers in [0, 1)."""
        blueprint = self.blueprint
        funds = Funds(blueprint.budget, blueprint.tenant_budget)
        return Shared(draw, funds=funds, terms={name: terms_of(each) for name, each in blueprint.targets.items()})


def stage(settings: Settings, name: str | None, *, source: str) -> Staged:
    """The route of this name, or the only one. Raises `ConfigError`."""
    if name is None and len(settings.routes) > 1:
        known = ", ".join(settings.routes)
        raise ConfigError([f"{source} has several routes: choose one with --route NAME; there are {known}"])
    name = next(iter(settings.routes)) if name is None else name
    if name not in settings.routes:
        raise ConfigError([f"{source} has no route {name!r}; there are {', '.join(settings.routes)}"])
    blueprint = blueprint_of(settings, environ={})
    route = blueprint.routes[name]
    places = [place for target in route.targets for place in places_of(target, blueprint.targets[target])]
    if len(places) < 2:
        again = f"such as [{route.targets[0]}, {route.targets[0]}], which asks the same provider twice"
        raise ConfigError([f"{source}: routes.{name}.targets has no backup to try: add one, {again}"])
    watches = {target: watch_of(blueprint.targets[target]) for target in route.targets}
    primary = settings.routes[name].in_order(settings.targets)[0]
    return Staged(name, primary, places, route.policy, watches, blueprint)


def without_hedging(policy: Policy) -> Policy:
    """The same route without hedges; one target after another is still asked when one fails."""
    first_token = inf if policy.chain else policy.first_token
    return msgspec.structs.replace(policy, delay=inf, width=1, max_hedges=0, shadow=False, first_token=first_token)
