"""The last samples of one kind: at most so many, none older than so long.

Samples are kept rounded to a logarithmic scale, as DDSketch does (Masson, Rim and Lee, VLDB 2019): bucket i holds
SHORTEST * GROWTH**i up to the next, and stands for the time in it from which neither edge is further than 1 %. So a
time read back is off by 1 % at most, upwards as often as downwards. Times outside [SHORTEST, LONGEST] count as these.

A thousand samples say little of a tail: of the slowest 1 % they know ten. So samples that have left the window are kept
for a while, without their times, and still count as long as they look like those in it (see `alike`). Where something
has changed the window alone speaks.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import MutableSequence, Sequence
from itertools import chain, compress
from math import inf, log
from typing import NamedTuple

from hedgerow.policy.latency.distribution import Distribution

ERROR = 0.01
"""How far a time read back may be from the one observed, relative to it."""
SHORTEST = 1e-4
LONGEST = 7200.0
"""Seconds that the scale spans."""

HISTORY = 4
"""How many windows' worth of samples are kept beyond the window."""
_PART = 8
"""They leave it by an eighth of a window at a time."""

GROWTH = (1 + ERROR) / (1 - ERROR)
_PER_E = 1 / log(GROWTH)
BUCKETS = int(log(LONGEST / SHORTEST) * _PER_E) + 1
MIDDLES = tuple(SHORTEST * GROWTH**bucket * (1 + ERROR) for bucket in range(BUCKETS))
"""The time that each bucket stands for."""
_SECONDS = tuple(chain.from_iterable(zip(MIDDLES, MIDDLES, strict=True)))
"""That of each sample's number, see `code_of`."""
_NONE = (0,) * len(_SECONDS)
"""How many samples there are of each number, where there are none."""
_Counts = MutableSequence[int]


def code_of(seconds: float, censored: bool) -> int:
    """A sample as a number: its bucket and whether it is only "at least". In order of time, values first in a tie.

    Raises `ValueError` when `seconds` is not a number.
    """
    if seconds <= SHORTEST:
        bucket = 0
    elif seconds >= LONGEST:
        bucket = BUCKETS - 1
    else:
        bucket = int(log(seconds / SHORTEST) * _PER_E)
    return 2 * bucket + censored


class _Part(NamedTuple):
    """Samples of one time: when the first and the last of them came, and in ascending order values and "at least"s."""

    begun: float
    last: float
    values: array[int]
    at_least: array[int]

    @classmethod
    def of(cls, codes: array[int], begun: float, last: float) -> _Part:
        ordered = sorted(codes)
        values, at_least = [code for code in ordered if not code & 1], [code for code in ordered if code & 1]
        return cls(begun, last, array("H", values), array("H", at_least))

    def add_to(self, counts: _Counts, by: int = 1) -> None:
        """Add how often each number occurs here."""
        for code in self.values:
            counts[code] += by
        for code in self.at_least:
            counts[code] += by


class Window:
    """The last `size` samples that are not older than `age` seconds: after `age` without any, it is empty.

    `now` is in seconds and must not go back. Adding takes constant time, amortised; memory is at most 1.25 times what
    `size` samples of 10 bytes need, for each of up to `HISTORY` times as many older ones 2 bytes, and 7 KB to count
    these; nothing while it is empty.
    """

    __slots__ = ("_age", "_codes", "_first", "_most", "_older", "_older_counts", "_size", "_swept", "_times")

    def __init__(self, size: int = 1000, age: float = 1800.0) -> None:
        """Raises `ValueError` unless `size` is at least 1 and `age` above 0."""
        self._codes = array("H")
        self._times = array("d")
        self._first = 0  # samples before this one are over, and wait for the next sweep
        self._swept = 0
        self._older: deque[_Part] = deque()
        """The latest ones last."""
        self._older_counts: array[int] | None = None
        """By number how many of them there are; None: there are none."""
        self._set(size, age)

    def _set(self, size: int, age: float) -> None:
        if size < 1 or not age > 0:
            raise ValueError("a window must hold at least 1 sample, for more than 0 seconds")
        self._size = size
        self._age = age
        self._most = size + size // _PART + 1  # adding costs less when not each one drives another out

    def resize(self, size: int, age: float) -> None:
        """Go on with other bounds; the latest samples stay as far as they fit."""
        self._sweep()
        self._set(size, age)
        self._sweep()

    def observe(self, seconds: float, censored: bool, now: float) -> None:
        """An attempt took `seconds`, or with `censored` at least as many."""
        codes = self._codes
        # As `code_of`, which would take as long again: this is on every request's path.
        if SHORTEST < seconds < LONGEST:
            codes.append(2 * int(log(seconds / SHORTEST) * _PER_E) + censored)
        else:
            codes.append(code_of(seconds, censored))
        self._times.append(now)
        if len(codes) > self._most:
            self._sweep()

    @property
    def added(self) -> int:
        """How many samples have ever been added."""
        return self._swept + len(self._codes)

    def count(self, now: float) -> int:
        """How many samples it holds."""
        times = self._times
        self._first = first = max(self._first, len(times) - self._size)
        if first < len(times) and times[first] < now - self._age:
            self._drop(bisect_left(times, now - self._age, first))
            self._older.clear()  # what left before is older still
            self._older_counts = None
            first = 0
        return len(times) - first

    def rate(self, now: float) -> float:
        """Samples per second since the oldest of them, which is not counted; 0 while that cannot be told."""
        count = self.count(now)
        span = now - self._times[self._first] if count else 0.0
        return (count - 1) / span if span > 0 else 0.0

    def _sweep(self) -> None:
        first = max(self._first, len(self._codes) - self._size)
        if first:
            self._keep(_Part.of(self._codes[:first], self._times[0], self._times[first - 1]))
            self._drop(first)

    def _drop(self, first: int) -> None:
        """Let go of all before this one."""
        del self._codes[:first], self._times[:first]
        self._swept += first
        self._first = 0

    def _keep(self, part: _Part) -> None:
        older, counts = self._older, self._older_counts
        if counts is None:
            counts = self._older_counts = array("I", _NONE)
        older.append(part)
        part.add_to(counts)
        if len(older) > HISTORY * _PART:
            older.popleft().add_to(counts, -1)


def together(windows: Sequence[Window], size: int, now: float) -> Distribution:
    """What the last `size` samples of all these windows say, where each holds its own last `size` ones.

    Older ones count as long as they are like these. Linear in the number of all their samples.
    """
    samples, before = latest(windows, size, now)
    counts = list(_NONE)
    for code in samples:
        counts[code] += 1
    if before and len(samples) >= size:
        _add(before[: _alike(counts, size, before)], windows, counts)
    return _estimated(counts)


def latest(windows: Sequence[Window], size: int, now: float) -> tuple[array[int], Sequence[_Part]]:
    """Their last `size` samples, and parts of those before, the latest first; none is older than their age."""
    held = sum(window.count(now) for window in windows)
    since, spare = -inf, 0
    if held > size:
        times = sorted(chain.from_iterable(window._times[window._first :] for window in windows))
        since = times[held - size]
        spare = held - size - bisect_left(times, since)  # of the samples of that very moment so many are too many
    samples = array("H")
    before: list[_Part] = []
    for window in windows:
        first = bisect_left(window._times, since, window._first)
        if spare:
            of_that_moment = bisect_right(window._times, since, first) - first
            first += min(spare, of_that_moment)
            spare -= min(spare, of_that_moment)
        samples += window._codes[first:]
        if first > window._first:
            begun, last = window._times[window._first], window._times[first - 1]
            before.append(_Part.of(window._codes[window._first : first], begun, last))
        before += [part for part in window._older if part.begun >= now - window._age]
    before.sort(key=lambda part: part.last, reverse=True)
    return samples, before


def _add(parts: Sequence[_Part], windows: Sequence[Window], counts: list[int]) -> None:
    """Count these parts, and the most of those that have left a window by the few that are not among them."""
    left = {id(part): part for part in parts}
    for window in windows:
        older, of_all = window._older, window._older_counts
        others = [part for part in older if id(part) not in left]
        if of_all is not None and 2 * len(others) < len(older):
            for code in compress(range(len(of_all)), of_all):
                counts[code] += of_all[code]
            for part in others:
                part.add_to(counts, -1)
            for part in older:
                left.pop(id(part), None)
    for part in left.values():
        part.add_to(counts)


def _alike(counts: list[int], size: int, older: Sequence[_Part]) -> int:
    """How many of these parts look like what is counted, a full window; they are judged by half windows."""
    from hedgerow.policy.latency.alike import Alike  # for what has filled a window

    alike, first, found = Alike(counts), 0, 0
    for end, part in enumerate(older, 1):
        found += len(part.values) + len(part.at_least)
        if 2 * found >= size:
            if not alike.to([(each.values, each.at_least) for each in older[first:end]]):
                break
            first, found = end, 0
    return first


def _estimated(counts: list[int]) -> Distribution:
    codes = list(compress(range(len(counts)), counts))
    times, at_least = [_SECONDS[code] for code in codes], [code & 1 for code in codes]
    return Distribution.estimated(times, at_least, [counts[code] for code in codes])
