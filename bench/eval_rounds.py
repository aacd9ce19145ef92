"""Recorded rounds that another project has replayed and published: the planner's engine must come to the same figures.

gpuhedge 0.1.0 (mireklzicar/gpuhedge at 669c8c9327c9, README, and `gpuhedge replay traces/moss_rounds.jsonl`): the same
job sent to three serverless clouds at once, 54 times, of which the last 36 count. The hedge goes to another cloud after
10 s, whatever it costs: a job takes L = R where R <= 10 s, else min(R, 10 s + M). Of the two others it is Cerebrium
whose rounds give what is published.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bench.eval_replay import places
from hedgerow.planner.log import Floats
from hedgerow.planner.replay import Replay
from hedgerow.planner.world import Resampled
from hedgerow.policy.settings import Policy

FILE = "gpuhedge_serverless_2026.csv"
PRIMARY, BACKUP = "runpod", "cerebrium"
LEARNED = 18
"""Rounds at the start that do not count."""
DELAY, LATE = 10.0, 60.0
_APART = 1_000.0
"""Seconds between two rounds here: none meets another."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """p50 and p95 in seconds, to one decimal as published; how many took longer than `LATE`, and were hedged."""

    p50: float
    p95: float
    late: int
    hedged: int


PUBLISHED: Mapping[str, Rounds] = {
    "never": Rounds(6.0, 116.6, 11, 0),
    "after 10 s": Rounds(6.0, 29.4, 0, 11),
}


def read(path: Path) -> tuple[Floats, Floats]:
    """What primary and backup took, round by round. Raises `OSError` and `ValueError`."""
    rounds: dict[str, dict[str, float]] = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            rounds.setdefault(row["run"], {})[row["provider"]] = float(row["total_ms"]) / 1e3
    counted = list(rounds.values())[LEARNED:]
    if not all(PRIMARY in each and BACKUP in each for each in counted) or not counted:
        raise ValueError(f"{path}: needs rounds of both {PRIMARY} and {BACKUP}")
    return np.array([each[PRIMARY] for each in counted]), np.array([each[BACKUP] for each in counted])


def replayed(first: Floats, second: Floats) -> dict[str, Rounds]:
    """Through the engine, without a hedge and with one."""
    return {words: _rounds(first, second, words == "never") for words in PUBLISHED}


def _rounds(first: Floats, second: Floats, never: bool) -> Rounds:
    policy = Policy() if never else Policy(delay=DELAY, min_delay=DELAY, max_delay=DELAY)
    at: Sequence[float] = (np.arange(len(first)) * _APART).tolist()
    replay = Replay(Resampled([first, second], [0.0, 0.0]), policy, places(), np.random.default_rng(1).random)
    told = replay.run(at, [1] * len(first))
    took = np.array(told.took)
    p50, p95 = (round(float(each), 1) for each in np.quantile(took, (0.5, 0.95), method="lower"))
    return Rounds(p50, p95, int((took > LATE).sum()), sum(told.hedges))


def faults(found: Mapping[str, Rounds]) -> list[str]:
    """Where it is not what is published."""
    return [
        f"gpuhedge's rounds, hedged {words}: {found[words]} is not {published}"
        for words, published in PUBLISHED.items()
        if found[words] != published
    ]
