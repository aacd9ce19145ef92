"""What single values cannot show: keys that contradict each other."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from urllib.parse import urlsplit

from hedgerow.config import check_gates, check_hedge, check_order, check_price
from hedgerow.config.network import is_loopback
from hedgerow.config.problem import Problem, did_you_mean, show_path
from hedgerow.config.route import Route
from hedgerow.config.server import ServerSettings
from hedgerow.config.target import Target
from hedgerow.wire import lookup
from hedgerow.wire.base import KEY_HEADERS, Family


def contradictions(
    targets: Mapping[str, Target], routes: Mapping[str, Route], server: ServerSettings | None, *, known: Collection[str]
) -> list[Problem]:
    """All contradictions between keys. Parts that are faulty in themselves may be missing from `targets`, `routes`
    and `server`; `known` are the names of all targets, faulty or not.
    """
    found: list[Problem] = []
    for name, target in targets.items():
        found += _target(name, target)
    for name, route in routes.items():
        found += unknown_targets(name, route.targets, known)
        found += _attempts(name, route, targets)
        found += check_hedge.times(name, route, targets)
        found += check_hedge.worthless(name, route, targets)
        found += check_order.unpriced(name, route, targets)
        found += check_order.leaderless(name, route, targets)
        found += check_gates.endless(name, route)
        found += _endpoints(name, route)
        found += _keep(name, route, targets)
    found += check_hedge.unpriced(routes, targets, server)
    if server is not None:
        found += unknown_default(server.default_route, routes)
        found += _server(server, targets)
        found += check_price.unknown(targets, server.prices.file)
    return found


def _target(name: str, target: Target) -> Iterator[Problem]:
    here = ("targets", name)
    ways = {"api_key": target.api_key, "api_key_file": target.api_key_file, "api_keys": target.api_keys or None}
    given = [key for key, each in ways.items() if each is not None]
    for key in given[1:]:
        yield Problem((*here, key), f"{show_path((*here, given[0]))} is set too; keep one of the two")
    if target.api_keys and target.account is not None:
        yield Problem((*here, "account"), f"contradicts {show_path((*here, 'api_keys'))}: each key has its own")
    secrets = [key.get_secret_value() for key in target.api_keys]
    for place, secret in enumerate(secrets):
        if secret in secrets[:place]:
            yield Problem((*here, "api_keys", place), f"is the same key as number {secrets.index(secret) + 1}")
    keyless = not given
    if target.key_header != "auto" and keyless:
        yield Problem((*here, "key_header"), "has no effect: the target has no key; set api_key or drop it")
    for header in key_headers(target) & target.headers.keys() if not keyless else ():
        yield Problem((*here, "headers"), f"{header} contradicts {show_path((*here, 'api_key'))}; keep one of the two")
    if target.model is not None and "model" in target.override:
        yield Problem((*here, "override", "model"), f"{show_path((*here, 'model'))} is set too; keep one of the two")
    if target.tls.ca_file is not None and not target.tls.verify:
        yield Problem(
            (*here, "tls", "ca_file"),
            f"has no effect while {show_path((*here, 'tls', 'verify'))} is false; drop one of the two",
        )
    if "slow_ratio" in target.breaker.model_fields_set and target.breaker.slow_after is None:
        text = f"has no effect without {show_path((*here, 'breaker', 'slow_after'))}; set that or drop it"
        yield Problem((*here, "breaker", "slow_ratio"), text)


def key_headers(target: Target) -> set[str]:
    """The headers that the target's key goes in."""
    if target.key_header != "auto":
        return {target.key_header}
    return {KEY_HEADERS.get(Family(name), "authorization") for name in target.protocol}


def unknown_targets(route: str, names: Iterable[object], known: Collection[str]) -> Iterator[Problem]:
    """The names in a route's `targets` that are not among the `known` ones."""
    for position, name in enumerate(names):
        if isinstance(name, str) and name and name not in known:
            hint = did_you_mean(name, known, "the targets are")
            yield Problem(("routes", route, "targets", position), f"there is no target {name!r}{hint}")


def unknown_default(route: object, routes: Collection[str]) -> Iterator[Problem]:
    """`server.default_route`, if there is no such route."""
    if isinstance(route, str) and route not in routes:
        hint = did_you_mean(route, routes, "the routes are")
        yield Problem(("server", "default_route"), f"there is no route {route!r}{hint}")


def _attempts(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    if not all(each in targets for each in route.targets):
        return  # nobody knows how many keys they have
    keys = sum(len(targets[each].more_keys) for each in route.targets)
    if route.max_attempts is not None and route.max_attempts > len(route.targets) + keys:
        here = ("routes", name)
        yield Problem(
            (*here, "max_attempts"),
            f"{route.max_attempts} is more than the {len(route.targets) + keys} "
            f"{'keys of those in' if keys else 'of'} {show_path((*here, 'targets'))}; "
            "list a target twice to try it twice",
        )


def _keep(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    here = ("routes", name, "keep")
    if route.losers == "cancel":
        if route.keep.model_fields_set:
            yield Problem(
                here, f"has no effect while {show_path(('routes', name, 'losers'))} is cancel; set keep or drain there"
            )
        return
    for key in sorted({"ttl", "scope"} & route.keep.model_fields_set) if route.losers == "drain" else ():
        losers = show_path(("routes", name, "losers"))
        yield Problem((*here, key), f"has no effect while {losers} is drain, which keeps nothing; drop it")
    for each in route.targets if route.keep.max_usd is not None else ():
        if each in targets and not targets[each].counts_money:
            price = show_path(("targets", each, "price"))
            yield Problem((*here, "max_usd"), f"needs {price}: say what it charges, {{input: 0.25, output: 2}}")
            return


def _endpoints(name: str, route: Route) -> Iterator[Problem]:
    for position, path in enumerate(route.endpoints):
        if lookup(b"POST", path.encode()).hedgeable:
            yield Problem(("routes", name, "endpoints", position), f"{path} is answered and hedged anyway; drop it")


def _server(server: ServerSettings, targets: Mapping[str, Target]) -> Iterator[Problem]:
    for name, target in targets.items():
        if server.api_keys and target.passthrough:
            yield Problem(
                ("targets", name, "api_key"),
                "passthrough contradicts server.api_keys: one key of the client's cannot be both hedgerow's and the "
                "provider's; drop one of the two",
            )
        if is_own_address(target.base_url, server):
            yield Problem(
                ("targets", name, "base_url"),
                f"is hedgerow's own address (server.listen is {server.listen}): requests would go round in circles",
            )


def is_own_address(base_url: str, server: ServerSettings) -> bool:
    """Whether requests to `base_url` would come back to this gateway."""
    parts = urlsplit(base_url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    if server.listen.port == 0 or port != server.listen.port:
        return False
    local = is_loopback(host) or host in ("0.0.0.0", "::")
    return host == server.listen.host or (local and (server.listen.host in (None, "0.0.0.0", "::") or _same(server)))


def _same(server: ServerSettings) -> bool:
    """Whether the gateway listens where names of this machine lead: 127.0.0.1 and ::1, not 127.0.0.2."""
    return server.listen.host in ("127.0.0.1", "::1", "localhost")
