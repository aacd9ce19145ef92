"""Recorded streams as logs for the planner: as they were recorded, and at a length at which a p99 is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np

from bench.streams import Recorded, drawn, paired
from bench.streams_recorded import Series, pairs, queues, series
from hedgerow.planner.log import Floats, Log

FIRST, SECOND = "first", "second"
"""What the targets of such a log are called."""
LEAST = 160
"""Records that the planner needs to look at half of them: 40 to fit on and 40 to judge by."""


class Made(NamedTuple):
    """A log, and what hedges of its requests take where any record near by with the same length may stand for them."""

    log: Log
    near_by: Floats | None = None


class Subject(NamedTuple):
    """A log that can be made, of so many records; `at_length`: they were drawn from again and again."""

    name: str
    group: str
    records: int
    at_length: bool
    make: Callable[[], Made]


def subjects(folder: Path, requests: int, rate: float, seed: int) -> list[Subject]:
    """All of a folder. Raises `OSError` and `ValueError` for a file that cannot be read."""
    every = series(folder)
    short = [
        Subject(each.name, each.group, len(each.record), False, partial(_recorded, each.record))
        for each in [*every, *queues(folder)]
        if len(each.record) >= LEAST
    ]
    long = [
        Subject(each.name, each.group, len(each.record), True, partial(_lengthened, each, requests, rate, seed))
        for each in every
    ]
    long += [
        Subject(name, "pairs", len(rounds), True, partial(_lengthened_pairs, name, rounds, requests, rate, seed))
        for name, rounds in pairs(folder).items()
    ]
    return [*short, *long]


def as_recorded(record: Sequence[Recorded]) -> Log:
    """In the order in which they were recorded, whenever that was."""
    seconds = np.array([one.seconds for one in record])
    return _log(np.arange(float(len(record))), [seconds], [one.tokens for one in record], timed=False)


def _recorded(record: Sequence[Recorded]) -> Made:
    return Made(as_recorded(record))


def _lengthened(each: Series, requests: int, rate: float, seed: int) -> Made:
    stream = drawn(each.name, "neighbours", each.record, requests, Random(seed))
    log = _log(_arrivals(requests, rate, seed), [np.array(stream.primary)], stream.tokens)
    return Made(log, np.array(stream.backup))


def _lengthened_pairs(name: str, rounds: Sequence[tuple[float, float]], requests: int, rate: float, seed: int) -> Made:
    stream = paired(name, rounds, requests, Random(seed))
    both = [np.array(stream.primary), np.array(stream.backup)]
    return Made(_log(_arrivals(requests, rate, seed), both, stream.tokens))


def _arrivals(requests: int, rate: float, seed: int) -> Floats:
    times: Floats = np.cumsum(np.random.default_rng(seed).exponential(1.0 / rate, requests))
    return times


def _log(at: Floats, taken: Sequence[Floats], tokens: Sequence[int], *, timed: bool = True) -> Log:
    of, count = len(taken), len(at)
    number = np.repeat(np.arange(count), of)
    return Log(
        at=at[number],
        ttft=np.stack(taken, axis=1).ravel(),
        failed=np.zeros(of * count, dtype=np.bool_),
        input_tokens=np.array(tokens)[number],
        target=np.tile(np.arange(of), count),
        request=number if of > 1 else np.full(count, -1),
        targets=(FIRST, SECOND)[:of],
        timed=timed,
        of_first_token=True,
    )
