"""Prices that no target says: those of genai-prices, as it is installed or as they were fetched last.

Only what reads a configuration knows this module. What a serving process needs of it goes into the blueprint.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from hedgerow.errors import ConfigError
from hedgerow.extras import install
from hedgerow.policy.price import Price
from hedgerow.policy.terms import Listed, PriceList

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, ModelPrice, Provider


def missing() -> str:
    """What to do where the prices are not installed."""
    return f"needs genai-prices: {install('prices')}"


_NANO = 1_000_000_000
_TOKENS = {
    "input": "input_mtok",
    "output": "output_mtok",
    "cached_input": "cache_read_mtok",
    "cache_write": "cache_write_mtok",
    "cache_write_1h": "cache_write_1h_mtok",
}
_TIER = "service_tier"


class Shop(msgspec.Struct, frozen=True):
    """A provider: which base URLs are its own (a regular expression, from their beginning), and what it sells."""

    base_url: str
    listed: tuple[Listed, ...]


class Book(msgspec.Struct, frozen=True):
    """What is kept in `server.prices.file`. `fetched_at`: Unix time, in seconds."""

    fetched_at: float
    shops: tuple[Shop, ...]


def listed_at(base_url: str, file: Path | None = None) -> tuple[Listed, ...]:
    """What the provider at this URL sells; nothing where it, or any price, is not known.

    Raises `ConfigError` for a file that is no price book.
    """
    if file is not None and file.exists():
        shops: Iterable[Shop] = read(file).shops
        return next((shop.listed for shop in shops if re.match(shop.base_url, base_url)), ())
    return _installed_at(base_url)


def find(listed: Sequence[Listed], model: str) -> Price | None:
    """What this model costs by such a list."""
    return PriceList(listed).find(model) if listed else None


def is_installed() -> bool:
    """Whether genai-prices is there."""
    try:
        import genai_prices  # noqa: F401  # whether it can be imported is what is asked
    except ImportError:
        return False
    return True


@cache
def _read(file: Path, _stamp: tuple[int, int]) -> Book:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Book)
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError([f"{file}: is no price book (server.prices.file), remove it: {error}"]) from None


def read(file: Path) -> Book:
    """The book in this file. Raises `ConfigError`."""
    found = file.stat()
    return _read(file, (found.st_mtime_ns, found.st_size))


def fetch(url: str, now: float) -> Book:
    """What genai-prices publishes at this URL. Raises `ConfigError`."""
    try:
        from genai_prices import UpdatePrices
    except ImportError:
        raise ConfigError([f"server.prices.update: {missing()}"]) from None
    try:
        snapshot = UpdatePrices(url=url).fetch()
    except Exception as error:  # of the network, of what came
        raise ConfigError([f"server.prices: {url} cannot be read: {str(error) or type(error).__name__}"]) from None
    if snapshot is None or not snapshot.providers:
        raise ConfigError([f"server.prices: there are no prices at {url}"])
    at = dt.datetime.fromtimestamp(now, dt.UTC)
    shops = (Shop(each.api_pattern, tuple(_listed(each, snapshot.providers, at))) for each in snapshot.providers)
    return Book(now, tuple(shops))


def keep(book: Book, file: Path) -> None:
    """Write it, so that who reads meanwhile finds the one or the other. Raises `ConfigError`."""
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}-")
        try:
            with os.fdopen(handle, "wb") as there:
                there.write(msgspec.json.encode(book))
            Path(name).replace(file)
        except BaseException:
            with suppress(OSError):
                Path(name).unlink()
            raise
    except OSError as error:
        raise ConfigError([f"server.prices.file: cannot write {file}: {error.strerror}"]) from None


@cache
def _installed_at(base_url: str) -> tuple[Listed, ...]:
    try:
        from genai_prices.data_snapshot import get_snapshot
    except ImportError:
        return ()
    providers = get_snapshot().providers
    shop = next((each for each in providers if re.match(each.api_pattern, base_url)), None)
    return () if shop is None else tuple(_listed(shop, providers, dt.datetime.now(dt.UTC)))  # noqa: TID251  # prices have days from which they hold


def _listed(shop: Provider, providers: Sequence[Provider], now: dt.datetime) -> Iterator[Listed]:
    """What it sells, and then what those do whose models it sells too: as genai-prices looks for them."""
    for model in shop.models:
        yield _entry(model, now, tiers=True)
    for name in shop.fallback_model_providers or ():
        for other in providers:
            if other.id == name:
                yield from (_entry(model, now, tiers=False) for model in other.models)


def _entry(model: ModelInfo, now: dt.datetime, *, tiers: bool) -> Listed:
    names, patterns = _matched(model.match)
    pattern = f"(?s){'|'.join(patterns)}" if patterns else None
    return Listed(_price(model, now, tiers=tiers), tuple(names), pattern)


def _matched(rule: Any) -> tuple[list[str], list[str]]:
    """A rule of genai-prices for names of models: names that are just so, and expressions for the others."""
    names, patterns = [], []
    for each in getattr(rule, "or_", [rule]):
        if (name := getattr(each, "equals", None)) is not None:
            names.append(name.lower())
        else:
            patterns.append(_expression(each))
    return names, patterns


def _expression(rule: Any) -> str:
    clauses: Any
    match type(rule).__name__, next(iter(vars(rule).values())):
        case "ClauseOr", clauses:
            return f"(?:{'|'.join(map(_expression, clauses))})"
        case "ClauseAnd", clauses:
            return r"\A" + "".join(f"(?=.*?{_expression(each)})" for each in clauses)
        case "ClauseRegex", str(text):
            return f"(?:{text})"
        case "ClauseEquals", str(text):
            return rf"(?:\A{re.escape(text.lower())}\Z)"
        case "ClauseStartsWith", str(text):
            return rf"(?:\A{re.escape(text.lower())})"
        case "ClauseEndsWith", str(text):
            return rf"(?:{re.escape(text.lower())}\Z)"
        case "ClauseContains", str(text):
            return re.escape(text.lower())
        case kind, _:
            raise ConfigError([f"genai-prices matches models by {kind}, which this version does not know"])


def _price(model: ModelInfo, now: dt.datetime, *, tiers: bool) -> Price | None:
    plain = _rates(model.get_prices(now))
    if plain is None or not tiers:
        return plain
    words = {variant.when[_TIER] for variant in model.price_variants or () if [*variant.when] == [_TIER]}
    dear = {word.lower(): _rates(model.get_prices(now, {_TIER: word})) for word in sorted(words)}
    return msgspec.structs.replace(plain, tiers={word: each for word, each in dear.items() if each is not None})


def _rates(prices: ModelPrice) -> Price | None:
    """Of text; None for what has no price by the token."""
    told = {ours: getattr(prices, theirs) for ours, theirs in _TOKENS.items()}
    request = getattr(prices, "requests_kcount", None)
    if told["input"] is None and told["output"] is None and request is None:
        return None
    starts = sorted({tier.start for each in (*told.values(), request) for tier in getattr(each, "tiers", ())})
    plain, *above = (_at(told, request, start) for start in (-1, *starts))
    return msgspec.structs.replace(plain, above=tuple(zip(starts, above, strict=True)))


def _at(told: dict[str, Any], request: Any, tokens: int) -> Price:
    """The prices of a request with more tokens of prompt than so many."""
    known: dict[str, Any] = {name: _amount(each, tokens) for name, each in told.items() if each is not None}
    return Price(**known, request=0 if request is None else _whole(_decimal(request, tokens) / 1_000))


def _amount(price: Any, tokens: int) -> int:
    return _whole(_decimal(price, tokens))


def _decimal(price: Any, tokens: int) -> Decimal:
    found = getattr(price, "base", price)
    for tier in getattr(price, "tiers", ()):
        if tokens >= tier.start:
            found = tier.price
    return Decimal(found)


def _whole(dollars: Decimal) -> int:
    return int((dollars * _NANO).to_integral_value(ROUND_HALF_UP))
