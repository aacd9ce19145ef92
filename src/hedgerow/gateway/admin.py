"""The admin API: what an operator may see and change while the gateway runs (docs/admin.md).

Answered only with the admin token; errors are JSON and say what is allowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

import msgspec

from hedgerow.errors import RequestError
from hedgerow.events import Headers
from hedgerow.gateway import admin_views as views
from hedgerow.gateway.admin_controls import Unfit, apply, check_fit, read_changes
from hedgerow.gateway.answers import JSON
from hedgerow.http.exchange import Exchange

if TYPE_CHECKING:
    from hedgerow.gateway.core import Gateway
    from hedgerow.gateway.parts import Parts
    from hedgerow.gateway.reload import Outcome

_PREFIX = b"/admin/api"
_NOT_STORED: Headers = [*JSON, (b"cache-control", b"no-store")]
_TYPES = {401: "authentication_error", 404: "not_found_error", 405: "not_found_error"}

Do = Callable[["Asked"], None]


class Asked:
    """One request to the admin API, from somebody who may ask."""

    __slots__ = ("by", "exchange", "gateway", "parts", "route")

    def __init__(self, gateway: Gateway, parts: Parts, exchange: Exchange, by: str, route: str) -> None:
        self.gateway = gateway
        self.parts = parts
        self.exchange = exchange
        self.by = by
        self.route = route
        """The name in the path; empty where there is none."""

    def respond(self, body: Mapping[str, Any], status: int = 200) -> None:
        """Answer."""
        self.exchange.respond(status, _NOT_STORED, msgspec.json.encode(body) + b"\n")


def is_below(target: bytes) -> bool:
    """Whether this is for the admin API."""
    path = target.partition(b"?")[0]
    return path == _PREFIX or path.startswith(_PREFIX + b"/")


def answer(gateway: Gateway, exchange: Exchange) -> None:
    """Answer a request for the admin API."""
    try:
        if gateway.token is None or gateway.parts is None:
            raise RequestError(404, "There is no admin API here: set server.admin.token to have one.", code="no_admin")
        gateway.token.check(exchange.headers)
        place, name = _place(exchange.target)
        asked = Asked(gateway, gateway.parts, exchange, gateway.token.fingerprint, name)
        if name and name not in gateway.parts.hedgers:
            there = ", ".join(f"'{each}'" for each in gateway.parts.hedgers)
            raise RequestError(404, f"There is no route '{name[:100]}'; the routes are {there}.", code="no_such_route")
        methods = _PLACES[place]
        do = methods.get("GET" if exchange.method == b"HEAD" else exchange.method.decode("latin-1"))
        if do is None:
            raise RequestError(405, f"Allowed here: {', '.join(methods)}.", code="method_not_allowed")
        do(asked)
    except RequestError as error:
        _refuse(exchange, error)


def _place(target: bytes) -> tuple[str, str]:
    """The path as it stands in `_PLACES`, and the name of a route in it. Raises `RequestError` (404)."""
    path = target.partition(b"?")[0][len(_PREFIX) :].strip(b"/")
    head, _, name = path.partition(b"/")
    if head == b"routes" and name:
        return "/routes/{name}", unquote_to_bytes(name).decode("utf-8", "replace")
    place = "/" + path.decode("latin-1") if path else ""
    if place not in _PLACES:
        raise RequestError(404, f"There is nothing here. There is: {', '.join(_there())}.", code="not_found")
    return place, ""


def _there() -> list[str]:
    return [f"{method} {_PREFIX.decode()}{place}" for place, methods in _PLACES.items() for method in methods]


def _show_all(asked: Asked) -> None:
    asked.respond({**views.overview(asked.gateway, asked.parts), "endpoints": _there()})


def _show_routes(asked: Asked) -> None:
    asked.respond(views.routes(asked.gateway, asked.parts))


def _show_route(asked: Asked) -> None:
    asked.respond(views.route(asked.gateway, asked.parts, asked.route))


def _show_targets(asked: Asked) -> None:
    asked.respond(views.targets(asked.gateway, asked.parts))


def _change_all(asked: Asked) -> None:
    changes = read_changes(asked.exchange.body)
    check_fit(changes, asked.parts, None)
    apply(asked.gateway, asked.parts, None, changes, asked.by)
    _show_all(asked)


def _change_route(asked: Asked) -> None:
    changes = read_changes(asked.exchange.body)
    check_fit(changes, asked.parts, asked.route)
    apply(asked.gateway, asked.parts, asked.route, changes, asked.by)
    _show_route(asked)


def _reload(asked: Asked) -> None:
    reloader = asked.gateway.reloader
    refusal = "this gateway is part of another server's process" if reloader is None else reloader.refusal()
    if reloader is None or refusal is not None:
        raise RequestError(409, f"Nothing can be reloaded: {refusal}.", code="no_reload")

    def over(task: asyncio.Task[Outcome]) -> None:
        if task.cancelled():
            _refuse(asked.exchange, RequestError(503, "The gateway is shutting down.", code="draining"))
        else:
            _tell(asked, task.result())

    reloader.ask(asked.by).add_done_callback(over)


def _tell(asked: Asked, outcome: Outcome) -> None:
    if not outcome.problems:
        needs, warnings = list(outcome.needs_restart), list(outcome.warnings)
        asked.respond({"reloaded": True, "needs_restart": needs, "warnings": warnings})
        return
    message = "Nothing was changed: the configuration cannot be used. " + " ".join(outcome.problems)
    error = {"message": message, "type": _type(422), "code": "invalid_config", "problems": list(outcome.problems)}
    asked.respond({"error": error}, 422)


_PLACES: dict[str, dict[str, Do]] = {
    "": {"GET": _show_all, "PATCH": _change_all},
    "/routes": {"GET": _show_routes},
    "/routes/{name}": {"GET": _show_route, "PATCH": _change_route},
    "/targets": {"GET": _show_targets},
    "/reload": {"POST": _reload},
}


def _refuse(exchange: Exchange, error: RequestError) -> None:
    told: dict[str, object] = {"message": error.message, "type": _type(error.status), "code": error.code}
    if isinstance(error, Unfit):
        told["problems"] = error.problems
    headers = list(_NOT_STORED)
    if error.status == 401:
        headers.append((b"www-authenticate", b'Bearer realm="hedgerow admin"'))
    if error.status == 405:
        headers.append((b"allow", ", ".join(_PLACES[_place(exchange.target)[0]]).encode()))
    exchange.respond(error.status, headers, msgspec.json.encode({"error": told}) + b"\n")


def _type(status: int) -> str:
    return _TYPES.get(status, "invalid_request_error")
