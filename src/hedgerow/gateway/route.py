"""A route at run time: the name clients ask for, its hedger and its targets."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.gateway.blueprint import Reading, Replay
from hedgerow.gateway.target import Target
from hedgerow.gateway.trial import Gates
from hedgerow.hedger import Hedger
from hedgerow.policy.alternatives import KeepSettings


class Route:
    """What one family of protocols sees of a configured route: those of its targets that speak it.

    `targets[i]` is where the hedger's `places[i]` goes. `alike`: all of them are sent the very same body. `gates`: what
    judges answers, if anything. `replay`: what becomes of requests that come again, if they are known again.
    `keep`: how losers run on after the win, None where they are broken off.
    """

    __slots__ = ("alike", "gates", "hedger", "keep", "name", "reading", "replay", "targets")

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
        self.alike = all(_wants(target) == _wants(targets[0]) for target in targets)

    def owns(self, model: str | None) -> bool:
        """Whether this is the route's name or one that its pattern stands for."""
        if model is None:
            return False
        return model == self.name or (self.name.endswith("*") and model.startswith(self.name[:-1]))


def _wants(target: Target) -> object:
    """What a body depends on, of all that a target wants otherwise than the client."""
    return target.model, target.stream_usage, target.override
