"""How `routes.<name>.order` is written: a word, or a rule with its options."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic_core import PydanticCustomError

from hedgerow import units
from hedgerow.config.amounts import HEADER_NAME, PERCENTILE, share
from hedgerow.config.fields import Leaf, Schema, expected, problem, reference
from hedgerow.policy.order import Fastest, OrderRule, Rotate

_WITHIN = 0.2
"""How much longer than the fastest the cheapest may take, unless said otherwise."""
_MAKE: Mapping[str, Callable[..., OrderRule | None]] = {
    "fixed": lambda: None,
    "rotate": Rotate,
    "fastest": Fastest,
    "cheapest": lambda within=_WITHIN, **options: Fastest(within=within, **options),
}
_FASTEST = {"quantile": PERCENTILE, "margin": share(0.0, 0.9), "explore": share(0.0, 0.5)}
_OPTIONS: Mapping[str, Mapping[str, Leaf]] = {
    "fixed": {},
    "rotate": {},
    "fastest": _FASTEST,
    "cheapest": {"within": share(0.0, 10.0), **_FASTEST},
}
_ALLOWED = ", ".join(_MAKE)


def _parse(value: object, folder: Path) -> OrderRule | None:
    match value:
        case None | Rotate() | Fastest():  # settings made in code
            return value
        case str() if value in _MAKE:
            return _MAKE[value]()
        case dict():
            return _rule(value, folder)
        case _:
            raise expected(f"one of {_ALLOWED}")


def _rule(options: dict[str, Any], folder: Path) -> OrderRule | None:
    word = options.get("by")
    if word is None:
        raise problem("says no order: expected one such as {by: fastest, quantile: p90}")
    if not isinstance(word, str) or word not in _MAKE:
        raise problem(f"got {str(word)[:40]!r}; expected one of {_ALLOWED}", at=("by",))
    leaves = _OPTIONS[word]
    given = {name: each for name, each in options.items() if name != "by"}
    for name in given:
        if name not in leaves:
            known = ", ".join(leaves) if leaves else "none"
            raise problem(f"is no option of {word}; it has {known}", at=(str(name),))
    return _MAKE[word](**{name: _option(leaves[name], name, each, folder) for name, each in given.items()})


def _option(leaf: Leaf, name: str, value: object, folder: Path) -> object:
    try:
        return leaf.parse(value, folder)
    except PydanticCustomError as error:
        raise problem(f"got {str(value)[:40]!r}; {error.message()}", at=(name,)) from None


def _parse_by(value: object, _: Path) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for position, name in enumerate(value if isinstance(value, list | tuple) else [value]):
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            at = (position,) if isinstance(value, list | tuple) else ()
            raise problem("expected the name of a header such as x-session-id, or user", at=at)
        found[name.lower()] = None
    return tuple(found)


_BY: Schema = {"type": "string", "pattern": f"^{HEADER_NAME.pattern}$"}
BY = Leaf(
    _parse_by,
    "name of a header, `user`, or a list of them",
    {"anyOf": [_BY, {"type": "array", "items": _BY}]},
    ", ".join,
)


def _show(rule: OrderRule | None) -> str:
    match rule:
        case None:
            return "fixed"
        case Rotate():
            return "rotate"
        case Fastest():
            return _shown(rule)


def _shown(rule: Fastest) -> str:
    word, options = "fastest", {}
    if rule.within is not None:
        word, options = "cheapest", {"within": units.show_percent(rule.within)}
    options |= {
        "quantile": PERCENTILE.show(rule.quantile),
        "margin": units.show_percent(rule.margin),
        "explore": units.show_percent(rule.explore),
    }
    return f"{{by: {word}, {', '.join(f'{name}: {text}' for name, text in options.items())}}}"


def _form(word: str) -> Schema:
    properties = {"by": {"const": word}} | {name: dict(leaf.schema) for name, leaf in _OPTIONS[word].items()}
    return {"type": "object", "properties": properties, "required": ["by"], "additionalProperties": False}


_FORMS: list[Schema] = [{"enum": list(_MAKE)}, *(_form(word) for word in _MAKE), reference()]
ORDER = Leaf(_parse, f"{', '.join(list(_MAKE)[:-1])} or {list(_MAKE)[-1]}, or a mapping", {"anyOf": _FORMS}, _show)
