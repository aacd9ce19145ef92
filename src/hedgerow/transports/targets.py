"""Where a transport sends requests, and what that comes to as a gateway's blueprint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

import msgspec

from hedgerow.client.settings import Policy
from hedgerow.gateway.blueprint import Blueprint, Reading, RouteBlueprint, ServerBlueprint, TargetBlueprint
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.http.limits import Limits
from hedgerow.http.proxy import proxy_for
from hedgerow.policy.alternatives import KeepSettings
from hedgerow.wire.base import Family

PASSTHROUGH = "passthrough"
ROUTE = "*"
"""The one route, for whatever model is asked for."""
_MIB = 1 << 20


class HttpTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One place an attempt can go. It does not show its key.

    `base_url` as the SDK takes it, such as https://api.openai.com/v1. `api_key`: "passthrough" sends the SDK's own, so
    say so only where that key belongs; None sends none. `model` replaces the one that was asked for. `protocol`: which
    APIs it speaks, of "openai", "anthropic", "gemini". `name` as in events; left out, the host. `account`: targets of
    one account share a rate limit.
    """

    base_url: str
    api_key: str | None = None
    model: str | None = None
    protocol: str | tuple[str, ...] = "openai"
    name: str | None = None
    account: str | None = None
    headers: Mapping[str, str] = {}
    ca_file: str | None = None
    max_connections: int = 1000

    def __repr__(self) -> str:
        return f"HttpTarget({self.base_url!r}, model={self.model!r})"

    def blueprint(self) -> TargetBlueprint:
        """As the gateway takes it. Raises `ValueError` for a URL or a protocol that is none."""
        origin = Origin.of(self.base_url)
        spoken = (self.protocol,) if isinstance(self.protocol, str) else self.protocol
        passes = self.api_key == PASSTHROUGH
        secret = None if passes else self.api_key
        mark = "" if secret is None else f"#{hashlib.sha256(secret.encode()).hexdigest()[:8]}"
        return TargetBlueprint(
            base_url=self.base_url.rstrip("/"),
            account=self.account or f"{urlsplit(self.base_url).netloc.rpartition('@')[2]}{mark}",
            secret=secret,
            passthrough=passes,
            model=self.model,
            headers=[(name.lower().encode(), value.encode()) for name, value in self.headers.items()],
            pool=PoolSettings(
                ca_file=self.ca_file, max_connections=self.max_connections, proxy=proxy_for(origin, os.environ)
            ),
            families=tuple(map(Family, spoken)),
        )


def blueprint_of(targets: Sequence[HttpTarget], policy: Policy, *, nonstream_as_stream: bool = False) -> Blueprint:
    """A gateway that has these targets in one route. Raises `ValueError`."""
    if not targets:
        raise ValueError("a transport needs at least one target")
    named: dict[str, TargetBlueprint] = {}
    for number, target in enumerate(targets, 1):
        name = target.name or urlsplit(target.base_url).hostname or "target"
        named[f"{name}-{number}" if name in named else name] = target.blueprint()
    rules = policy.for_targets(len(targets))
    kept_for = policy.kept_for
    keep = None if kept_for is None else KeepSettings(kept_for, None, None, 600.0, False)
    reading = Reading(as_stream=nonstream_as_stream, total=rules.total)
    route = RouteBlueprint(targets=tuple(named), policy=rules, reading=reading, keep=keep)
    server = ServerBlueprint(
        host=None,
        port=0,
        reuse_port=False,
        certificate=None,
        api_keys=(),
        http=Limits(),
        held_bytes=4 * _MIB,
        answer_bytes=64 * _MIB,
        replay_bytes=_MIB,
        drain=0.0,
        log_level="info",
    )
    return Blueprint(targets=named, routes={ROUTE: route}, default_route=ROUTE, server=server)
