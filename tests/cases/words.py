"""How a difference is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Difference:
    """`where` is a path of keys below `expect`."""

    expected: Any
    came: Any
    where: str = ""
    run: int | None = None

    def within(self, key: str) -> Difference:
        """The same, below a key."""
        return replace(self, where=f"{key}.{self.where}".removesuffix("."))

    def of_run(self, number: int | None) -> Difference:
        """The same, of one run of several."""
        return replace(self, run=number)

    def __str__(self) -> str:
        run = "" if self.run is None else f"run {self.run}, "
        return f"{run}{self.where}: expected {_short(self.expected)}, came {_short(self.came)}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:90]} ... {text[-100:]}"


def differs(expected: Any, came: Any, where: str = "") -> Iterator[Difference]:
    """Nothing when both are the same."""
    if expected != came or type(expected) is not type(came):
        yield Difference(expected, came, where)
