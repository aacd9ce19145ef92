"""What targets charge, worked out: from their configuration and from the price book."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec

from hedgerow import config
from hedgerow.config import price_book
from hedgerow.config.on_cancel import billed_on_cancel
from hedgerow.policy.cancelling import Probed
from hedgerow.policy.price import Price
from hedgerow.policy.terms import Listed


def costs_of(target: config.Target, file: Path | None, probed: Probed | None) -> dict[str, Any]:
    """The fields of its blueprint that say what it charges. `file`: of the price book, see `server.prices`."""
    stops = (None, None) if probed is None else (probed.streams, probed.whole)
    billed = billed_on_cancel(target, *stops)
    price, listed = _prices(target, file)
    own = target.price
    is_from_book = own.source == "auto" if own is not None else _is_public(target.base_url)
    found = any(stop is not None for stop in stops)
    return {
        "price": price,
        "listed": listed,
        "beside_book": repr(own) if is_from_book else None,
        "on_cancel": billed.stream,
        "on_cancel_whole": billed.whole,
        "bills_refusals": billed.refusals,
        "price_from": _source(target.price, known=price is not None or bool(listed)),
        "on_cancel_from": "config" if target.billed_on_cancel is not None else "probe" if found else "default",
    }


def _prices(target: config.Target, file: Path | None) -> tuple[Price | None, tuple[Listed, ...]]:
    """One price where the target has one model, else those of all that its provider has."""
    own, model = target.price, target.sent_model
    if own is not None and own.source != "auto":
        return (None if own.source == "off" else own.over(Price())), ()
    if own is None and not _is_public(target.base_url):
        return None, ()
    listed = price_book.listed_at(target.base_url, file)
    if model is not None:
        price = price_book.find(listed, model)
        return _over(own, price), ()
    return None, tuple(msgspec.structs.replace(each, price=_over(own, each.price)) for each in listed)


def _source(own: config.Price | None, *, known: bool) -> str:
    """Who says the price: "none", "config", "genai-prices", or both."""
    if not known:
        return "none"
    if own is None:
        return "genai-prices"
    if own.source == "own":
        return "config"
    return "genai-prices, config" if own.model_fields_set - {"source"} else "genai-prices"


def _over(own: config.Price | None, known: Price | None) -> Price | None:
    return known if own is None or known is None else own.over(known)


def _is_public(base_url: str) -> bool:
    """Whether a provider may be there: not for this machine and its network is the price book opened."""
    host = urlsplit(base_url).hostname or ""
    try:
        return not ipaddress.ip_address(host).is_private
    except ValueError:
        return "." in host and not host.endswith((".local", ".internal", ".localhost"))
