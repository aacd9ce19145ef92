"""What a target charges, and for what: prices, by model where it passes the client's on, and what a cancel costs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

import msgspec

from hedgerow.policy.price import Price

_REMEMBERED = 1_000
_LONGEST = 200
"""Characters of a name; clients may send anything."""
_DATE = re.compile(r"-(20\d\d)(\d\d)(\d\d)(?=[-:]|$)")


class OnCancel(StrEnum):
    """What a provider bills for an attempt that is broken off before its end."""

    FULL = "full"
    """All of the answer: it is generated to its end."""
    GENERATED = "generated"
    """The prompt, and what was generated until then."""
    INPUT = "input"
    """The prompt."""
    NONE = "none"
    """Nothing."""


class Listed(msgspec.Struct, frozen=True):
    """The price of a model with one of these `names`, or in whose name `pattern` is found; both in lower case.

    A `price` of None: it is not priced by the token.
    """

    price: Price | None
    names: tuple[str, ...] = ()
    pattern: str | None = None


class PriceList:
    """Prices by model. Where several entries are for a name, the first counts."""

    __slots__ = ("_exact", "_patterns", "_seen")

    def __init__(self, entries: Sequence[Listed]) -> None:
        self._exact: dict[str, tuple[int, Price | None]] = {}
        self._patterns: list[tuple[int, re.Pattern[str], Price | None]] = []
        self._seen: dict[str, Price | None] = {}
        for place, entry in enumerate(entries):
            for name in entry.names:
                self._exact.setdefault(name, (place, entry.price))
            if entry.pattern is not None:
                self._patterns.append((place, re.compile(entry.pattern), entry.price))

    def find(self, model: str) -> Price | None:
        """What it costs; None where that is not known.

        A name with a date such as 20250807 that is not listed is looked for as with 2025-08-07.
        """
        if len(model) > _LONGEST:
            return None
        if model not in self._seen:
            if len(self._seen) >= _REMEMBERED:
                self._seen.clear()
            name = model.lower()
            found = next(self._entries(name), None) or next(self._entries(_DATE.sub(r"-\1-\2-\3", name)), None)
            self._seen[model] = None if found is None else found[1]
        return self._seen[model]

    def _entries(self, name: str) -> Iterator[tuple[int, Price | None]]:
        exact = self._exact.get(name)
        for place, pattern, price in self._patterns:
            if exact is not None and exact[0] < place:
                break
            if pattern.search(name) is not None:
                yield place, price
        if exact is not None:
            yield exact


class Terms:
    """Of one target. `stream` and `whole`: what it bills for a cancelled answer that was streamed, or was not.

    `bills_refusals`: what the filter of its contents refuses costs something, too.
    """

    __slots__ = ("_listed", "_price", "bills_refusals", "stream", "whole")

    def __init__(
        self,
        price: Price | None = None,
        listed: Sequence[Listed] = (),
        *,
        stream: OnCancel = OnCancel.GENERATED,
        whole: OnCancel = OnCancel.GENERATED,
        bills_refusals: bool = False,
    ) -> None:
        """`price` is for every model; with `listed` each has its own."""
        self._price = price
        self._listed = PriceList(listed) if listed else None
        self.stream = stream
        self.whole = whole
        self.bills_refusals = bills_refusals

    def price(self, model: str | None) -> Price | None:
        """What this model costs; None where that is not known."""
        if self._listed is None or model is None:
            return self._price
        return self._listed.find(model)


UNKNOWN = Terms()
"""Those of a target that says nothing of them."""
