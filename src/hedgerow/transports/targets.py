"""Where a transport sends requests, and what that comes to as a gateway's blueprint."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

import msgspec

from hedgerow.client.prices import Prices, need_prices, price_of
from hedgerow.client.settings import Policy
from hedgerow.errors import ConfigError
from hedgerow.extras import install
from hedgerow.gateway.blueprint import Blueprint, Reading, RouteBlueprint, ServerBlueprint, TargetBlueprint
from hedgerow.http.client_settings import Origin, PoolSettings
from hedgerow.http.client_tls import tls_context
from hedgerow.http.limits import Limits
from hedgerow.http.proxy import Proxy, proxy_for
from hedgerow.policy.alternatives import KeepSettings
from hedgerow.policy.breaker import BreakerSettings
from hedgerow.wire.base import Family

PASSTHROUGH = "passthrough"
ROUTE = "*"
"""The one route, for whatever model is asked for."""
Leave = Literal["n", "audio", "store"]
Protocol = Literal["openai", "anthropic", "gemini"]
_MIB = 1 << 20
_PATIENT = 3600.0
"""Seconds that a request may wait for a connection: clients have timeouts of their own for that."""
_DIAL = 60.0
"""Seconds after which the network has had its chance."""
_SERVER = ServerBlueprint(
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


class HttpTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One place an attempt can go. It does not show its key.

    `base_url` as the SDK takes it, such as https://api.openai.com/v1 or https://api.anthropic.com. `api_key`: its own;
    "passthrough" sends the one that the SDK was given, which must be for that very host; None sends none. `model`
    replaces the one that is asked for. `protocol`: which APIs it speaks, where a client speaks several. `name` as in
    events; left out, the host. `account`: targets of one account share a rate limit. `headers` are sent to it alone.
    `ca_file`: the authorities to trust in place of the usual ones; `verify` False trusts everybody. `proxy`: a URL,
    "env" for what the environment says, None for no proxy. `price`: {"input": 2.5, "output": 10} in dollars per million
    tokens, by the names of the configuration.
    """

    base_url: str
    api_key: str | None = None
    model: str | None = None
    protocol: Protocol | Sequence[Protocol] = ("openai", "anthropic", "gemini")
    name: str | None = None
    account: str | None = None
    headers: Mapping[str, str] = {}
    ca_file: str | None = None
    verify: bool = True
    proxy: str | None = "env"
    max_connections: int = 1000
    price: Prices | None = None

    def __post_init__(self) -> None:
        """Raises `ValueError` for a URL with parts that would not be sent; it is not quoted, as it may hold a key."""
        parts = urlsplit(self.base_url)
        if "@" in parts.netloc:
            raise ValueError("base_url has a user or password before its host: give it as api_key, or in headers")
        if parts.query or parts.fragment:
            raise ValueError("base_url has a query or a fragment, which would not be sent: it ends with its path")

    def __repr__(self) -> str:
        return f"HttpTarget({self.base_url!r}, model={self.model!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        """What the library rich prints."""
        return [("base_url", self.base_url), ("model", self.model)]

    def blueprint(self, breaker: BreakerSettings) -> TargetBlueprint:
        """As the gateway takes it. Raises `ValueError` for a URL, a protocol or a proxy that is none, and for a file
        of authorities that is unusable.
        """
        origin = Origin.of(self.base_url)
        try:
            if self.proxy not in (None, "env"):
                Proxy.of(self.proxy)
            if self.ca_file is not None:
                tls_context(self.ca_file, self.verify)
        except ConfigError as error:
            raise ValueError(f"the target at {origin.authority}: {error}") from None
        spoken = (self.protocol,) if isinstance(self.protocol, str) else self.protocol
        passes = self.api_key == PASSTHROUGH
        secret = None if passes else self.api_key
        mark = "" if secret is None else f"#{hashlib.sha256(secret.encode()).hexdigest()[:8]}"
        return TargetBlueprint(
            base_url=self.base_url.rstrip("/"),
            versioned=False,
            account=self.account or f"{origin.authority}{mark}",
            secret=secret,
            passthrough=passes,
            withholds=not passes,
            model=self.model,
            headers=[(name.lower().encode(), value.encode()) for name, value in self.headers.items()],
            pool=PoolSettings(
                ca_file=self.ca_file,
                verify=self.verify,
                max_connections=self.max_connections,
                max_waiting=1_000_000,
                queue_timeout=_PATIENT,
                connect_timeout=_DIAL,
                proxy=proxy_for(origin, os.environ) if self.proxy == "env" else self.proxy,
            ),
            families=tuple(map(Family, spoken)),
            breaker=breaker,
            price=None if self.price is None else price_of(self.base_url, self.price),
        )


def blueprint_of(
    targets: Sequence[HttpTarget], policy: Policy, *, nonstream_as_stream: bool = False, allow: Collection[Leave] = ()
) -> Blueprint:
    """A gateway that has these targets in one route. Raises `TypeError` and `ValueError`."""
    _check(targets, policy)
    if unknown := set(allow) - set(get_args(Leave)):
        raise ValueError(f"allow has {', '.join(sorted(unknown))}: it can have {', '.join(get_args(Leave))}")
    breaker = policy.breaker_settings or BreakerSettings(failure_ratio=None)
    named: dict[str, TargetBlueprint] = {}
    for number, target in enumerate(targets, 1):
        name = target.name or urlsplit(target.base_url).hostname or "target"
        named[f"{name}-{number}" if name in named else name] = target.blueprint(breaker)
    priced = {name: each.price for name, each in named.items() if each.price is not None}
    need_prices(policy, list(named), priced, 'HttpTarget(..., price={"input": 2.5, "output": 10})')
    rules = policy.for_targets(len(targets))
    kept_for = policy.kept_for
    keep = None if kept_for is None else KeepSettings(kept_for, None, None, 600.0, False)
    reading = Reading(as_stream=nonstream_as_stream, total=rules.total, allow=frozenset(allow))
    route = RouteBlueprint(targets=tuple(named), policy=rules, reading=reading, keep=keep)
    return Blueprint(targets=named, routes={ROUTE: route}, default_route=ROUTE, server=_SERVER)


def _check(targets: object, policy: object) -> None:
    if not isinstance(targets, Sequence) or isinstance(targets, str):
        raise TypeError(f"targets must be a list of HttpTargets, not {targets!r}")
    if not targets:
        raise ValueError("a transport needs at least one target")
    for each in targets:
        if not isinstance(each, HttpTarget):
            raise TypeError(f"a target must be an HttpTarget(base_url=...), not {each!r}")
    if not isinstance(policy, Policy):
        raise TypeError(f"policy must be a Policy, such as Policy(delay=1), not {policy!r}")


def configured(file: Path, route: str | None) -> Blueprint:
    """What a configuration says, without what is about a server. Raises `ConfigError`."""
    try:
        from hedgerow import config
        from hedgerow.gateway import drafting
    except ImportError as missing:
        raise ConfigError([f"to read {file} needs {missing.name}: {install('gateway')}"]) from None
    blueprint = drafting.blueprint_of(config.load(file))
    routes, default = blueprint.routes, blueprint.default_route
    if route is not None:
        if route not in routes:
            raise ConfigError([f"{file}: there is no route {route!r}: it has {', '.join(map(repr, routes))}"])
        routes, default = {ROUTE: routes[route]}, ROUTE
    server = msgspec.structs.replace(
        blueprint.server, api_keys=(), admin_token=None, metrics=False, access_log=False, reload="off"
    )
    targets = {
        name: msgspec.structs.replace(target, withholds=not target.passthrough)
        for name, target in blueprint.targets.items()
    }
    return msgspec.structs.replace(blueprint, targets=targets, routes=routes, default_route=default, server=server)
