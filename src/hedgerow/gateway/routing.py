"""Which route answers a request: by its model, its path and the protocol it speaks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from hedgerow.errors import RequestError
from hedgerow.gateway.route import Route
from hedgerow.wire import JSON_ENDPOINT, PROTOCOLS
from hedgerow.wire.base import Facts, Family, Protocol


class Ways(msgspec.Struct, frozen=True):
    """One configured route: with all its targets, and for each family with those that speak it."""

    all: Route
    speaking: Mapping[Family, Route]
    endpoints: Sequence[str] = ()


class Routing:
    """The table of routes. `match` finds the name, maybe a pattern, that stands for a model."""

    __slots__ = ("_default", "_endpoints", "_match", "_routes", "by_protocol")

    def __init__(self, routes: Mapping[str, Ways], *, default: str, match: Callable[[str], str | None]) -> None:
        self._routes = dict(routes)
        self._default = default
        self._match = match
        self.by_protocol: dict[Protocol, dict[str, Route]] = {
            protocol: {name: ways.speaking[family] for name, ways in routes.items() if family in ways.speaking}
            for protocol in PROTOCOLS
            for family in (protocol.family,)
        }
        """Routes by their names, for the protocols that are found by method and path."""
        self._endpoints: dict[bytes, dict[str, Route]] = {}
        for name, ways in routes.items():
            for path in ways.endpoints:
                self._endpoints.setdefault(path.encode(), {})[name] = ways.all

    @property
    def model_names(self) -> Collection[str]:
        """What clients may ask for as `model`."""
        return [name for name in self._routes if not name.endswith("*")]

    def serves(self, model: str) -> bool:
        """Whether a route has this name, or a pattern that stands for it."""
        return model in self._routes or (bool(model) and self._match(model) is not None)

    def endpoint(self, method: bytes, target: bytes) -> bool:
        """Whether a route lists this path among its `endpoints`."""
        return bool(self._endpoints) and method == b"POST" and target.partition(b"?")[0] in self._endpoints

    def find(self, protocol: Protocol, target: bytes, facts: Facts) -> Route:
        """The route of a request. Raises `RequestError` (404, 400) when there is none, or none that speaks this."""
        name = None if facts.model is None else self._match(facts.model)
        if protocol is JSON_ENDPOINT:
            listed = self._endpoints[target.partition(b"?")[0]]
            return listed.get(name or "") or next(iter(listed.values()))
        if name is None:
            if facts.model is not None and protocol.hedgeable:
                raise RequestError(404, self._unknown(facts.model), code="model_not_found", param="model")
            return self._default_for(protocol)
        route = self._routes[name].speaking.get(protocol.family)
        if route is None:
            raise RequestError(400, self._speechless(name, protocol), code="unsupported_api", param="model")
        return route

    def _default_for(self, protocol: Protocol) -> Route:
        """The default route, or the first that has a target for this."""
        for name in (self._default, *self._routes):
            if (route := self._routes[name].speaking.get(protocol.family)) is not None:
                return route
        raise RequestError(400, self._speechless(self._default, protocol), code="unsupported_api")

    def _unknown(self, model: str) -> str:
        known = ", ".join(f"'{name}'" for name in self.model_names)
        return f"There is no route '{model}'. Ask for one of {known} as model, or add a route (or '*') to the config."

    def _speechless(self, name: str, protocol: Protocol) -> str:
        spoken = ", ".join(self._routes[name].speaking)
        return (
            f"No target of route '{name}' speaks the {protocol.family} API; what they speak is {spoken}. "
            f"If one of them does, say so in the config, as in protocol: [{spoken}, {protocol.family}]."
        )
