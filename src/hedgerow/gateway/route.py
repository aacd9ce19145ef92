"""A route at run time: the name clients ask for, its hedger and its targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from hedgerow.errors import RequestError
from hedgerow.gateway.aftermath import NO_STORE
from hedgerow.gateway.blueprint import Reading, Replay
from hedgerow.gateway.headers import Incoming, forbids_storing, traits_of
from hedgerow.gateway.session import session_of
from hedgerow.gateway.target import Target
from hedgerow.gateway.trial import Gates
from hedgerow.hedger import Hedger
from hedgerow.http.exchange import Exchange
from hedgerow.policy.alternatives import KeepSettings
from hedgerow.policy.capabilities import nobody_can
from hedgerow.wire.base import Facts, Protocol
from hedgerow.wire.needs import needs_of, text_tokens


class Route:
    """What one family of protocols sees of a configured route: those of its targets that speak it.

    `targets[i]` is where the hedger's `places[i]` goes. `alike`: all of them are sent the very same body. `gates`: what
    judges answers, if anything. `replay`: what becomes of requests that come again, if they are known again.
    `keep`: how losers run on after the win, None where they are broken off.
    """

    __slots__ = ("alike", "curious", "gates", "hedger", "keep", "name", "reading", "replay", "targets")

    def __init__(
        self,
        hedger: Hedger,
        targets: Sequence[Target],
        reading: Reading = Reading(),  # noqa: B008  # frozen
        gates: Gates | None = None,
        replay: Replay | None = None,
        keep: KeepSettings | None = None,
    ) -> None:
        self.name = hedger.name
        self.hedger = hedger
        self.targets = tuple(targets)
        self.reading = reading
        self.gates = gates
        self.replay = replay
        self.keep = keep
        self.curious = bool(reading.traits or reading.session or reading.needs or keep)
        """Whether there is anything to `read`."""
        self.alike = all(_wants(target) == _wants(targets[0]) for target in targets)

    def read(self, exchange: Exchange, protocol: Protocol, facts: Facts, incoming: Incoming) -> Incoming:
        """What this route goes by of a request's fields and body, beyond what every route wants to know.

        Raises `RequestError` (400) for what none of the targets can do.
        """
        reading = self.reading
        more: dict[str, Any] = {}
        if reading.traits:
            more["traits"] = traits_of(exchange.headers, reading.traits)
        if self.keep is not None and forbids_storing(exchange.headers):
            more["traits"] = more.get("traits", frozenset()) | {NO_STORE}
        if reading.session and protocol.hedgeable:
            more["session"] = session_of(reading.session, exchange.headers, exchange.body)
        if reading.needs and protocol.hedgeable:
            more["needs"] = needs = needs_of(exchange.body)
            more["context"] = text_tokens(exchange.body) + max(facts.max_output_tokens or 0, 0)
            if (why := nobody_can([place.candidate for place in self.hedger.places], needs)) is not None:
                raise RequestError(400, self._incapable(needs, why), code="unsupported_capability")
        return msgspec.structs.replace(incoming, **more)

    def _incapable(self, needs: Iterable[str], why: str) -> str:
        what = " and ".join(sorted(needs))
        return (
            f"No target of route '{self.name}' can answer this request, which needs {what}: {why}. "
            "Ask another route, or say what its targets can do in the config, as in supports: [tools, vision]."
        )

    def owns(self, model: str | None) -> bool:
        """Whether this is the route's name or one that its pattern stands for."""
        if model is None:
            return False
        return model == self.name or (self.name.endswith("*") and model.startswith(self.name[:-1]))


def _wants(target: Target) -> object:
    """What a body depends on, of all that a target wants otherwise than the client."""
    return target.model, target.stream_usage, target.override
