"""How much of something fell into the last hour, day or month: a sum over a window that slides."""

from __future__ import annotations

SLOTS = 60
"""Parts of a window. What was added counts for the window's length, and at most a part longer than that."""


class WindowSum:
    """A sum of whole numbers over the last `length` microseconds, in constant memory and never too low.

    Time is cut into slots of a sixtieth of the window; the sum is over the present slot and the 60 before it. So it
    holds all that was added in the last `length` microseconds, both ends included, and what is up to a sixtieth older:
    who keeps this sum within a limit keeps every window of that length within it, and has what it spent back between
    `length` and `length * 61 / 60` later. Times must not decrease. It keeps 61 numbers, none while nothing was added.
    """

    __slots__ = ("_amounts", "_slot", "_sum", "_width")

    def __init__(self, length: int) -> None:
        """`length` in microseconds, a multiple of 60."""
        self._width = length // SLOTS
        self._slot = 0
        self._sum = 0
        self._amounts: list[int] | None = None

    def sum(self, at: int) -> int:
        """What counts at this time."""
        slot = at // self._width
        if slot > self._slot:
            self._slide(slot)
        return self._sum

    def _slide(self, slot: int) -> None:
        amounts = self._amounts
        if amounts is not None and self._sum:
            if slot > self._slot + SLOTS:
                self._amounts, self._sum = None, 0
            else:
                for old in range(self._slot + 1, slot + 1):
                    self._sum -= amounts[old % (SLOTS + 1)]
                    amounts[old % (SLOTS + 1)] = 0
        self._slot = slot

    def add(self, amount: int, at: int) -> None:
        self.sum(at)
        if self._amounts is None:
            self._amounts = [0] * (SLOTS + 1)
        self._amounts[self._slot % (SLOTS + 1)] += amount
        self._sum += amount

    def give_back(self, amount: int, added_at: int, at: int) -> None:
        """Take away from what was added at `added_at`; nothing where that no longer counts."""
        self.sum(at)
        slot = added_at // self._width
        if self._amounts is not None and slot >= self._slot - SLOTS:
            amount = min(amount, self._amounts[slot % (SLOTS + 1)])
            self._amounts[slot % (SLOTS + 1)] -= amount
            self._sum -= amount

    def copy(self) -> WindowSum:
        """Another with the same amounts."""
        other = WindowSum(self._width * SLOTS)
        other._slot, other._sum = self._slot, self._sum
        other._amounts = None if self._amounts is None else self._amounts.copy()
        return other

    def worsen(self, other: WindowSum, at: int) -> None:
        """Rise to the amounts of `other`, slot by slot, where those are more."""
        if not other.sum(at) or other._amounts is None:
            return
        self.add(0, at)
        self._amounts = list(map(max, self._amounts or (), other._amounts))
        self._sum = sum(self._amounts)
