"""What a target charges, and who says so, in few words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from hedgerow.policy.price import Price, show_dollars

if TYPE_CHECKING:
    from hedgerow.gateway.blueprint import TargetBlueprint

_WHO: Final = {
    "config": "as configured",
    "probe": "as a probe found",
    "default": "as is known of that host",
    "genai-prices": "genai-prices",
    "genai-prices, config": "genai-prices, and as configured",
}


def charges(target: TargetBlueprint) -> str:
    """Its prices, and what it is taken to bill for a cancel."""
    if target.price_from == "none":
        return "no price is known (price, server.prices), so its costs are not"
    what = "prices by model" if target.price is None else _price(target.price)
    stream, whole = target.on_cancel, target.on_cancel_whole
    billed = f"{stream}" if stream == whole else f"{stream}, {whole} unless streamed"
    return f"{what} ({_WHO[target.price_from]}); a cancel bills: {billed} ({_WHO[target.on_cancel_from]})"


def _price(price: Price) -> str:
    parts = [f"{show_dollars(price.input)} in", f"{show_dollars(price.output)} out"]
    if price.request:
        parts.append(f"{show_dollars(price.request)} a request")
    more = [f"above {tokens} tokens" for tokens, _ in price.above[:1]] + [f"tier {word}" for word in price.tiers]
    return ", ".join(parts) + (f", others {', '.join(more)}" if more else "")
