"""How `routes.<name>.order` is written: a word, or a rule with its options."""

from __future__ import annotations

from pathlib import Path

from hedgerow.config.fields import Leaf, Schema, expected, reference
from hedgerow.policy.order import OrderRule, Rotate

_WORDS: dict[str, OrderRule | None] = {"fixed": None, "rotate": Rotate()}


def _parse(value: object, _: Path) -> OrderRule | None:
    match value:
        case None | Rotate():  # settings made in code
            return value
        case str() if value in _WORDS:
            return _WORDS[value]
        case _:
            raise expected("fixed or rotate")


def _show(rule: OrderRule | None) -> str:
    return "fixed" if rule is None else next(word for word, each in _WORDS.items() if each == rule)


_FORMS: list[Schema] = [{"enum": list(_WORDS)}, reference()]
ORDER = Leaf(_parse, "order", {"anyOf": _FORMS}, _show)
