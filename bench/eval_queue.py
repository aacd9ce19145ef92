"""The simulations' self-hosted fleet, in which chance draws who does what is sent, and how long that takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from bench.eval_replay import Done
from hedgerow.planner.simulation import fleet
from hedgerow.testing import VirtualLoop


class Fleet:
    """`servers` that each do one thing after the other, with `cancels` as there."""

    def __init__(
        self, loop: VirtualLoop, random: Random, service: Callable[[Random], float], *, cancels: bool, servers: int = 10
    ) -> None:
        self._random, self._service, self._servers = random, service, servers
        self._fleet = fleet.Fleet(loop, servers, cancels=cancels)

    @property
    def busy(self) -> float:
        """Seconds of work done so far, by all servers together."""
        return self._fleet.busy

    def send(self, request: int, place: int, done: Done) -> Callable[[], object]:
        server = self._random.randrange(self._servers)
        return self._fleet.send(server, self._service(self._random), partial(done, None))
