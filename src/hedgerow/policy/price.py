"""What an attempt costs. Money is whole nano-dollars (1e-9 USD), never a float."""

from __future__ import annotations

import re

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


class Price(msgspec.Struct, frozen=True, gc=False):
    """The price of one target's attempts: tokens by the million, since a single one may cost half a nano-dollar."""

    input_nanousd_per_million: int = 0
    output_nanousd_per_million: int = 0
    request_nanousd: int = 0

    @classmethod
    def parse(cls, input_usd: str = "0", output_usd: str = "0", request_usd: str = "0") -> Price:
        """From decimal dollars: per million tokens of prompt, of answer, and per request. Raises `ValueError`."""
        return cls(nanousd(input_usd), nanousd(output_usd), nanousd(request_usd))

    def cost(self, input_tokens: int, output_tokens: int) -> int:
        """Nano-dollars of an attempt, a started one counted whole. Numbers of tokens below 0 count as 0."""
        tokens = max(input_tokens, 0) * self.input_nanousd_per_million
        tokens += max(output_tokens, 0) * self.output_nanousd_per_million
        return -(-tokens // _MILLION) + self.request_nanousd
