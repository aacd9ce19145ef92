"""What targets charge: prices, where they come from, and what is billed for an attempt that is broken off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from pydantic import Field, model_validator

from hedgerow.config.amounts import dollars
from hedgerow.config.base import DAY, Model, ShortFor
from hedgerow.config.fields import OUTPUT, Leaf, Schema, duration, expected, one_of, problem, text
from hedgerow.policy import price as policy
from hedgerow.policy.terms import OnCancel
from hedgerow.units import PERCENT_PATTERN, parse_percent

_DOLLARS = dollars(off=False)
_RATES = policy.RATES
_NAMES = frozenset(_RATES)


Rates = Mapping[str, int]
"""Some prices by their names; what is left out is as in the prices around them."""


def _rates(value: object, folder: Path, at: tuple[str, ...]) -> Rates:
    if not isinstance(value, dict):
        raise problem("expected prices such as {input: 0.25, output: 2}", at=at)
    for name in value:
        if name not in _RATES:
            raise problem(f"unknown price {str(name)[:40]!r}; expected some of {', '.join(_RATES)}", at=at)
    found = {}
    for name, amount in value.items():
        try:
            found[name] = _DOLLARS.parse(amount, folder)
        except Exception:
            raise problem(f"expected {_AMOUNT}", at=(*at, name)) from None
    return found


_AMOUNT = "dollars from 0 to 1000000000, such as 5 or 2.50, with at most 9 decimals"


def _parse_above(value: object, folder: Path) -> tuple[tuple[int, Rates], ...]:
    if not isinstance(value, dict) or not value:
        raise expected("prices by tokens of prompt, such as {200000: {input: 2.50, output: 15}}")
    found = {}
    for tokens, rates in value.items():
        number = int(tokens) if isinstance(tokens, str) and tokens.isdecimal() else tokens
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise problem("expected a whole number of tokens such as 200000", at=(str(tokens),))
        found[number] = _rates(rates, folder, (str(tokens),))
    return tuple(sorted(found.items(), key=lambda each: each[0]))


_NUMBERS: Schema = {"type": "object", "properties": dict.fromkeys(_RATES, _DOLLARS.schema)}
ABOVE = Leaf(
    _parse_above,
    "mapping of tokens to prices",
    {
        "type": "object",
        "propertyNames": {"pattern": "^[1-9][0-9]*$"},
        "additionalProperties": {**_NUMBERS, "additionalProperties": False},
    },
    str,
)
Tier = Rates | float
"""Prices of its own, or a share of the others."""


def _parse_tiers(value: object, folder: Path) -> dict[str, Tier]:
    if not isinstance(value, dict) or not value:
        raise expected("a mapping of tiers to prices, such as {flex: 50%, priority: {input: 0.50, output: 4}}")
    found: dict[str, Tier] = {}
    for word, given in value.items():
        if not isinstance(word, str) or not word.strip():
            raise problem("expected the provider's word for a tier of service, such as flex", at=(str(word),))
        if isinstance(given, dict):
            found[word.lower()] = _rates(given, folder, (word,))
            continue
        share = parse_percent(given)
        if share is None or not 0.0 <= share <= 100.0:
            raise problem("expected prices such as {input: 0.25, output: 2}, or a percentage of the others", at=(word,))
        found[word.lower()] = share
    return found


TIERS = Leaf(
    _parse_tiers,
    "mapping of tiers to prices or percentages",
    {
        "type": "object",
        "additionalProperties": {
            "anyOf": [{**_NUMBERS, "additionalProperties": False}, {"type": "string", "pattern": PERCENT_PATTERN}]
        },
    },
    str,
)


def _parse_source(value: object, _: Path) -> str:
    if value not in ("own", "auto", "off"):
        raise expected("auto, off, or prices such as {input: 0.25, output: 2}")
    return str(value)


_WORDS = one_of("own", "auto", "off")
_SOURCE = Leaf(_parse_source, _WORDS.label, _WORDS.schema)


class Price(Model):
    """What the target charges, in dollars. `price: auto` alone takes all of it from genai-prices; left out, that is \
done where that knows the provider and the model, and else nothing is known. See [costs](costs.md#prices)."""

    source: Annotated[Literal["own", "auto", "off"], _SOURCE] = "own"
    """`own`: what is said here. `auto`: what genai-prices says, but for what is said here; a price that it does not \
know is a fault. `off`: no price is known."""
    input: Annotated[int, _DOLLARS] = 0
    """Dollars per million tokens of prompt."""
    output: Annotated[int, _DOLLARS] = 0
    """Dollars per million tokens of answer, reasoning included."""
    request: Annotated[int, _DOLLARS] = 0
    """Dollars per request."""
    cached_input: Annotated[int | None, _DOLLARS] = None
    """Dollars per million tokens of prompt that were read from the provider's cache. Left out: as `input`."""
    cache_write: Annotated[int | None, _DOLLARS] = None
    """Dollars per million tokens of prompt that were written to it. Left out: as `input`."""
    cache_write_1h: Annotated[int | None, _DOLLARS] = None
    """Dollars per million tokens of prompt that were written to it for an hour, where that is dearer."""
    above: Annotated[tuple[tuple[int, Rates], ...], ABOVE] = ()
    """Prices for long prompts: with more tokens of prompt than so many, all of a request costs this. What is left out \
is as it would be without them."""
    tiers: Annotated[dict[str, Tier], TIERS] = Field(default_factory=dict)
    """What other tiers of service cost, by the word with which answers name theirs: their own prices, or a percentage \
of those above. What is left out is as above."""

    @model_validator(mode="after")
    def _means_something(self) -> Price:
        if self.source == "off" and len(self.model_fields_set) > 1:
            raise problem("is off, and prices are given beside it; drop one of the two", at=("source",))
        return self

    @property
    def is_known(self) -> bool:
        """Whether it is said, here, that anything costs something."""
        return self.source == "own" and any(getattr(self, name) for name in (*_RATES, "above"))

    def over(self, known: policy.Price) -> policy.Price:
        """These prices, and what they leave out as it is `known`."""
        price = msgspec.structs.replace(known, **{name: getattr(self, name) for name in self.model_fields_set & _NAMES})
        if self.above:
            longer, around = [], price.at(self.above[0][0] + 1)
            for more_than, rates in self.above:
                around = around.changed(rates)
                longer.append((more_than, around))
            price = msgspec.structs.replace(price, above=tuple(longer))
        own = {word: _tier(price, tier) for word, tier in self.tiers.items()}
        return msgspec.structs.replace(price, tiers=price.tiers | own)


def _tier(price: policy.Price, tier: Tier) -> policy.Price:
    return price.times(round(tier * 1_000_000)) if isinstance(tier, float) else price.changed(tier)


PRICE_OR_WORD = ShortFor("source", of="Price")


def _parse_on_cancel(value: object, _: Path) -> Mapping[str, OnCancel] | None:
    if value is None:
        return None
    given: Any = value if isinstance(value, dict) else {"stream": value, "whole": value}
    for key in given:
        if key not in ("stream", "whole"):
            raise problem("expected stream or whole", at=(str(key),))
    for key in ("stream", "whole"):
        if given.get(key) not in list(OnCancel):
            what = f"one of {', '.join(OnCancel)}"
            raise expected(f"{what}, or both of {{stream: generated, whole: full}}")
    return {key: OnCancel(each) for key, each in given.items()}


_MODES: Schema = {"enum": list(OnCancel)}
ON_CANCEL = Leaf(
    _parse_on_cancel,
    "`full`, `generated`, `input` or `none`, or one for each of `stream` and `whole`",
    {
        "anyOf": [
            _MODES,
            {
                "type": "object",
                "properties": {"stream": _MODES, "whole": _MODES},
                "required": ["stream", "whole"],
                "additionalProperties": False,
            },
            {"type": "null"},
        ]
    },
    str,
)


class Prices(Model):
    """Where prices come from that no target says: genai-prices (`pip install 'hedgerow[prices]'`), as it is \
installed, or as it was fetched last."""

    file: Annotated[Path | None, OUTPUT] = None
    """Where fetched prices are kept. While it exists it takes the place of those that are installed."""
    update: Annotated[float | None, duration(60.0, 31 * DAY, off=True)] = None
    """How often prices are fetched anew, such as `1d`, and used at once. Needs `file`."""
    url: Annotated[str, text(nullable=False)] = (
        "https://raw.githubusercontent.com/pydantic/genai-prices/refs/heads/main/prices/new_data/v2/data.json"
    )
    """From where."""

    @model_validator(mode="after")
    def _has_a_place(self) -> Prices:
        if self.update is not None and self.file is None:
            raise problem("needs server.prices.file: where fetched prices are kept", at=("update",))
        return self
