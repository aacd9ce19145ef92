"""What a route has learned of how long its targets take, kept apart by what makes a difference.

There is a cell for each target, way of answering (streamed or whole) and prompt size. Every observation also goes to
two parents: all sizes of that target and way, and all of that target. A cell with too few samples answers with what
its parent knows, and a target with too few with nothing: that is the cold start.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from math import inf

import msgspec

from hedgerow.policy.latency.distribution import Distribution
from hedgerow.policy.latency.window import Window, code_of

SIZES = (1_000, 4_000, 16_000, 64_000)
"""Prompt tokens at which the next size begins: below 1,000, below 4,000, ..., 64,000 and more."""

STALE_SHARE = 20
"""A distribution is made anew once one sample in so many is newer than it,"""
STALE_AFTER = 5.0
"""or when it is asked for after so many seconds: then samples may have grown too old."""

_TARGET = 0  # cells of one target: of all; all sizes whole, streamed; then whole and streamed of each size
_CELLS = 3 + 2 * (len(SIZES) + 1)


def size_of(input_tokens: int) -> int:
    """Which size a prompt has: 0 is the smallest, `len(SIZES)` the largest."""
    return bisect_right(SIZES, input_tokens)


class Learning(msgspec.Struct, frozen=True, gc=False):
    """How a route learns. Raises `ValueError` for what cannot work.

    `window`: the most samples of a cell. `age`: seconds after which a sample is forgotten. `min_samples`: with fewer, a
    cell asks its parent. `warmup`: with fewer samples of a target, nothing is known of it. "At least"s count.
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


class _Cell(Window):
    """A window, and the distribution last made of it."""

    __slots__ = ("_known", "_known_at", "_known_until")

    def __init__(self, learning: Learning) -> None:
        super().__init__(learning.window, learning.age)
        self.forget_distribution()

    def forget_distribution(self) -> None:
        self._known = Distribution((), (), 0, 0)
        self._known_until = -inf
        self._known_at = self.added

    def distribution(self, now: float) -> Distribution:
        known = self._known
        if now >= self._known_until or (self.added - self._known_at) * STALE_SHARE >= known.n:
            self._known = known = super().distribution(now)
            self._known_until = now + STALE_AFTER
            self._known_at = self.added
        return known


class Cells:
    """The cells of one measure: of the time to the first token, or to the complete answer.

    `now` is in seconds and must not go back. A cell takes memory from its first sample on, see `Window`.
    """

    __slots__ = ("_learning", "_targets")

    def __init__(self, learning: Learning) -> None:
        self._learning = learning
        self._targets: dict[str, list[_Cell | None]] = {}

    def observe(self, target: str, stream: bool, input_tokens: int, seconds: float, censored: bool, now: float) -> None:
        """An attempt took `seconds`, or with `censored` at least as many."""
        cells = self._targets.get(target)
        if cells is None:
            cells = self._targets[target] = [None] * _CELLS
        code = code_of(seconds, censored)
        way, index = 1 + stream, 3 + 2 * bisect_right(SIZES, input_tokens) + stream
        everything, all_sizes, cell = cells[_TARGET], cells[way], cells[index]
        if everything is None:
            everything = cells[_TARGET] = _Cell(self._learning)
        if all_sizes is None:
            all_sizes = cells[way] = _Cell(self._learning)
        if cell is None:
            cell = cells[index] = _Cell(self._learning)
        everything.add(code, now)  # no loop: this is on every request's path
        all_sizes.add(code, now)
        cell.add(code, now)

    def distribution(self, target: str, stream: bool, input_tokens: int, now: float) -> Distribution | None:
        """What such a request can expect of this target; None while too little is known of it.

        At most one in `STALE_SHARE` of its samples, or those of `STALE_AFTER` seconds, are not in it yet.
        """
        cells = self._targets.get(target)
        if cells is None or (everything := cells[_TARGET]) is None:
            return None
        learning = self._learning
        if everything.count(now) < learning.warmup:
            return None
        enough = learning.min_samples
        cell = cells[3 + 2 * bisect_right(SIZES, input_tokens) + stream]
        if cell is None or cell.count(now) < enough:
            cell = cells[1 + stream]
            if cell is None or cell.count(now) < enough:
                cell = everything
        return cell.distribution(now)

    def rates(self, target: str, stream: bool, now: float) -> tuple[float, ...]:
        """Samples per second by prompt size, smallest first: what share of the requests each size is."""
        cells = self._targets.get(target) or [None] * _CELLS
        return tuple(0.0 if cell is None else cell.rate(now) for cell in cells[3 + stream :: 2])

    def resize(self, learning: Learning) -> None:
        """Go on with other rules: what was learned stays, as far as the new window holds it."""
        self._learning = learning
        for cells in self._targets.values():
            for cell in cells:
                if cell is not None:
                    cell.resize(learning.window, learning.age)
                    cell.forget_distribution()

    def forget(self, target: str) -> None:
        """Begin anew with this target: what it does next has nothing to do with what it did."""
        self._targets.pop(target, None)

    def sweep(self, now: float, targets: Collection[str]) -> None:
        """Give back the memory of cells that have become empty, and of all but these targets."""
        self._targets = {target: cells for target, cells in self._targets.items() if target in targets}
        for cells in self._targets.values():
            cells[:] = [cell if cell is not None and cell.count(now) else None for cell in cells]


class LatencyModel:
    """All that a route has learned; it outlives a reload of the configuration.

    For an answer that is not streamed, the first token comes when it is complete.
    """

    __slots__ = ("first_tokens", "wholes")

    def __init__(self, learning: Learning = Learning()) -> None:  # noqa: B008  # frozen
        self.first_tokens = Cells(learning)
        self.wholes = Cells(learning)

    def observe(self, target: str, stream: bool, input_tokens: int, seconds: float, censored: bool, now: float) -> None:
        """An attempt's first token took `seconds`, or with `censored` at least as many (see `samples.sample_of`)."""
        self.first_tokens.observe(target, stream, input_tokens, seconds, censored, now)

    def observe_whole(
        self, target: str, stream: bool, input_tokens: int, seconds: float, censored: bool, now: float
    ) -> None:
        """The same for an attempt's complete answer (see `samples.whole_sample_of`)."""
        self.wholes.observe(target, stream, input_tokens, seconds, censored, now)

    def first_token(self, target: str, stream: bool, input_tokens: int, now: float) -> Distribution | None:
        """Time to the first token, see `Cells.distribution`."""
        return self.first_tokens.distribution(target, stream, input_tokens, now)

    def whole(self, target: str, stream: bool, input_tokens: int, now: float) -> Distribution | None:
        """Time to the complete answer."""
        return self.wholes.distribution(target, stream, input_tokens, now)

    def resize(self, learning: Learning) -> None:
        """Go on with other rules, see `Cells.resize`."""
        self.first_tokens.resize(learning)
        self.wholes.resize(learning)

    def forget(self, target: str) -> None:
        """Begin anew with this target, see `Cells.forget`."""
        self.first_tokens.forget(target)
        self.wholes.forget(target)

    def sweep(self, now: float, targets: Collection[str]) -> None:
        """Give back memory, see `Cells.sweep`: to be called now and then, and after a reload."""
        self.first_tokens.sweep(now, targets)
        self.wholes.sweep(now, targets)
