"""Streams of requests to replay: for each one how long its first attempt takes, and how long a hedge would.

Times are seconds to the first token. Where they were recorded, a stream is as long as is asked for and made of them by
drawing; what goes together in the record stays together, as far as the way of drawing says (`DRAWS`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Literal

Draw = Literal["independent", "same length", "neighbours", "pairs"]
DRAWS: dict[Draw, str] = {
    "independent": "a hedge takes as long as any other recorded request",
    "same length": "a hedge takes as long as any other recorded request with the same prompt length",
    "neighbours": "a hedge takes as long as a request with the same prompt length at most 5 places away in the record",
    "pairs": "a hedge takes as long as the request that really was sent elsewhere at the same time",
}

NEAR = 5
"""Places between a request and the one that stands for its hedge, at most."""
BLOCK = 50
"""Requests that are drawn in a row, so that slow spells stay spells."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded request; `cell` tells which others have the same prompt length and were recorded with it."""

    seconds: float
    tokens: int = 500
    cell: str = ""


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests in the order in which they come."""

    name: str
    draw: Draw
    samples: int
    """How many recorded times it is made of; of a generator, how many requests."""
    tokens: Sequence[int]
    primary: Sequence[float]
    backup: Sequence[float]
    """A hedge's time from its own launch."""
    stationary: bool = True
    same_provider: bool = True

    def __len__(self) -> int:
        return len(self.primary)


def drawn(name: str, draw: Draw, record: Sequence[Recorded], requests: int, random: Random) -> Stream:
    """A stream of recorded requests, drawn with replacement.

    Independent: one by one, and so are hedges. Neighbours: `BLOCK` in a row where all have one prompt length, since a
    record that goes through lengths one after the other says nothing of which come together.
    """
    cells: dict[str, list[int]] = {}
    for index, one in enumerate(record):
        cells.setdefault(one.cell, []).append(index)
    place = {index: (cell, at) for cell in cells.values() for at, index in enumerate(cell)}
    block = BLOCK if draw == "neighbours" and len({one.tokens for one in record}) == 1 else 1
    firsts: list[int] = []
    while len(firsts) < requests:
        start = random.randrange(len(record))
        firsts += [(start + step) % len(record) for step in range(block)]
    del firsts[requests:]

    def hedge(index: int) -> int:
        if draw == "independent":
            return random.randrange(len(record))
        cell, at = place[index]
        if draw == "same length":
            return random.choice(cell)
        near = [other for other in range(at - NEAR, at + NEAR + 1) if other != at and 0 <= other < len(cell)]
        return cell[random.choice(near)] if near else index

    return Stream(
        name,
        draw,
        len(record),
        [record[index].tokens for index in firsts],
        [record[index].seconds for index in firsts],
        [record[hedge(index)].seconds for index in firsts],
    )


def paired(name: str, pairs: Sequence[tuple[float, float]], requests: int, random: Random) -> Stream:
    """A stream of attempts that were made at the same time at two providers, drawn with replacement."""
    chosen = [random.choice(pairs) for _ in range(requests)]
    first, second = [one for one, _ in chosen], [other for _, other in chosen]
    return Stream(name, "pairs", len(pairs), [500] * requests, first, second, same_provider=False)


def quantile(values: Sequence[float], p: float) -> float:
    """The smallest value that at least the share `p` of them does not exceed; `values` ascend."""
    if not values:
        return inf
    return values[max(0, -int(-p * len(values) // 1) - 1)]
