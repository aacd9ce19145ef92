"""The leaf types of hedging: delays that may be learned, percentiles, shares, amounts of money."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path

from hedgerow import units
from hedgerow.config.fields import FLAG_FORMS, FLAG_WORDS, Leaf, Schema, expected, flag, problem, reference
from hedgerow.policy import delay as delays
from hedgerow.policy.price import nanousd, show_dollars

_LONGEST = 3_600.0


def _parse_delay(value: object, _: Path) -> delays.Spec:
    if value is None or value is False:
        return delays.Off()
    if isinstance(value, delays.Spec):
        return value  # settings made in code
    try:
        spec = delays.parse_delay(value, units.parse_duration)
    except ValueError:
        raise expected("2s, 300ms, p95, p99.5, ema(p95), {slo: 1.2s}, auto, 0 (at once) or off") from None
    if isinstance(spec, delays.Fixed | delays.Slo) and spec.seconds > _LONGEST:
        raise expected(f"a delay between 0s and {units.show_duration(_LONGEST)}")
    return spec


_DELAYS: list[Schema] = [
    {"type": "string", "pattern": units.DURATION_PATTERN, "minLength": 1},
    {"type": "string", "pattern": r"^p[0-9]{1,2}(\.[0-9]+)?$|^ema\(.+\)$|^slo *: *.+$|^auto$"},
    {"type": "number", "minimum": 0, "maximum": _LONGEST},
    {"type": "object", "properties": {"slo": {"type": ["string", "number"]}}, "additionalProperties": False},
    reference(),
    {"enum": ["off", False, None]},
]
DELAY = Leaf(
    _parse_delay,
    "duration, percentile, auto, slo or off",
    {"anyOf": _DELAYS},
    lambda spec: delays.show(spec, units.show_duration),
)


def _parse_percentile(value: object, _: Path) -> float:
    if isinstance(value, str) and (found := _PERCENTILE.fullmatch(value)) and 50 <= float(found[1]) < 100:
        return round(float(found[1]) / 100, 6)
    raise expected("a percentile from p50 to p99.99, such as p99")


_PERCENTILE = re.compile(r"p([0-9]{2}(?:\.[0-9]{1,2})?)")
PERCENTILE = Leaf(
    _parse_percentile,
    "percentile",
    {"anyOf": [{"type": "string", "pattern": r"^p[0-9]{2}(\.[0-9]{1,2})?$"}, reference()]},
    lambda p: f"p{p * 100:.6g}",
)


def _parse_maybe(value: object, _: Path) -> bool | None:
    if value is not None and (found := flag(value)) is None:
        raise expected(FLAG_WORDS)
    return None if value is None else found


MAYBE = Leaf(_parse_maybe, "true, false or null", {"anyOf": [{"type": "null"}, *FLAG_FORMS]})


def share(low: float, high: float) -> Leaf:
    """A share in [low, high] of 1, written as a percentage."""
    bounds = f"a percentage between {units.show_percent(low)} and {units.show_percent(high)}"

    def parse(value: object, _: Path) -> float:
        found = units.parse_percent(value)
        if found is None:
            raise expected("a percentage such as 10%; a number needs its %")
        if not low <= found <= high:
            raise expected(bounds)
        return found

    forms: list[Schema] = [{"type": "string", "pattern": units.PERCENT_PATTERN}, reference()]
    return Leaf(parse, "percentage", {"anyOf": forms}, units.show_percent)


_MOST = 1_000_000_000
_EXACT = 15
"""Digits of a decimal number that a float keeps."""


def _nanousd(value: object) -> int:
    """Raises `ValueError`."""
    match value:
        case bool():
            raise ValueError("not an amount")
        case float():
            plain = Decimal(repr(value))
            if not plain.is_finite() or len(plain.as_tuple().digits) > _EXACT:
                raise ValueError("not a number, or one that was not read exactly")
            value = f"{plain:f}"
    amount = nanousd(str(value).removeprefix("$"))
    if amount > nanousd(str(_MOST)):
        raise ValueError("too much")
    return amount


def dollars(*, off: bool) -> Leaf:
    """Nano-dollars of an amount in dollars; with `off` the word "off" gives None."""
    or_off = " or off" if off else ""
    what = f"dollars from 0 to {_MOST}, such as 5 or 2.50, with at most 9 decimals{',' * off}{or_off}"

    def parse(value: object, _: Path) -> int | None:
        if off and (value is False or value == "off"):
            return None  # and an empty value does not: a cap that is left blank must not vanish
        try:
            return _nanousd(value)
        except ValueError:
            raise expected(what) from None

    forms: list[Schema] = [
        {"type": "number", "minimum": 0, "maximum": _MOST},
        {"type": "string", "pattern": r"^\$?[0-9]{1,10}(\.[0-9]{1,9})?$"},
        reference(),
    ]
    forms += [{"enum": ["off", False]}] if off else []
    return Leaf(parse, f"dollars{or_off}", {"anyOf": forms}, _show_dollars)


def _show_dollars(amount: int | None) -> str:
    return "off" if amount is None else show_dollars(amount).removeprefix("$")


def number(low: float, high: float) -> Leaf:
    """A number in [low, high]."""
    bounds = f"{low:g} to {high:.10g}"

    def parse(value: object, _: Path) -> float:
        if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise expected(f"a number from {bounds}")
        return float(value)

    forms: list[Schema] = [{"type": "number", "minimum": low, "maximum": high}, reference()]
    return Leaf(parse, f"number, {bounds}", {"anyOf": forms}, lambda n: f"{n:.10g}")


def _parse_values(value: object, _: Path) -> dict[str, str]:
    if not isinstance(value, dict):
        raise expected("a mapping of header names to values such as {x-priority: high}")
    found: dict[str, str] = {}
    for name, text in value.items():
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            raise problem("expected the name of a header", at=(str(name),))
        if not isinstance(text, str):
            raise problem("expected text: put the value in quotes", at=(name,))
        if name.lower() in found:
            raise problem("is given twice; header names ignore case", at=(name,))
        found[name.lower()] = text
    return found


HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
NAME_VALUES = Leaf(
    _parse_values,
    "mapping of names to text",
    {"type": "object", "additionalProperties": {"type": "string"}},
    lambda values: f"{dict(values)}",
)
