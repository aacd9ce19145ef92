"""A route at run time: the name clients ask for, its hedger and its targets."""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.gateway.target import Target
from hedgerow.hedger import Hedger


class Route:
    """`targets[i]` is where the hedger's `places[i]` goes. `one_model`: all of them want the same model name."""

    __slots__ = ("hedger", "name", "one_model", "targets")

    def __init__(self, hedger: Hedger, targets: Sequence[Target]) -> None:
        self.name = hedger.name
        self.hedger = hedger
        self.targets = tuple(targets)
        self.one_model = len({target.model for target in targets}) == 1
