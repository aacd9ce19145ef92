"""What a LiteLLM config says of who is asked first, of weights, prices and what models can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from math import gcd
from typing import Any

from hedgerow.config.problem import show_path

Path = tuple[str | int, ...]

_ORDERS = {
    "simple-shuffle": "rotate",
    "weighted": "rotate",
    "latency-based-routing": "fastest",
    "cost-based-routing": "cheapest",
}
_WEIGHTS = ("weight", "rpm", "tpm")
"""What LiteLLM's simple-shuffle weighs deployments by: the first of these that any of a group has."""
_COSTS = {"input": "input_cost_per_token", "output": "output_cost_per_token"}
COSTS = frozenset(_COSTS.values())
_CAPABILITIES = {
    "supports_function_calling": "tools",
    "supports_vision": "vision",
    "supports_response_schema": "json_schema",
}
_INFO = frozenset({*_CAPABILITIES, *COSTS, "max_input_tokens", "mode", "id", "description", "base_model"})
_MOST_WEIGHT, _MOST_CONTEXT, _MOST_DOLLARS = 1_000, 100_000_000, 1_000_000
_STRATEGY = "router_settings.routing_strategy"
_BY_LOAD = "is no order of hedgerow's: deployments take turns, and delays and breakers see to those that are slow"


def order_of(strategy: Any) -> tuple[str, str]:
    """The `order` of routes with several deployments, and what is to be noted of it, "" for nothing."""
    if strategy is None:
        return "rotate", f"{_STRATEGY}: not given; LiteLLM's default is simple-shuffle, so deployments take turns"
    if (order := _ORDERS.get(str(strategy))) is not None:
        return order, ""
    return "rotate", f"{_STRATEGY}: {str(strategy)[:40]} {_BY_LOAD}"


def weights_of(group: Sequence[Mapping[str, Any]]) -> list[int]:
    """The `weight` of each of a group's deployments: in proportion to the first of weight, rpm, tpm that one has."""
    given = _given(group)
    scale = float(gcd(*given)) if all(given) else 1.0
    if max(given) / scale > _MOST_WEIGHT:
        scale = max(given) / _MOST_WEIGHT
    return [max(1, round(each / scale)) for each in given]


def unweighted(group: Sequence[Mapping[str, Any]]) -> bool:
    """Whether one of these would get nothing from LiteLLM."""
    return not all(_given(group))


def _given(group: Sequence[Mapping[str, Any]]) -> list[int]:
    for name in _WEIGHTS:
        given = [_count(params.get(name)) for params in group]
        if any(given):
            return given
    return [1] * len(group)


def _count(raw: Any) -> int:
    """A whole number above nought; else 0."""
    return int(raw) if isinstance(raw, int | float) and not isinstance(raw, bool) and 1 <= raw < 1e15 else 0


def price_of(params: Mapping[str, Any], info: Mapping[str, Any]) -> dict[str, Any]:
    """The target's `price`, in dollars per million tokens; empty where the file tells none."""
    price = {}
    for ours, theirs in _COSTS.items():
        dollars = _per_million(params.get(theirs, info.get(theirs)))
        if dollars is not None:
            price[ours] = dollars
    return price


def _per_million(raw: Any) -> float | str | None:
    """As it is best written: a plain number, or text where YAML would make it one with an exponent."""
    if raw is None or isinstance(raw, bool):
        return None
    try:
        dollars = round(Decimal(str(raw)) * 1_000_000, 9)
        if not 0 <= dollars <= _MOST_DOLLARS:
            return None
    except InvalidOperation:  # no number, or none that can be compared
        return None
    text = f"{dollars:f}".rstrip("0").rstrip(".") if dollars % 1 else str(int(dollars))
    return text if "e" in repr(float(dollars)) else float(text) if dollars % 1 else int(text)


def abilities(info: Mapping[str, Any], path: Path, notes: list[str]) -> dict[str, Any]:
    """`supports` and `max_context`, by an entry's `model_info`; what else that says is noted."""
    found: dict[str, Any] = {}
    if any(info.get(theirs) is False for theirs in _CAPABILITIES):
        found["supports"] = [ours for theirs, ours in _CAPABILITIES.items() if info.get(theirs) is not False]
    room = _count(info.get("max_input_tokens"))
    if 0 < room <= _MOST_CONTEXT:
        found["max_context"] = room
    notes += [f"{show_path((*path, str(name)))}: not carried over" for name in info if name not in _INFO]
    return found


def unordered(order: str, own: Iterable[str], fallbacks: Sequence[str], targets: Mapping[str, Any]) -> str:
    """Why the deployments `own` of one route are asked as they are listed in place of in this order; "" if not."""
    if fallbacks:
        return (
            "is asked in the order listed, for else its fallbacks would take turns with it; "
            "where that is as well, set order: " + order
        )
    if order == "cheapest" and (unpriced := [each for each in own if "price" not in targets[each]]):
        return f"is asked in the order listed: order: cheapest needs the price of {', '.join(unpriced)}"
    return ""
