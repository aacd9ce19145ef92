"""The gateway's core: takes an exchange, finds its route and protocol, and starts a flight.

It knows neither sockets nor ASGI: whoever can make an `Exchange` can be in front of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Iterator, Sequence
from itertools import chain, count
from typing import TYPE_CHECKING

import msgspec

from hedgerow.alarm import Alarm
from hedgerow.audience import Audience
from hedgerow.errors import RequestError
from hedgerow.events import Headers, Listener, RequestRepeated, RequestStarted
from hedgerow.gateway import admin, headers, keys, pages, recording, tracing
from hedgerow.gateway.access import Access, Token
from hedgerow.gateway.aftermath import NO_STORE
from hedgerow.gateway.answers import refuse
from hedgerow.gateway.flight import Flight
from hedgerow.gateway.keeping import Keeping
from hedgerow.gateway.metrics_page import MetricsPage
from hedgerow.gateway.once import Once
from hedgerow.gateway.parts import Parts
from hedgerow.gateway.party import Party
from hedgerow.gateway.route import Route
from hedgerow.gateway.routing import Routing
from hedgerow.http.exchange import Exchange
from hedgerow.http.upstream import Call
from hedgerow.policy.account import UNLIMITED
from hedgerow.policy.controls import Controls
from hedgerow.wire import JSON_ENDPOINT, lookup
from hedgerow.wire.base import Facts, Family, Protocol
from hedgerow.wire.request import forbids_storing

if TYPE_CHECKING:
    from hedgerow.gateway.reload import Reloader
    from hedgerow.gateway.sharing import Shared

LINGER = 1.0
"""Seconds an upstream may take at least, and twice that at most, to end its body after its protocol's end marker."""

REFRESH = 5.0
"""Seconds between two looks at what delays should be, while requests come."""
_DONE = object()
_GEMINI = Family.GEMINI  # a member of an enum is slow to look up

_READ: Headers = []
"""Takes the place of a request's header fields once they have been read: many requests wait long for their answers."""


class Limits(msgspec.Struct, frozen=True, gc=False):
    """Bytes held per attempt before commit: of a stream, and of a whole answer."""

    held_bytes: int = 4 * 1024 * 1024
    answer_bytes: int = 64 * 1024 * 1024


class Gateway:
    """A `hedgerow.http.exchange.Handler`."""

    def __init__(
        self,
        routing: Routing,
        *,
        loop: asyncio.AbstractEventLoop,
        id_prefix: str,
        limits: Limits = Limits(),  # noqa: B008  # frozen
        controls: Controls | None = None,
        listeners: Sequence[Listener] = (),
        shared: Shared | None = None,
    ) -> None:
        self.loop = loop
        self.alarm = Alarm(loop)
        self.limits = limits
        self.keeping = Keeping(loop, shared=shared)
        """The answers of losers, where routes keep them."""
        self.draining = False
        self.debug = logging.getLogger("hedgerow.gateway").isEnabledFor(logging.DEBUG)
        """Whether each request's end is logged; asked once, since it is on every request's path."""
        self._routing = routing
        self._prefix = id_prefix
        self._access: Access | None = None
        self._told_tenants = Audience(listeners).hears((RequestStarted,))
        self._tells_tenants = self._told_tenants
        self.controls = controls or Controls()
        """What an operator has set for all routes."""
        self.listeners = listeners
        self.metrics = MetricsPage.of(self, listeners)
        """What Prometheus scrapes; None where nothing is counted."""
        self.traces = tracing.among(listeners)
        """What makes the spans of requests; None where nobody asks for them."""
        self.contents = recording.among(listeners)
        """What keeps prompts and answers; None where nobody does."""
        self.token: Token | None = None
        """Who may use the admin API; None where there is none."""
        self.parts: Parts | None = None
        self.reloader: Reloader | None = None
        """Reads the configuration again; None where that cannot be done."""
        self.request_ids: Iterator[str] = map(f"{id_prefix}-%d".__mod__, count(1))
        """New ones, unique over processes and restarts."""
        self.claimed: set[str] = set()
        """The names of requests under way that their clients chose."""
        self.unpriced: set[str] = set()
        """Targets of which it was told that nobody knows what they cost."""
        self.once = Once(loop)
        self.flights: set[Flight] = set()
        """Each says when it is over."""
        self._lingering: list[Call] = []
        self._overdue: list[Call] = []  # lingering since before the reaper came last
        self._reaper: asyncio.TimerHandle | None = None
        self._refresher: asyncio.Handle | None = None

    def install(self, parts: Parts) -> None:
        """Use these routes, limits and keys from the next request on; requests under way keep their routes."""
        server = parts.blueprint.server
        self.parts = parts
        keeps = any(route.keep is not None for route in parts.blueprint.routes.values())
        self._tells_tenants = self._told_tenants or keeps or parts.blueprint.tenant_budget != UNLIMITED
        self._routing = parts.routing
        self.limits = Limits(server.held_bytes, server.answer_bytes)
        self.once.room = server.replay_bytes
        if self.traces is not None:
            self.traces.knows(tracing.peers(parts.blueprint.targets))
        self._access = Access(server.api_keys) if server.api_keys else None
        if self.metrics is not None:
            self.metrics.install(server.metrics_tokens)
        self.token = None if server.admin_token is None else Token(server.admin_token)

    @property
    def in_flight(self) -> int:
        """Requests being answered now."""
        return len(self.flights)

    @property
    def model_names(self) -> Collection[str]:
        """What clients may ask for as `model`."""
        return self._routing.model_names

    def serves(self, model: str) -> bool:
        """Whether clients may ask for this as `model`."""
        return self._routing.serves(model)

    def __call__(self, exchange: Exchange) -> None:
        protocol = lookup(exchange.method, exchange.target)
        if not protocol.hedgeable:
            self._take_other(exchange, protocol)
            return
        try:
            self._fly(exchange, protocol, self._admit(exchange, protocol))
        except RequestError as error:
            refuse(exchange, protocol, error)

    def _take_other(self, exchange: Exchange, protocol: Protocol) -> None:
        """Whatever is at none of the paths that are always hedged: our own pages, listed endpoints, all the rest."""
        if (target := pages.origin_form(exchange.target)) is not None:
            exchange.target = target
            self(exchange)
            return
        if admin.is_below(exchange.target):
            admin.answer(self, exchange)
            return
        page = pages.find(exchange.method, exchange.target)
        if page is not None and not page.private:
            page.answer(self, exchange)
            return
        if self._routing.endpoint(exchange.method, exchange.target):
            protocol = JSON_ENDPOINT
        elif headers.speaks_anthropic(exchange.headers):
            protocol = lookup(exchange.method, exchange.target, anthropic=True)
        try:
            incoming = self._admit(exchange, protocol)
            if page is not None:
                page.answer(self, exchange)
            elif protocol.hedgeable or pages.is_below_v1(exchange.target):
                self._fly(exchange, protocol, incoming)
            else:
                raise RequestError(404, pages.no_such_path(exchange.target), code="not_found")
        except RequestError as error:
            refuse(exchange, protocol, error)

    def _admit(self, exchange: Exchange, protocol: Protocol) -> headers.Incoming:
        """The header fields, read. Raises `RequestError` (401) for a client that may not ask."""
        incoming = headers.read(exchange.headers)
        if protocol.family is _GEMINI:
            exchange.target, incoming = headers.key_in_query(exchange.target, incoming)
        if self._tells_tenants:
            incoming = msgspec.structs.replace(incoming, tenant=self.tenant_of(incoming))
        if incoming.key:
            incoming = keys.scoped(incoming, self.tenant_of(incoming))
        if self._access is not None:
            self._access.check(incoming.authorization)
            incoming = msgspec.structs.replace(incoming, authorization=None, credential=b"")  # ours, and not theirs
        return incoming

    def tenant_of(self, incoming: headers.Incoming) -> str:
        """Whose request it is, see `headers.tenant_of`; asked before its credential is dropped."""
        return headers.tenant_of(incoming, checked=self._access is not None)

    def _fly(self, exchange: Exchange, protocol: Protocol, incoming: headers.Incoming) -> None:
        facts = protocol.facts(exchange.target, exchange.body)
        routes = self._routing.by_protocol.get(protocol)
        route = None if routes is None else routes.get(facts.model or "")
        if route is None:
            route = self._routing.find(protocol, exchange.target, facts)
        if route.curious:
            incoming = route.read(exchange, protocol, facts, incoming)
        if self.contents is not None and headers.forbids_storing(exchange.headers):
            incoming = msgspec.structs.replace(incoming, traits=incoming.traits | {NO_STORE})
        party = None
        if incoming.key:
            if (taken := self._once_only(exchange, route, facts, incoming)) is None:
                return
            party, incoming = taken
            exchange = party or exchange
        exchange.headers = _READ
        if self._refresher is None:
            self._refresher = self.loop.call_later(REFRESH, self._refresh, None)
        try:
            flight = Flight(self, exchange, route, protocol, facts, incoming)
        except BaseException:
            if party is not None:
                party.give_up()
            raise
        if party is not None:
            party.request_id = flight.request_id
        self.flights.add(flight)
        flight.start()

    def _once_only(
        self, exchange: Exchange, route: Route, facts: Facts, incoming: headers.Incoming
    ) -> tuple[Party | None, headers.Incoming] | None:
        """Who is to be answered; None where the client gets, or got, the answer of an earlier request with its key.

        Raises `RequestError` (422, 409).
        """
        replay = route.replay
        if replay is None or exchange.method != b"POST" or (facts.stream and not replay.streams):
            return None, incoming
        hedger, now = route.hedger, self.loop.time()
        keeps = not (headers.forbids_storing(exchange.headers) or forbids_storing(exchange.body))
        party = self.once.take(
            exchange,
            (incoming.scope, route.name, exchange.target),
            replay,
            lambda name, running: hedger.emit(RequestRepeated(name, route.name, now, running)),
            keeps=keeps,
        )
        if party is None:
            exchange.headers = _READ
            return None
        # The key is ours now. A client whose own patience is over hangs up; who asks again is to find the answer.
        return party, msgspec.structs.replace(incoming, key=b"", patience=incoming.deadline)

    def claim(self, name: str) -> str:
        """The name its client gives a new request, with a number behind it where another is called so now."""
        as_it_is = () if name.startswith(self._prefix) else (name,)  # with that all of our own begin
        own = next(each for each in chain(as_it_is, map(f"{name}.%d".__mod__, count(2))) if each not in self.claimed)
        self.claimed.add(own)
        return own

    def _refresh(self, steps: Iterator[None] | None) -> None:
        """Let delays be learned anew, a step at a time, so that no request waits for it for long."""
        if steps is None:
            hedgers = () if self.parts is None else tuple(self.parts.hedgers.values())
            steps = chain.from_iterable(hedger.refreshing(self.loop.time()) for hedger in hedgers)
        # The next request starts it again, after an error too: a gateway that nobody asks has nothing to learn.
        self._refresher = None
        if next(steps, _DONE) is not _DONE:
            self._refresher = self.loop.call_soon(self._refresh, steps)

    def close(self) -> None:
        """Nothing more will be asked."""
        self.keeping.close()
        self.once.close()
        for timer in (self._refresher, self._reaper):
            if timer is not None:
                timer.cancel()

    def linger(self, call: Call) -> None:
        """An answer is complete by its protocol, but its body has not ended: give it a moment, then close."""
        if self._reaper is None:
            self._reaper = self.loop.call_later(LINGER, self._reap)
        self._lingering.append(call)

    def _reap(self) -> None:
        overdue, self._overdue, self._lingering = self._overdue, self._lingering, []
        self._reaper = self.loop.call_later(LINGER, self._reap) if self._overdue else None
        for call in overdue:
            call.cancel()
