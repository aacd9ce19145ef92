"""A latency log as the planner works with it: columns of numbers, in the order of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SUPERSEDED = "superseded before its first token"
NEGATIVE = "a negative latency"
LATE_FIRST = "a first token after the end"
REFUSED = "refused for what was asked (HTTP 4xx)"
CACHED = "answered from a cache"
CANCELLED = "left by its caller before its first token"
OPEN = "still under way when it was written"
TORN = "a line that is not like the others"
UNREAD = "a time that cannot be read"
"""Reasons why a row is not in a log, of which more is known than that."""


@dataclass(frozen=True, slots=True)
class Log:
    """Attempts, as arrays of one length, sorted by `at`.

    `at`: seconds since the first of them (in rows without a time, their place). `ttft`: seconds to the first token, or
    to the whole answer where a log has nothing else; nan of those that failed. `failed`; `input_tokens` is 0 where it
    is not known. `target` indexes `targets`; `request` is a number that attempts of one request share, -1 without one.
    """

    at: Floats
    ttft: Floats
    failed: npt.NDArray[np.bool_]
    input_tokens: Ints
    target: Ints
    request: Ints
    targets: Sequence[str]
    timed: bool
    """Whether the log says when requests came."""
    of_first_token: bool
    """Whether `ttft` is the time to the first token, and not to the whole answer."""
    read: int = 0
    """Rows of the file."""
    bad: Mapping[str, int] = field(default_factory=dict)
    """Rows that are not in it, by reason."""
    notes: Sequence[str] = ()
    """What its reader has assumed."""
    output_tokens: Ints | None = None
    """Of each answer, 0 where it is not known; None: the log does not say."""
    usd: Floats | None = None
    """Dollars that each attempt cost, nan where that is not known; None: the log does not say."""
    failed_after: Floats | None = None
    """Seconds until those failed that did, nan where that is not known; None: the log does not say."""
    stamps: int = 0
    """Different times of the file, where these were so few that rows of one were spread; else 0."""
    unread: int = 0
    """Rows of the file whose time cannot be read."""
    limited: Mapping[str, float] = field(default_factory=dict)
    """Share of the attempts of the whole file, by target, turned away for there being too many (HTTP 429), if any."""

    def __len__(self) -> int:
        return len(self.at)

    def of(self, which: npt.NDArray[np.bool_] | slice) -> Log:
        """Some of its rows."""
        return replace(
            self,
            at=self.at[which],
            ttft=self.ttft[which],
            failed=self.failed[which],
            input_tokens=self.input_tokens[which],
            target=self.target[which],
            request=self.request[which],
            output_tokens=None if self.output_tokens is None else self.output_tokens[which],
            usd=None if self.usd is None else self.usd[which],
            failed_after=None if self.failed_after is None else self.failed_after[which],
        )


def printable(text: str) -> str:
    """The text with what could steer a terminal made visible: names in a log are anybody's."""
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
