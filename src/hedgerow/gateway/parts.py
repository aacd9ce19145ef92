"""What a blueprint comes to at run time: what a reload makes anew and puts in the place of the old."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from hedgerow.gateway.blueprint import Blueprint, Stamp
from hedgerow.gateway.routing import Routing
from hedgerow.hedger import Hedger
from hedgerow.http.client import Pool
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.policy.health import Health
from hedgerow.policy.judge import Shared


class Pooled(NamedTuple):
    """A pool and what it was made for. `ca`: the stamp of its CA file, which is read once."""

    pool: Pool
    origin: Origin
    settings: PoolSettings
    ca: Stamp | None

    def fits(self, origin: Origin, settings: PoolSettings, ca: Stamp | None) -> bool:
        """Whether it is just the pool that would be made for this."""
        return (self.origin, self.settings, self.ca) == (origin, settings, ca)


class Parts(NamedTuple):
    """The routes by their names, with their hedgers, and by target the pools of connections.

    `health` and `shared`, of all of them together, are the same ones after a reload.
    """

    blueprint: Blueprint
    routing: Routing
    hedgers: Mapping[str, Hedger]
    pools: Mapping[str, Pooled]
    health: Health
    shared: Shared
