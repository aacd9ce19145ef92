"""What a route has learned of how long its targets take, kept apart by what makes a difference.

There is a cell for each target, way of answering (streamed or whole) and prompt size. A cell with too few samples
answers with what its parent knows: all sizes of that target and way, or all of that target, each by its own last
samples. A target with too few answers with nothing: that is the cold start. Parents keep no samples of their own, since
what they would hold is in their cells: so an observation is one entry, however many ask for it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from hedgerow.policy.latency.distribution import Distribution
from hedgerow.policy.latency.window import Window, together

SIZES = (1_000, 4_000, 16_000, 64_000)
"""Prompt tokens at which the next size begins: below 1,000, below 4,000, ..., 64,000 and more."""

STALE_SHARE = 20
"""What was made of samples is made anew once one in so many is newer than it, or has gone since."""
OLD_SHARE = 4
"""And with one in so many it no longer says what is usual."""

_SIZES = len(SIZES) + 1


def size_of(input_tokens: int) -> int:
    """Which size a prompt has: 0 is the smallest, `len(SIZES)` the largest."""
    return bisect_right(SIZES, input_tokens)


class Learning(msgspec.Struct, frozen=True, gc=False):
    """How a route learns. Raises `ValueError` for what cannot work.

    `window`: the most samples of a cell, beside older ones that are like them (see `Window`). `age`: seconds after
    which a sample is forgotten. `min_samples`: with fewer, a cell asks its parent. `warmup`: with fewer samples of a
    target, nothing is known of it. "At least"s count.
    """

    window: int = 1000
    age: float = 1800.0
    min_samples: int = 100
    warmup: int = 100

    def __post_init__(self) -> None:
        if self.window < 1 or not self.age > 0:
            raise ValueError("window must be at least 1 sample, age more than 0 seconds")
        if not 1 <= self.min_samples <= self.window or not 1 <= self.warmup <= self.window:
            raise ValueError("min_samples and warmup must be at least 1 and at most window, or no cell ever has enough")


class Seen(NamedTuple):
    """Samples that have ever come, and that are held."""

    added: int
    held: int

    def is_stale(self, now: Seen, known: int, share: int = STALE_SHARE) -> bool:
        """Whether what was made then, of `known` samples, is to be made anew."""
        came = now.added - self.added
        left = self.held + came - now.held
        return came < 0 or max(came, left) * share >= known  # fewer have come where a cell was given back


class _Law:
    """The distribution last made of some cells, kept until it is stale."""

    __slots__ = ("_known", "_seen")

    def __init__(self) -> None:
        self._known = Distribution((), (), 0, 0)
        self._seen = Seen(0, 0)

    def of(self, cells: Sequence[Window], size: int, seen: Seen, now: float) -> Distribution:
        if self._seen.is_stale(seen, self._known.n):
            self._known, self._seen = together(cells, size, now), seen
        return self._known

    def last(self, seen: Seen) -> Distribution | None:
        """The one that was made last, unless it is old."""
        return None if self._seen.is_stale(seen, self._known.n, OLD_SHARE) else self._known


class _Target:
    """What is known of one target."""

    __slots__ = ("_laws", "cells")

    def __init__(self) -> None:
        self.cells: list[list[Window | None]] = [[None] * _SIZES, [None] * _SIZES]
        """By way (whole, streamed) and size."""
        self.forget_laws()

    def forget_laws(self) -> None:
        self._laws: dict[tuple[int, int], _Law] = {}

    def count(self, now: float) -> int:
        """How many samples there are."""
        return sum(cell.count(now) for cell in self._some(-1, -1))

    def distribution(
        self, way: int, size: int, learning: Learning, now: float, *, last: bool = False
    ) -> Distribution | None:
        cell = self.cells[way][size]
        if cell is not None and (held := cell.count(now)) >= max(learning.min_samples, learning.warmup):  # mostly
            law, seen = self._law(way, size), Seen(cell.added, held)
            return law.last(seen) if last else law.of([cell], learning.window, seen, now)
        if self.count(now) < learning.warmup:
            return None
        for level in ((way, size), (way, -1), (-1, -1)):
            cells = self._some(*level)
            seen = _seen(cells, now)
            if seen.held >= learning.min_samples or level == (-1, -1):
                law = self._law(*level)
                return law.last(seen) if last else law.of(cells, learning.window, seen, now)
        return None

    def level(self, way: int, size: int, least: int, learning: Learning, now: float) -> Distribution | None:
        """What the cells of one way (-1: of both) and one size (-1: of all) say, with at least so many samples."""
        cells = self._some(way, size)
        seen = _seen(cells, now)
        return None if seen.held < least else self._law(way, size).of(cells, learning.window, seen, now)

    def seen(self, way: int, now: float) -> Seen:
        """What has come of one way."""
        return _seen(self._some(way, -1), now)

    def _some(self, way: int, size: int) -> list[Window]:
        ways = self.cells if way < 0 else (self.cells[way],)
        return [cell for each in ways for cell in (each if size < 0 else (each[size],)) if cell is not None]

    def _law(self, way: int, size: int) -> _Law:
        law = self._laws.get((way, size))
        if law is None:
            law = self._laws[way, size] = _Law()
        return law


def _seen(cells: Sequence[Window], now: float) -> Seen:
    added = held = 0
    for cell in cells:
        held += cell.count(now)
        added += cell.added
    return Seen(added, held)


class Cells:
    """The cells of one measure: of the time to the first token.

    `now` is in seconds and must not go back. A cell takes memory from its first sample on, see `Window`.
    """

    __slots__ = ("_learning", "_targets")

    def __init__(self, learning: Learning) -> None:
        self._learning = learning
        self._targets: dict[str, _Target] = {}

    def observe(self, target: str, stream: bool, input_tokens: int, seconds: float, censored: bool, now: float) -> None:
        """An attempt took `seconds`, or with `censored` at least as many."""
        known = self._targets.get(target)
        if known is None:
            known = self._targets[target] = _Target()
        cells, size = known.cells[stream], bisect_right(SIZES, input_tokens) if input_tokens else 0
        cell = cells[size]
        if cell is None:
            cell = cells[size] = Window(self._learning.window, self._learning.age)
        cell.observe(seconds, censored, now)

    def distribution(self, target: str, stream: bool, input_tokens: int, now: float) -> Distribution | None:
        """What such a request can expect of this target; None while too little is known of it.

        At most one in `STALE_SHARE` of its samples is not in it yet, or should not be any more.
        """
        known = self._targets.get(target)
        return None if known is None else known.distribution(stream, size_of(input_tokens), self._learning, now)

    def last(self, target: str, stream: bool, input_tokens: int, now: float) -> Distribution | None:
        """What `distribution` answered last, and made nothing anew for it; None where that is too long ago."""
        known = self._targets.get(target)
        size = size_of(input_tokens)
        return None if known is None else known.distribution(stream, size, self._learning, now, last=True)

    def known(self, targets: Collection[str], least: int, now: float) -> Collection[str]:
        """Those of these targets that have so many samples."""
        known = self._targets
        return [each for each in targets if each in known and known[each].count(now) >= least]

    def alike(
        self, targets: Collection[str], stream: bool, size: int, least: int, now: float
    ) -> dict[str, Distribution | None]:
        """What is known of these targets, to compare them: of each the same, as near to such a request as all allow.

        That is this way and `size`, else this way, else everything; None for those with fewer than `least` samples.
        """
        known = {target: self._targets.get(target) for target in targets}
        laws: dict[str, Distribution | None] = {}
        for way, of_size in ((-1, -1), (stream, -1), (stream, size)):
            finer = {
                target: None if each is None else each.level(way, of_size, least, self._learning, now)
                for target, each in known.items()
            }
            if any(law is not None and finer[target] is None for target, law in laws.items()):
                break
            laws = finer
        return laws

    def seen(self, target: str, stream: bool, now: float) -> Seen:
        """How many samples there are and were, by which to tell whether there is news."""
        known = self._targets.get(target)
        return Seen(0, 0) if known is None else known.seen(stream, now)

    def rates(self, target: str, stream: bool, now: float) -> tuple[float, ...]:
        """Samples per second by prompt size, smallest first: what share of the requests each size is."""
        known = self._targets.get(target)
        cells = [None] * _SIZES if known is None else known.cells[stream]
        return tuple(0.0 if cell is None else cell.rate(now) for cell in cells)

    def resize(self, learning: Learning) -> None:
        """Go on with other rules: what was learned stays, as far as the new window holds it."""
        self._learning = learning
        for known in self._targets.values():
            known.forget_laws()
            for cell in chain(*known.cells):
                if cell is not None:
                    cell.resize(learning.window, learning.age)

    def forget(self, target: str) -> None:
        """Begin anew with this target: what it does next has nothing to do with what it did."""
        self._targets.pop(target, None)

    def sweep(self, now: float, targets: Collection[str]) -> None:
        """Give back the memory of cells that have become empty, and of all but these targets."""
        self._targets = {target: known for target, known in self._targets.items() if target in targets}
        for known in self._targets.values():
            known.forget_laws()  # they count what was added to cells that may go
            for cells in known.cells:
                cells[:] = [cell if cell is not None and cell.count(now) else None for cell in cells]


class LatencyModel:
    """All that a route has learned; it outlives a reload of the configuration.

    For an answer that is not streamed, the first token comes when it is complete.
    """

    __slots__ = ("first_tokens", "observe")

    def __init__(self, learning: Learning = Learning()) -> None:  # noqa: B008  # frozen
        self.first_tokens = Cells(learning)
        self.observe = self.first_tokens.observe
        """What an attempt's first token took, see `Cells.observe` and `samples.sample_of`."""

    def first_token(self, target: str, stream: bool, input_tokens: int, now: float) -> Distribution | None:
        """Time to the first token, see `Cells.distribution`."""
        return self.first_tokens.distribution(target, stream, input_tokens, now)

    def answers(self, target: str, stream: bool, input_tokens: int, now: float) -> Distribution | None:
        """The same of a backup, to plan with: None as well for one that was always broken off before it answered.

        Its estimate would be that it never does, and a plan that believes that never asks it again.
        """
        law = self.first_tokens.distribution(target, stream, input_tokens, now)
        return law if law is not None and law.events else None

    def planned(self, target: str, stream: bool, input_tokens: int, now: float) -> Distribution | None:
        """What was last planned with, see `Cells.last`."""
        law = self.first_tokens.last(target, stream, input_tokens, now)
        return law if law is not None and law.events else None

    def resize(self, learning: Learning) -> None:
        """Go on with other rules, see `Cells.resize`."""
        self.first_tokens.resize(learning)

    def forget(self, target: str) -> None:
        """Begin anew with this target, see `Cells.forget`."""
        self.first_tokens.forget(target)

    def sweep(self, now: float, targets: Collection[str]) -> None:
        """Give back memory, see `Cells.sweep`: to be called now and then, and after a reload."""
        self.first_tokens.sweep(now, targets)
