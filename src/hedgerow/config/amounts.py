"""The leaf types of hedging: delays that may be learned, percentiles, shares, amounts of money."""

from __future__ import annotations

import re
from pathlib import Path

from hedgerow.config import units
from hedgerow.config.fields import Leaf, Schema, expected, problem, reference
from hedgerow.policy import delay as delays
from hedgerow.policy.price import nanousd, show_dollars

_LONGEST = 3_600.0


def _parse_delay(value: object, _: Path) -> delays.Spec:
    if value is None or value is False:
        return delays.Off()
    try:
        spec = delays.parse_delay(value, units.parse_duration)
    except ValueError:
        raise expected(delays.ALLOWED) from None
    if isinstance(spec, delays.Fixed | delays.Slo) and spec.seconds > _LONGEST:
        raise expected(f"a delay of at most {units.show_duration(_LONGEST)}")
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
    words = {"true": True, "false": False}
    if value is None or isinstance(value, bool):
        return value
    if not isinstance(value, str) or value not in words:
        raise expected("true or false")
    return words[value]


MAYBE = Leaf(_parse_maybe, "true, false or null", {"anyOf": [{"type": ["boolean", "null"]}, reference()]})


def share(low: float, high: float) -> Leaf:
    """A share in [low, high] of 1, written as a percentage."""
    bounds = f"a percentage between {units.show_percent(low)} and {units.show_percent(high)}"

    def parse(value: object, _: Path) -> float:
        found = units.parse_percent(value)
        if found is None or not low <= found <= high:
            raise expected(bounds)
        return found

    forms: list[Schema] = [{"type": "string", "pattern": units.PERCENT_PATTERN}, reference()]
    return Leaf(parse, "percentage", {"anyOf": forms}, units.show_percent)


def _parse_dollars(value: object, _: Path) -> int | None:
    if value is None or value is False or value == "off":
        return None
    if isinstance(value, bool | float) or not isinstance(value, int | str):
        raise problem('expected an amount of dollars such as 5 or "2.50"; put one with cents in quotes')
    try:
        return nanousd(str(value).removeprefix("$"))
    except ValueError:
        raise expected('an amount of dollars such as 5 or "2.50", not negative, or off') from None


def _show_dollars(amount: int | None) -> str:
    return "off" if amount is None else show_dollars(amount).removeprefix("$")


MONEY = Leaf(
    _parse_dollars,
    "dollars or off",
    {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}, {"enum": ["off", False, None]}]},
    _show_dollars,
)


def number(low: float, high: float) -> Leaf:
    """A number in [low, high]."""

    def parse(value: object, _: Path) -> float:
        if isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            raise expected(f"a number from {low:g} to {high:g}")
        return float(value)

    forms: list[Schema] = [{"type": "number", "minimum": low, "maximum": high}, reference()]
    return Leaf(parse, f"number, {low:g} to {high:g}", {"anyOf": forms}, lambda n: f"{n:g}")


def _parse_values(value: object, _: Path) -> dict[str, str]:
    if not isinstance(value, dict):
        raise expected("a mapping of header names to values such as {x-priority: high}")
    for name, text in value.items():
        if not isinstance(name, str) or not _HEADER.fullmatch(name):
            raise problem("expected the name of a header", at=(str(name),))
        if not isinstance(text, str):
            raise problem("expected text: put the value in quotes", at=(name,))
    return {name.lower(): text for name, text in value.items()}


_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
NAME_VALUES = Leaf(
    _parse_values,
    "mapping of names to text",
    {"type": "object", "additionalProperties": {"type": "string"}},
    lambda values: f"{dict(values)}",
)
