"""What hedgerow must reach in one run of this benchmark, and whether it did."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.plan import DIRECT, JSON_1, JSON_64, JSON_512, SSE_256, STREAMS_1000
from bench.record import Candidate, Figure, difference, figure, ratio

Candidates = Mapping[str, Candidate]
US = "hedgerow"


@dataclass(frozen=True, slots=True)
class Goal:
    """A claim with a bound; `least` means at least the bound, otherwise below it."""

    claim: str
    bound: float
    unit: str
    least: bool
    measure: Callable[[Candidates], Figure | None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """`ok`, `short`, or `not measured`, with the figure."""

    goal: Goal
    figure: Figure | None

    @property
    def word(self) -> str:
        """The verdict in a word."""
        if self.figure is None:
            return "not measured"
        reached = self.figure.mid >= self.goal.bound if self.goal.least else self.figure.mid < self.goal.bound
        return "ok" if reached else "short"


def _times(peer: str, run: str, key: str) -> Callable[[Candidates], Figure | None]:
    def measure(all_of_them: Candidates) -> Figure | None:
        if peer not in all_of_them or US not in all_of_them:
            return None
        return ratio(all_of_them[US].values(run, key), all_of_them[peer].values(run, key))

    return measure


def _added_p50(all_of_them: Candidates) -> Figure | None:
    """Milliseconds."""
    if US not in all_of_them or DIRECT not in all_of_them:
        return None
    added = difference(all_of_them[US].values(JSON_1, "p50_us"), all_of_them[DIRECT].values(JSON_1, "p50_us"))
    return added and Figure(mid=added.mid / 1e3, low=added.low / 1e3, high=added.high / 1e3)


def _memory(all_of_them: Candidates) -> Figure | None:
    """Megabytes, only from rounds in which all streams were open."""
    if US not in all_of_them:
        return None
    open_streams = all_of_them[US].values(STREAMS_1000, "open_streams")
    rss = all_of_them[US].values(STREAMS_1000, "rss_kb")
    return figure({number: kb / 1e3 for number, kb in rss.items() if open_streams.get(number) == 1000})


def _ready(all_of_them: Candidates) -> Figure | None:
    return figure(all_of_them[US].ready) if US in all_of_them else None


GOALS = (
    Goal("req/s at 64 connections, against Envoy", 1.5, "x", True, _times("envoy", JSON_64, "rps")),
    Goal("req/s at 512 connections, against Envoy", 1.5, "x", True, _times("envoy", JSON_512, "rps")),
    Goal("req/s at 64 connections, against nginx", 0.45, "x", True, _times("nginx", JSON_64, "rps")),
    Goal("req/s at 512 connections, against nginx", 0.45, "x", True, _times("nginx", JSON_512, "rps")),
    Goal("SSE chunks/s at 256 streams, against nginx", 0.9, "x", True, _times("nginx", SSE_256, "chunks_per_s")),
    Goal("req/s at 64 connections, against TensorZero", 4, "x", True, _times("tensorzero", JSON_64, "rps")),
    Goal("req/s at 64 connections, against LiteLLM", 200, "x", True, _times("litellm", JSON_64, "rps")),
    Goal("added p50 at one connection", 0.1, "ms", False, _added_p50),
    Goal("RSS at 1,000 open streams", 45, "MB", False, _memory),
    Goal("start to ready", 1.0, "s", False, _ready),
)


def verdicts(all_of_them: Candidates) -> list[Verdict]:
    """Every goal with what was measured."""
    return [Verdict(goal=goal, figure=goal.measure(all_of_them)) for goal in GOALS]
