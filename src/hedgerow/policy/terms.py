"""What a target charges, and for what: prices, by model where it passes the client's on, and what a cancel costs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import StrEnum

from hedgerow.policy.price import Price

Listed = Sequence[tuple[str, Price]]
"""Prices by model: an expression to search for in its lower-case name, and the price; the first found counts."""
_REMEMBERED = 1_000
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


class Terms:
    """Of one target. `whole`: what it bills where a cancelled answer was not streamed.

    `bills_refusals`: some errors cost their prompt, too, as at Azure those of the content filter.
    """

    __slots__ = ("_by_model", "_listed", "_price", "bills_refusals", "stream", "whole")

    def __init__(
        self,
        price: Price | None = None,
        listed: Listed = (),
        *,
        stream: OnCancel = OnCancel.GENERATED,
        whole: OnCancel = OnCancel.GENERATED,
        bills_refusals: bool = False,
    ) -> None:
        """`price` is for every model that is not `listed`."""
        self._price = price
        self._listed = [(re.compile(pattern), each) for pattern, each in listed]
        self._by_model: dict[str, Price | None] = {}
        self.stream = stream
        self.whole = whole
        self.bills_refusals = bills_refusals

    def price(self, model: str | None) -> Price | None:
        """What this model costs; None where that is not known."""
        if not self._listed or model is None:
            return self._price
        if model not in self._by_model:
            if len(self._by_model) >= _REMEMBERED:  # clients may send anything
                self._by_model.clear()
            self._by_model[model] = self._find(model)
        return self._by_model[model]

    def _find(self, model: str) -> Price | None:
        name = model.lower()
        for spelling in (name, _DATE.sub(r"-\1-\2-\3", name)):
            for pattern, price in self._listed:
                if pattern.search(spelling) is not None:
                    return price
        return self._price


UNKNOWN = Terms()
"""Those of a target that says nothing of them."""
