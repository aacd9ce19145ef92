"""What `hedgerow plan` is asked for on the command line: budgets, prices, a quantile. All raise `ConfigError`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hedgerow.errors import ConfigError
from hedgerow.policy.price import Price, nanousd
from hedgerow.units import parse_percent

if TYPE_CHECKING:
    from hedgerow.planner.plan import Budget

BUDGETS = ("2%", "5%", "10%", "20%")
_MONEY = re.compile(r"\$?([0-9.]+) ?(?:usd)?", re.IGNORECASE)
_PRICE = re.compile(r"(.+)=\$?([0-9.]+)/\$?([0-9.]+)")


def budgets(said: Sequence[str]) -> tuple[Budget, ...]:
    """Shares of requests, or dollars per 1,000 of them."""
    return tuple(dict.fromkeys(map(_budget, said)))


def _budget(said: str) -> Budget:
    from hedgerow.planner.plan import Budget

    share = parse_percent(said)
    if share is not None and 0.001 <= share <= 1.0:
        return Budget(share=share)
    money = _MONEY.fullmatch(said) if share is None and not said.replace(".", "").isdigit() else None
    try:
        amount = nanousd(money[1]) if money else 0
    except ValueError:
        amount = 0
    if amount:
        return Budget(usd_per_1000=amount / 1e9)
    shares = "a share of requests from 0.1% to 100%, such as 5%"
    raise ConfigError([f"--budget {said}: expected {shares}, or dollars per 1,000 requests, such as 2usd"])


def prices(said: Sequence[str]) -> dict[str, Price]:
    """By target."""
    return dict(map(_price, said))


def _price(said: str) -> tuple[str, Price]:
    found = _PRICE.fullmatch(said)
    try:
        return (found[1], Price.parse(found[2], found[3])) if found else _no_price(said)
    except ValueError:
        return _no_price(said)


def _no_price(said: str) -> tuple[str, Price]:
    raise ConfigError(
        [f"--price {said}: expected TARGET=INPUT/OUTPUT in dollars per million tokens, such as openai=0.25/2"]
    )


def quantile(said: str) -> float:
    """As in `hedge.target`."""
    from hedgerow.config.amounts import PERCENTILE

    try:
        share: float = PERCENTILE.parse(said, Path())
    except Exception as wrong:
        raise ConfigError(
            [f"--target-quantile {said}: expected a percentile from p50 to p99.99, such as p99"]
        ) from wrong
    return share


def pairs(said: Sequence[str]) -> dict[str, str]:
    """Names in the log, each with the one that configurations have."""
    found = {}
    for each in said:
        name, equals, other = each.partition("=")
        if not (name and equals and other):
            raise ConfigError([f"--as {each}: expected NAME=TARGET, the log's name and the configuration's"])
        found[name] = other
    return found
