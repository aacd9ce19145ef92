"""Settings that work but are hardly meant: warnings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from hedgerow.config import check_gates, check_hedge, check_order
from hedgerow.config.network import is_loopback
from hedgerow.config.problem import Problem, show_path
from hedgerow.config.providers import PROVIDERS
from hedgerow.config.route import Route
from hedgerow.config.server import ServerSettings
from hedgerow.config.target import Target
from hedgerow.policy.delay import Fixed, Off
from hedgerow.units import show_percent

if TYPE_CHECKING:
    from hedgerow.config.settings import Settings

_NO_PATH = frozenset({"api.deepseek.com", "api.perplexity.ai"})
"""Hosts that serve `/chat/completions` at their root."""


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
        found += _no_losers(name, route)
        found += _nothing_to_hold_out(name, route)
        found += _unkept(name, route)
        found += _hopeless(name, route, settings.targets)
        found += check_gates.idle(name, route)
        found += _unreachable_targets(name, route, settings.targets)
        found += _shared_client_key(name, route, settings.targets)
    found += check_order.weightless(settings.routes, settings.targets)
    found += _server(settings.server, settings.routes, settings.targets)
    return found


def _server(server: ServerSettings, routes: Mapping[str, Route], targets: Mapping[str, Target]) -> Iterator[Problem]:
    if not server.listen.loopback and not server.api_keys and any(target.secret for target in targets.values()):
        text = f"is empty while {server.listen} is open to other machines: whoever can connect spends on your keys"
        yield Problem(("server", "api_keys"), text)
    if server.ledger.url is not None and server.ledger.content:
        text = "is true: PROMPTS AND ANSWERS ARE STORED, and whoever can read the ledger can read them"
        yield Problem(("server", "ledger", "content"), text)
    if server.redis is not None and all(route.losers != "keep" for route in routes.values()):
        yield Problem(("server", "redis"), "has no effect: no route says losers: keep, so there is nothing to share")


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
    if route.hedge.chained and route.attempts_with(targets) == 1:
        yield Problem((*here, "hedge", "mode"), "is chain, but the route allows one attempt: nobody is asked next")
    elif route.hedge.chained and len(route.targets) == 1:
        return  # it goes from key to key
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


def _no_losers(name: str, route: Route) -> Iterator[Problem]:
    """Losers to be kept where no attempt ever loses: one after the other, each is asked when the one before failed."""
    if route.losers == "cancel":
        return
    why = _why_never_two(name, route)
    if not why and route.hedge.mode == "shadow":
        why = f"{show_path(('routes', name, 'hedge', 'mode'))} is shadow, which launches no hedge"
    if why:
        yield Problem(("routes", name, "losers"), f"has no effect: {why}")


def _nothing_to_hold_out(name: str, route: Route) -> Iterator[Problem]:
    """An experiment where nothing is hedged. In `shadow` it makes sense: it must find nothing."""
    if route.experiment.holdout and (why := _why_never_two(name, route)):
        yield Problem(("routes", name, "experiment", "holdout"), f"has no effect: {why}")


def _why_never_two(name: str, route: Route) -> str:
    """Why no request of the route can ever have two attempts at once; nothing where some can."""
    if route.attempts == 1:
        return "the route allows one attempt" if len(route.targets) > 1 else "the route lists one target"
    if route.hedge.chained:
        return f"{show_path(('routes', name, 'hedge', 'mode'))} is chain, which never asks two at once"
    if route.hedges:
        return ""
    key, what = ("delay", "off") if route.hedge.delay == Off() else ("max_hedges", "0")
    return f"{show_path(('routes', name, 'hedge', key))} is {what}, so nothing is hedged"


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
