"""What single values cannot show: keys that contradict each other (errors), and settings hardly meant (warnings)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hedgerow.config import check_gates, check_hedge, check_order
from hedgerow.config.network import is_loopback
from hedgerow.config.problem import Problem, did_you_mean, show_path
from hedgerow.config.providers import PROVIDERS
from hedgerow.config.route import Route
from hedgerow.config.server import ServerSettings
from hedgerow.config.target import Target
from hedgerow.policy.delay import Fixed, Off
from hedgerow.units import show_percent
from hedgerow.wire import lookup
from hedgerow.wire.base import KEY_HEADERS, Family

if TYPE_CHECKING:
    from hedgerow.config.settings import Settings

_NO_PATH = frozenset({"api.deepseek.com", "api.perplexity.ai"})
"""Hosts that serve `/chat/completions` at their root."""


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
        found += _attempts(name, route)
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


def _attempts(name: str, route: Route) -> Iterator[Problem]:
    if route.max_attempts is not None and route.max_attempts > len(route.targets):
        here = ("routes", name)
        yield Problem(
            (*here, "max_attempts"),
            f"{route.max_attempts} is more than the {len(route.targets)} of {show_path((*here, 'targets'))}; "
            "list a target twice to try it twice",
        )


def _keep(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    here = ("routes", name, "keep")
    if route.losers == "cancel":
        if route.keep.model_fields_set:
            yield Problem(
                here, f"has no effect while {show_path(('routes', name, 'losers'))} is cancel; set keep there"
            )
        return
    for each in route.targets if route.keep.max_usd is not None else ():
        if each in targets and targets[each].price is None:
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


def warnings(settings: Settings) -> list[Problem]:
    """What works but is probably not meant."""
    found: list[Problem] = []
    used = {name for route in settings.routes.values() for name in route.targets}
    for name, target in settings.targets.items():
        if name not in used:
            found.append(Problem(("targets", name), "is not used by any route"))
        found += _unsafe_target(name, target)
        found += _bare_host(name, target)
    for name, route in settings.routes.items():
        found += check_hedge.hurried(name, route, settings.targets)
        found += _idle_hedge(name, route, settings.targets)
        found += check_hedge.without_effect(name, route)
        found += check_order.without_effect(name, route, settings.targets)
        found += _unkept(name, route)
        found += _hopeless(name, route, settings.targets)
        found += check_gates.idle(name, route)
        found += _unreachable_targets(name, route, settings.targets)
        found += _shared_client_key(name, route, settings.targets)
    server = settings.server
    if (
        not server.listen.loopback
        and not server.api_keys
        and any(target.secret for target in settings.targets.values())
    ):
        found.append(
            Problem(
                ("server", "api_keys"),
                f"is empty while {server.listen} is open to other machines: whoever can connect spends on your keys",
            )
        )
    return found


def _unsafe_target(name: str, target: Target) -> Iterator[Problem]:
    here = ("targets", name)
    parts = urlsplit(target.base_url)
    if parts.scheme == "https" and not target.tls.verify:
        yield Problem((*here, "tls", "verify"), "is false: anyone on the way can read the key and the prompts")
    if parts.scheme == "http":
        if target.tls.model_fields_set:
            yield Problem((*here, "tls"), "has no effect on an http:// base_url")
        if not is_loopback(parts.hostname or "") and (target.secret or target.passthrough):
            yield Problem((*here, "base_url"), "is plain http: the key and the prompts cross the network unencrypted")


def _bare_host(name: str, target: Target) -> Iterator[Problem]:
    """A base URL without a path: rarely right, and what comes back is a 404 that does not say why."""
    parts = urlsplit(target.base_url)
    if parts.path or parts.hostname in _NO_PATH or target.protocol == ("http",):
        return
    version = "v1beta" if target.protocol == ("gemini",) else "v1"
    likely = f"{target.base_url}/{version}"
    for each in PROVIDERS:
        if urlsplit(each.base_url).netloc == parts.netloc and not set(each.protocol).isdisjoint(target.protocol):
            likely = each.base_url
    yield Problem(("targets", name, "base_url"), f"has no path: most providers need one; did you mean {likely}?")


def _idle_hedge(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    here = ("routes", name)
    if route.hedges and not route.hedge.races and route.hedge.delay == Fixed(0.0):
        budget = route.hedge.budget
        who = "every request" if budget is None else f"every request that hedge.budget ({show_percent(budget)}) allows"
        yield Problem((*here, "hedge", "delay"), f"is 0s: {who} is sent at once to several targets and paid for")
    asked = route.hedge.races or route.hedge.chained
    if not route.hedge.model_fields_set or (route.hedge.delay == Off() and not asked):
        return
    if route.hedge.chained and route.attempts == 1:
        yield Problem((*here, "hedge", "mode"), "is chain, but the route allows one attempt: nobody is asked next")
    elif len(route.targets) == 1:
        only = route.targets[0]
        yield Problem(
            (*here, "hedge"),
            f"has no effect: the route lists one target; [{only}, {only}] hedges to the same provider",
        )
    elif not _share_an_api(route, targets):
        yield Problem((*here, "hedge"), "has no effect: no two of the route's targets speak the same API")
    elif route.hedge.chained:
        return
    elif route.attempts == 1:
        yield Problem((*here, "hedge"), f"has no effect while {show_path((*here, 'max_attempts'))} is 1")
    elif not route.hedge.races and route.hedge.max_hedges >= route.attempts:
        yield Problem(
            (*here, "hedge", "max_hedges"),
            f"{route.hedge.max_hedges} cannot be reached: the route allows {route.attempts} attempts in all",
        )


def _unkept(name: str, route: Route) -> Iterator[Problem]:
    if route.idempotency.window is None:
        for key in sorted(route.idempotency.model_fields_set - {"window"}):
            text = "has no effect without window: say how long an answer is kept, as in window: 10m"
            yield Problem(("routes", name, "idempotency", key), text)


def _hopeless(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    """A rescue that nobody could come to."""
    if route.on_stall == "error":
        return
    why = ""
    if len(route.targets) == 1 and not targets[route.targets[0]].more_keys:
        why = "the route lists one target"
    elif not route.nonstream_as_stream:
        if route.on_stall == "restart":
            why = "only with nonstream_as_stream can an answer break off before its client has got something"
        elif all(targets[each].continues == "off" for each in route.targets):
            why = "none of the route's targets says how it continues an answer (targets.<name>.continues)"
    if why:
        yield Problem(("routes", name, "on_stall"), f"has no effect: {why}")


def _share_an_api(route: Route, targets: Mapping[str, Target]) -> bool:
    """Whether some request can go to more than one of the route's targets; those of its `endpoints` go to all."""
    spoken = [protocol for each in route.targets for protocol in targets[each].protocol]
    return bool(route.endpoints) or len(set(spoken)) < len(spoken)


def _unreachable_targets(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    if route.endpoints:
        return
    for each in dict.fromkeys(route.targets):
        if targets[each].protocol == ("http",):
            yield Problem(
                ("routes", name, "targets"), f"{each} speaks only http and the route lists no endpoints: never asked"
            )


def _shared_client_key(name: str, route: Route, targets: Mapping[str, Target]) -> Iterator[Problem]:
    hosts = {urlsplit(targets[each].base_url).netloc: None for each in route.targets if targets[each].passthrough}
    if len(hosts) > 1:
        yield Problem(
            ("routes", name, "targets"),
            f"sends the client's own key to several hosts ({', '.join(hosts)}); make sure that all may see it",
        )
