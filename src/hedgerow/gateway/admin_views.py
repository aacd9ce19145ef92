"""What the admin API shows of a running gateway, as plain data. Times are seconds from now; nothing here is secret."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import hedgerow
from hedgerow.gateway.admin_controls import shown
from hedgerow.policy.plan import Candidate
from hedgerow.policy.price import show_dollars

if TYPE_CHECKING:
    from hedgerow.gateway.blueprint import TargetBlueprint
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.parts import Parts

View = dict[str, Any]


def overview(gateway: Gateway, parts: Parts) -> View:
    """The gateway as a whole."""
    file = None if gateway.reloader is None else gateway.reloader.file
    return {
        "version": hedgerow.__version__,
        "draining": gateway.draining,
        "in_flight": gateway.in_flight,
        "controls": shown(gateway.controls),
        "config": {"file": file, "reload": None if file is None else parts.blueprint.server.reload},
        "routes": list(parts.hedgers),
        "targets": list(parts.pools),
    }


def routes(gateway: Gateway, parts: Parts) -> View:
    """Every route."""
    flying = _flying(gateway)
    return {"routes": [_route(gateway, parts, name, flying[name]) for name in parts.hedgers]}


def route(gateway: Gateway, parts: Parts, name: str) -> View:
    """One route."""
    return _route(gateway, parts, name, _flying(gateway)[name])


def targets(gateway: Gateway, parts: Parts) -> View:
    """Every target, and the connections to it."""
    return {"targets": [_target(gateway, parts, name) for name in parts.pools]}


def _route(gateway: Gateway, parts: Parts, name: str, in_flight: int) -> View:
    hedger = parts.hedgers[name]
    return {
        "name": name,
        "targets": list(parts.blueprint.routes[name].targets),
        "in_flight": in_flight,
        "controls": shown(hedger.controls),
        **hedger.state(gateway.loop.time()),
    }


def _target(gateway: Gateway, parts: Parts, name: str) -> View:
    target, pool = parts.blueprint.targets[name], parts.pools[name].pool
    now = gateway.loop.time()
    accounts = [target.account, *(key.account for key in target.more_keys)]
    keys = [_key(parts, Candidate(name, account), now) for account in accounts]
    return {
        "name": name,
        "base_url": target.base_url,
        **keys[0],
        "more_keys": keys[1:],
        "model": target.model,
        "breakers": [
            {
                "model": model,
                "state": view.state,
                "why": view.why,
                "open_for": _left(view.until, now),
                "attempts": view.results,
                "failures": view.failures,
                "slow": view.slow,
                "failures_in_a_row": view.in_a_row,
            }
            for (watched, model), view in parts.health.breakers(now).items()
            if watched == name
        ],
        "price": _price(target),
        "cancel": _cancel(target),
        "connections": {
            "open": pool.open,
            "idle": pool.idle,
            "connecting": pool.connecting,
            "waiting": pool.waiting,
        },
    }


def _cancel(target: TargetBlueprint) -> View:
    """Whether the upstream stops what is cancelled, as far as a probe could tell."""
    found = target.probed
    return {
        "streams_stop": None if found is None else found.streams,
        "whole_answers_stop": None if found is None else found.whole,
        "detail": None if found is None else found.detail,
        "probed_at": None if found is None else found.at,
        "on_failure": target.on_cancel_failure,
        "billed": {"stream": target.on_cancel, "whole": target.on_cancel_whole, "from": target.on_cancel_from},
    }


def _price(target: TargetBlueprint) -> View:
    """Dollars per million tokens, exactly; null where it is not known, or by the model that is asked for."""
    price = target.price
    return {
        "from": target.price_from,
        "input": None if price is None else show_dollars(price.input),
        "output": None if price is None else show_dollars(price.output),
        "by_model": bool(target.listed),
    }


def _key(parts: Parts, candidate: Candidate, now: float) -> View:
    quota = parts.shared.quota
    return {
        "account": candidate.account,
        "out_for": _left(parts.health.out_until(candidate, now), now),
        "quota": {
            "limited_for": round(quota.limited_for(candidate, now), 3),
            "left": quota.headroom(candidate, now),
        },
    }


def _left(until: float | None, now: float) -> float | None:
    return None if until is None else round(max(until - now, 0.0), 3)


def _flying(gateway: Gateway) -> Counter[str]:
    return Counter(flight.route.name for flight in gateway.flights)
