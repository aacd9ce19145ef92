"""What an attempt costs. Money is whole nano-dollars (1e-9 USD), never a float."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

_DOLLAR = 1_000_000_000
_MILLION = 1_000_000
_DECIMAL = re.compile(r"([0-9]{1,12})(?:\.([0-9]{1,9}))?")


def nanousd(dollars: str) -> int:
    """Nano-dollars, exactly, of an amount in decimal such as "2.50". Raises `ValueError` for anything else.

    At most 12 digits before the point and 9 after it, without sign, exponent or grouping.
    """
    found = _DECIMAL.fullmatch(dollars)
    if found is None:
        raise ValueError(f"not an amount of dollars such as 2.50, with at most 9 decimals: {dollars!r}")
    return int(found[1]) * _DOLLAR + int((found[2] or "").ljust(9, "0"))


def show_dollars(amount: int) -> str:
    """The shortest plain way to write this many nano-dollars, exactly: "$2.5"."""
    whole, rest = divmod(abs(amount), _DOLLAR)
    decimals = f".{rest:09d}".rstrip("0") if rest else ""
    return f"{'-' if amount < 0 else ''}${whole}{decimals}"


_INSTEAD = {"cached_input": "input", "cache_write": "input", "cache_write_1h": "cache_write"}
_CACHES = tuple(_INSTEAD)
RATES = ("input", "output", "request", *_CACHES)
"""The names of all prices that are a number."""


class Price(msgspec.Struct, frozen=True):
    """What attempts cost: nano-dollars per million tokens, since a single one may cost half a nano-dollar.

    `request` are nano-dollars per request. Tokens read from a cache or written to one are among those of the input; a
    price of None is that of other input (`cache_write_1h`: that of `cache_write`). `above`: dearer prices for requests
    with more tokens of input than so many, all of whose tokens cost that, the lowest first. `tiers`: by the provider's
    word for a tier of service, what it costs there.
    """

    input: int = 0
    output: int = 0
    request: int = 0
    cached_input: int | None = None
    cache_write: int | None = None
    cache_write_1h: int | None = None
    above: tuple[tuple[int, Price], ...] = ()
    tiers: dict[str, Price] = {}

    @classmethod
    def parse(cls, input_usd: str = "0", output_usd: str = "0", request_usd: str = "0") -> Price:
        """From decimal dollars: per million tokens of prompt, of answer, and per request. Raises `ValueError`."""
        return cls(nanousd(input_usd), nanousd(output_usd), nanousd(request_usd))

    def in_tier(self, tier: str | None) -> Price | None:
        """The prices of this tier of service, by the provider's word for it; None where they are not known."""
        if tier is None:
            return self
        word = tier.lower()
        return self.tiers.get(word, self if word in STANDARD else None)

    def cost(
        self, input_tokens: int, output_tokens: int, cached: int = 0, written: int = 0, written_1h: int = 0
    ) -> int:
        """Nano-dollars of an attempt, rounded once, to the nearest and half up.

        `cached` of the input were read from a cache, `written` to one, `written_1h` of these for an hour. Numbers of
        tokens below 0 count as 0.
        """
        read, made = max(input_tokens, 0), max(output_tokens, 0)
        price = self
        for more_than, dearer in self.above:
            if read > more_than:
                price = dearer
        tokens = read * price.input + made * price.output
        if cached > 0 and price.cached_input is not None:
            tokens += min(cached, read) * (price.cached_input - price.input)
        if written > 0:
            written = min(written, read - min(max(cached, 0), read))
            plain = price.input if price.cache_write is None else price.cache_write
            longer = plain if price.cache_write_1h is None else price.cache_write_1h
            tokens += written * (plain - price.input) + min(max(written_1h, 0), written) * (longer - plain)
        return (tokens + _MILLION // 2) // _MILLION + price.request

    def at(self, input_tokens: int) -> Price:
        """The prices for a prompt of so many tokens, the only ones."""
        price = next((dearer for more_than, dearer in reversed(self.above) if input_tokens > more_than), self)
        return msgspec.structs.replace(price, above=(), tiers={})

    def changed(self, rates: Mapping[str, int]) -> Price:
        """With these prices, by their names, and no tiers; what is not among them is as it is here.

        But a price of cached input that is not among them keeps its share of `input`, and prices for longer prompts
        keep theirs of those for shorter ones.
        """
        changed: dict[str, int] = dict(rates)
        for name in _CACHES:
            if name not in rates and "input" in rates and (amount := getattr(self, name)) is not None:
                changed[name] = _share(amount, self.input, rates["input"])
        longer = (
            (
                more_than,
                price.changed({name: _share(price.rate(name), self.rate(name), new) for name, new in rates.items()}),
            )
            for more_than, price in self.above
        )
        return msgspec.structs.replace(self, **changed, above=tuple(longer), tiers={})

    def rate(self, name: str) -> int:
        """The price of this name, or that which stands for it."""
        amount: int | None = getattr(self, name)
        return self.rate(_INSTEAD[name]) if amount is None else amount

    def times(self, millionths: int) -> Price:
        """This share of all prices, each rounded to the nearest and half up."""

        def share(amount: int) -> int:
            return _share(amount, _MILLION, millionths)

        def maybe(amount: int | None) -> int | None:
            return None if amount is None else share(amount)

        return Price(
            share(self.input),
            share(self.output),
            share(self.request),
            maybe(self.cached_input),
            maybe(self.cache_write),
            maybe(self.cache_write_1h),
            tuple((more_than, price.times(millionths)) for more_than, price in self.above),
        )

    @property
    def cheapest_input(self) -> Price:
        """The same, with all input at the least that any of it may cost."""
        return self._with_input(min)

    @property
    def dearest_input(self) -> Price:
        """The same, with all input at the most that any of it may cost."""
        return self._with_input(max)

    def _with_input(self, which: Callable[[list[int]], int]) -> Price:
        special = (self.cached_input, self.cache_write, self.cache_write_1h)
        return msgspec.structs.replace(
            self,
            input=which([self.input, *(rate for rate in special if rate is not None)]),
            cached_input=None,
            cache_write=None,
            cache_write_1h=None,
            above=tuple((more_than, price._with_input(which)) for more_than, price in self.above),
        )


STANDARD = frozenset({"", "auto", "default", "standard", "on_demand"})
"""What providers call the tier of service that the plain price is for."""


def _share(amount: int, old: int, new: int) -> int:
    """What an amount becomes, rounded to the nearest and half up, when what it is a share of does; 0 has no shares."""
    return (amount * new + old // 2) // old if old else max(amount, new)
