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
from collections import Counter, deque
from collections.abc import Sequence
from itertools import chain
from math import inf, log

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


class Window:
    """The last `size` samples that are not older than `age` seconds: after `age` without any, it is empty.

    `now` is in seconds and must not go back. Adding takes constant time, amortised; memory is at most 1.25 times what
    `size` samples of 10 bytes need, 2 bytes for each of up to `HISTORY` times as many older ones, and nothing while it
    is empty.
    """

    __slots__ = ("_age", "_codes", "_first", "_most", "_older", "_size", "_swept", "_times")

    def __init__(self, size: int = 1000, age: float = 1800.0) -> None:
        """Raises `ValueError` unless `size` is at least 1 and `age` above 0."""
        self._codes = array("H")
        self._times = array("d")
        self._first = 0  # samples before this one are over, and wait for the next sweep
        self._swept = 0
        self._older: deque[tuple[float, float, array[int]]] = deque()
        """When the first and the last of them came, and the samples; the latest ones last."""
        self._set(size, age)

    def _set(self, size: int, age: float) -> None:
        if size < 1 or not age > 0:
            raise ValueError("a window must hold at least 1 sample, for more than 0 seconds")
        self._size = size
        self._age = age
        self._most = size + size // _PART + 1  # adding costs less when not each one drives another out
        self._older = deque(self._older, HISTORY * _PART)

    def resize(self, size: int, age: float) -> None:
        """Go on with other bounds; the latest samples stay as far as they fit."""
        self._sweep()
        self._set(size, age)
        self._sweep()

    def observe(self, seconds: float, censored: bool, now: float) -> None:
        """An attempt took `seconds`, or with `censored` at least as many."""
        codes = self._codes
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
            self._first = first = bisect_left(times, now - self._age, first)
            self._sweep()
            self._older.clear()  # what left before is older still
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
            self._older.append((self._times[0], self._times[first - 1], self._codes[:first]))
        del self._codes[:first], self._times[:first]
        self._swept += first
        self._first = 0


def together(windows: Sequence[Window], size: int, now: float) -> Distribution:
    """What the last `size` samples of all these windows say, where each holds its own last `size` ones.

    Older ones count as long as they are like these. Linear in the number of all their samples.
    """
    samples, before = latest(windows, size, now)
    if before and samples.total() >= size:
        samples = _with_alike(samples, size, before)
    return _estimated(samples)


def latest(windows: Sequence[Window], size: int, now: float) -> tuple[Counter[int], Sequence[array[int]]]:
    """Their last `size` samples, and parts of those before, the latest first; none is older than their age."""
    held = sum(window.count(now) for window in windows)
    since, spare = -inf, 0
    if held > size:
        times = sorted(chain.from_iterable(window._times[window._first :] for window in windows))
        since = times[held - size]
        spare = held - size - bisect_left(times, since)  # of the samples of that very moment so many are too many
    samples: Counter[int] = Counter()
    before: list[tuple[float, array[int]]] = []
    for window in windows:
        first = bisect_left(window._times, since, window._first)
        if spare:
            of_that_moment = bisect_right(window._times, since, first) - first
            first += min(spare, of_that_moment)
            spare -= min(spare, of_that_moment)
        samples.update(window._codes[first:])
        if first > window._first:
            before.append((window._times[first - 1], window._codes[window._first : first]))
        before += [(last, codes) for begun, last, codes in window._older if begun >= now - window._age]
    before.sort(key=lambda part: part[0], reverse=True)
    return samples, [codes for _, codes in before]


def _with_alike(samples: Counter[int], size: int, older: Sequence[array[int]]) -> Counter[int]:
    """The samples of a full window and, going back, as many as look like them; they are judged by half windows."""
    from hedgerow.policy.latency.alike import Alike  # for what has filled a window

    alike, found = Alike(samples), samples.copy()
    block: Counter[int] = Counter()
    for codes in older:
        block.update(codes)
        if 2 * block.total() < size:
            continue
        if not alike.to(block):
            break
        found.update(block)
        block.clear()
    return found


def _estimated(samples: Counter[int]) -> Distribution:
    codes = sorted(samples)
    counts = [samples[code] for code in codes]
    return Distribution.estimated([_SECONDS[code] for code in codes], [code & 1 for code in codes], counts)
