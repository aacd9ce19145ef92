"""A policy tried out: the engine in virtual time on the requests of a scene, and what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from math import inf, nan, sqrt
from multiprocessing import get_context
from typing import Self

import numpy as np
import numpy.typing as npt

from hedgerow.events import Reason
from hedgerow.planner.log import Floats, Ints
from hedgerow.planner.plan import Outcome
from hedgerow.planner.quantiles import QUANTILES, Quantile, errors
from hedgerow.planner.replay import REFRESH, Replay
from hedgerow.planner.world import Resampled
from hedgerow.policy.health import Health, Watch
from hedgerow.policy.plan import Place
from hedgerow.policy.settings import Policy

_SEVERAL = 40_000
"""Requests from which on it is worth while to start other processes."""

Progress = Callable[[int, int, str], None]
"""Told how many requests were gone through, of how many, and what is being done."""


@dataclass(frozen=True, slots=True)
class Trial:
    """What is to be tried: a policy, its places, what requests take at each of them or until they fail, when they come,
    their prompts.

    `pace`: seconds between two looks at what was learned.
    """

    policy: Policy
    places: Sequence[Place]
    taken: Sequence[Floats]
    failing: Sequence[Floats | float]
    at: Floats
    tokens: Ints
    seed: int
    pace: float = REFRESH
    watches: Mapping[str, Watch] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Flown:
    """Of each request: seconds to its first token (nan: none), hedges, failovers, and which attempt won (-1: none).

    `delays`: of each prompt size (the smallest number of tokens) the delay and probability at the end. `held`: why
    hedges were not launched when their time had come, and how many, most first.
    """

    took: Floats
    hedges: Ints
    failovers: Ints
    winner: Ints
    delays: tuple[tuple[int, float, float], ...]
    held: tuple[tuple[Reason, int], ...] = ()

    def part(self, which: slice) -> Flown:
        """Some of the requests."""
        return replace(
            self,
            took=self.took[which],
            hedges=self.hedges[which],
            failovers=self.failovers[which],
            winner=self.winner[which],
        )


def fly(trial: Trial) -> Flown:
    """Let the engine do it."""
    draw = np.random.default_rng(trial.seed).random
    replay = Replay(
        Resampled(trial.taken, trial.failing),
        trial.policy,
        trial.places,
        draw,
        health=Health(trial.watches),
        refresh=trial.pace,
    )
    told = replay.run(trial.at.tolist(), trial.tokens.tolist())
    sizes = {
        each["prompt_tokens"]: (inf if each["delay"] is None else each["delay"], each["probability"])
        for each in replay.hedger.state(replay.clock.now)["delays"]
    }
    return Flown(
        np.array(told.took),
        np.array(told.hedges, dtype=np.int64),
        np.array(told.failovers, dtype=np.int64),
        np.array(told.winner, dtype=np.int64),
        tuple((tokens, *choice) for tokens, choice in sorted(sizes.items())),
        tuple(told.skipped.most_common()),
    )


class Crew:
    """Who flies trials: this process, or several where there is enough to do. What comes of it is the same."""

    def __init__(self, jobs: int, progress: Progress, planned: int) -> None:
        """`planned`: requests that are to be gone through in all."""
        self._progress, self._planned, self._done = progress, planned, 0
        self._workers = jobs if planned >= _SEVERAL else 1
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        if self._workers > 1:
            # A fork of a process with threads, as readers of logs have them, may hang.
            self._pool = ProcessPoolExecutor(self._workers, get_context("spawn"))
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def fly(self, trials: Sequence[Trial], words: str) -> list[Flown]:
        """All of them."""
        self._planned = max(self._planned, self._done + sum(len(trial.at) for trial in trials))
        self._progress(self._done, self._planned, words)
        flown = []
        for trial, each in zip(trials, self._each(trials), strict=True):
            self._done += len(trial.at)
            self._progress(self._done, self._planned, words)
            flown.append(each)
        return flown

    def _each(self, trials: Sequence[Trial]) -> Iterator[Flown]:
        return map(fly, trials) if self._pool is None else self._pool.map(fly, trials)


def outcome_of(flown: Sequence[Flown], target: float, usd: Sequence[Floats] = ()) -> Outcome:
    """Of the same requests gone through several times. `usd`: what their hedges cost, each time."""
    took = np.stack([each.took for each in flown])
    count = len(flown[0].took)
    ordered = np.sort(took[~np.isnan(took)])
    return Outcome(
        requests=count,
        failed=1.0 - len(ordered) / max(took.size, 1),
        quantiles=tuple(_quantile(took, ordered, p) for p in sorted({*QUANTILES, target})),
        of_all=at_share(np.append(ordered, np.full(took.size - len(ordered), inf)), target) if took.size else nan,
        extra=_mean([each.hedges for each in flown]),
        failovers=_mean([each.failovers for each in flown]),
        usd_per_1000=float(np.mean(np.concatenate(usd))) * 1_000.0 if usd else None,
    )


def _mean(of: Sequence[Ints]) -> float:
    return float(np.concatenate(of).mean()) if of and len(of[0]) else 0.0


def _quantile(took: Floats, ordered: Floats, p: float) -> Quantile:
    """As `quantiles.quantile`, where the same requests were gone through several times: a row of `took` each time."""
    n = took.shape[1] * len(ordered) // max(took.size, 1)
    if not n:
        return Quantile(p, nan, nan, nan)
    value, answers = at_share(ordered, p), (~np.isnan(took)).sum(axis=0)
    beyond = (took > value).sum(axis=0)[answers > 0] / answers[answers > 0]
    spread = errors(beyond, p) * sqrt(p * (1 - p) / n)
    low, high = p - spread, p + spread + 1 / n
    return Quantile(
        p,
        value,
        at_share(ordered, low) if low > 0 else 0.0,
        at_share(ordered, high) if high < 1 else inf,
    )


def at_share(ordered: npt.NDArray[np.float64], p: float) -> float:
    """The smallest value that the share `p` does not exceed."""
    return float(ordered[min(max(int(np.ceil(len(ordered) * p)) - 1, 0), len(ordered) - 1)])
