"""Which runs a candidate goes through, how long, and in which order candidates take turns."""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.driver import Run
from bench.peer import Peer

JSON_1, JSON_64, JSON_512 = "json-1", "json-64", "json-512"
SSE_256, STREAMS_1000 = "sse-256", "streams-1000"
DIRECT = "direct"


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole benchmark. Slow peers take part in the first `slow_rounds` rounds only."""

    peers: tuple[Peer, ...]
    rounds: int
    slow_rounds: int
    duration: float

    def turn(self, round_number: int) -> Sequence[Peer]:
        """The candidates of one round; every other round runs backwards, so that drift hits none of them alone."""
        here = [peer for peer in self.peers if not peer.slow or round_number < self.slow_rounds]
        return here if round_number % 2 == 0 else here[::-1]

    def runs(self, peer: Peer | None) -> tuple[Run, ...]:
        """The runs of one candidate, or of the load generator talking to its own upstream."""
        if peer is not None and peer.slow:
            return _slow(self.duration)
        return _fast(self.duration) if peer is not None else _fast(self.duration)[:-1]


def _fast(seconds: float) -> tuple[Run, ...]:
    warm = seconds / 3
    return (
        Run(JSON_1, "json", 1, seconds, warm),
        Run(JSON_64, "json", 64, seconds, warm),
        Run(JSON_512, "json", 512, seconds, warm),
        Run(SSE_256, "sse", 256, seconds, warm, window=1),
        # Memory only: streams that stay open, each with two chunks a second.
        Run(STREAMS_1000, "sse", 1000, 1.0, 1.5, interval=0.5, chunks=1000),
    )


def _slow(seconds: float) -> tuple[Run, ...]:
    """Long warm-ups: at 100 requests a second 256 streams need seconds to open."""
    return (
        Run(JSON_1, "json", 1, seconds, 1.0),
        Run(JSON_64, "json", 64, 2 * seconds, 2.0),
        Run(SSE_256, "sse", 256, 2 * seconds, 4.0, window=1),
    )
