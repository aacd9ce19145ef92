"""One request as its targets are asked it: what its client wants, and what is changed on the way."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import TYPE_CHECKING

import msgspec

from hedgerow.events import Headers, Reason
from hedgerow.gateway.headers import Incoming
from hedgerow.http.exchange import Exchange
from hedgerow.policy.ask import Ask
from hedgerow.policy.plan import Refusal
from hedgerow.usage import MOST_TOKENS
from hedgerow.wire.base import Facts, Protocol, Scanner

if TYPE_CHECKING:
    from hedgerow.gateway.route import Route
    from hedgerow.gateway.target import Target


class Question:
    """`facts` are what the client asked for, `asked` what the targets are: maybe a stream in place of a document."""

    __slots__ = ("_incoming", "_ours", "_route", "_written", "asked", "collects", "facts", "protocol", "refusal")

    def __init__(self, protocol: Protocol, facts: Facts, route: Route, incoming: Incoming) -> None:
        self.protocol = protocol
        self._incoming = incoming
        self._route = route
        self._written = False
        """The exchange holds the body as every target of the route gets it."""
        reading = route.reading
        self.facts = self.asked = facts
        # On an endpoint we do not hedge, a model that is no route of ours is the upstream's own affair.
        self._ours = protocol.hedgeable or route.owns(facts.model)
        self.refusal: Refusal | None = None
        """Why no hedge may be started by delay although the request may be sent again after a failure."""
        if incoming.opted_out:
            self.refusal = _OPTED_OUT
        elif facts.needs:
            self.refusal = _missing_leave(facts.needs, reading.allow)
        # What acts may also be what is answered at once and done later: its document is no stream's sum.
        self.collects = reading.as_stream and protocol.converts and not facts.stream and facts.forbids_hedge is None
        """Whether the client wants a document and the targets are asked for a stream."""
        if self.collects:
            self.asked = msgspec.structs.replace(facts, stream=True)

    def ask(self, request_id: str, exchange: Exchange, now: float) -> Ask:
        """The request as the policy sees it."""
        reading, facts, incoming = self._route.reading, self.facts, self._incoming
        traits = incoming.traits
        if facts.service_tier is not None:
            traits |= {f"service_tier: {facts.service_tier}"}
        return Ask(
            request_id,
            self.asked.stream,
            len(exchange.body) >> 2,  # some four bytes each
            # None earns by asking for less, and what is asked for may be any number.
            None if (limit := facts.max_output_tokens) is None else min(max(limit, 0) * facts.answers, MOST_TOKENS),
            now,
            now + min(reading.total, incoming.patience),
            facts.forbids_hedge is None,
            incoming.tenant,
            traits,
            facts.model or "",
            incoming.session,
            incoming.needs,
            incoming.context,
        )

    def model(self, target: Target) -> str | None:
        """The model that this target is asked for; None where the request names none."""
        asked = self.facts.model
        return asked if asked is None or target.model is None or not self._ours else target.model

    def path(self, exchange: Exchange, target: Target) -> bytes:
        """The path and query to ask this target for."""
        if not self.protocol.retargets:
            return exchange.target
        model = target.model if self._ours else None
        return self.protocol.retarget(exchange.target, self.facts, model, stream=self.collects)

    def body(self, exchange: Exchange, target: Target) -> bytes:
        """The body to send to this target."""
        body = exchange.body
        protocol, facts = self.protocol, self.facts
        if self._written or not self._ours:
            return body
        body = protocol.rewrite(body, facts, target.model, usage=self.adds_usage(target), stream=self.collects)
        if target.override is not None:
            body = protocol.override(body, target.override)
        if self._route.alike:
            exchange.body = body  # nobody needs the original: keep one of the two
            self._written = True
        return body

    def scanner(self, headers: Headers) -> Scanner:
        """A scanner of an answer with these response headers."""
        counts = self._route.reading.reasoning_counts
        return self.protocol.scanner(self.asked, headers, reasoning_counts=counts)

    def adds_usage(self, target: Target) -> bool:
        """Whether a report of usage is asked for that the client did not ask for."""
        wanted = self.facts.wants_usage and not self.collects
        return not wanted and target.stream_usage and self.protocol.asks_for_usage


_OPTED_OUT = Refusal(Reason.CLIENT_OPT_OUT, "x-hedgerow-hedge: off")
LEAVE = "hedge.allow: "
"""In the detail of every such refusal: what the operator may want to set."""
_WHY = {"n": "n > 1", "audio": "audio output", "store": "store: the answer is kept"}


def _missing_leave(needs: Iterable[str], allowed: Container[str]) -> Refusal | None:
    """What the route would have to allow; None where it does."""
    for need in needs:
        if need not in allowed:
            return Refusal(Reason.SIDE_EFFECTS, f"{_WHY[need]} ({LEAVE}[{need}])")
    return None
