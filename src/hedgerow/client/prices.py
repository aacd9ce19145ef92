"""What calls cost, where their caller says so: for budgets in money."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hedgerow.policy.price import RATES, Price, nanousd
from hedgerow.policy.terms import Terms

if TYPE_CHECKING:
    from hedgerow.client.settings import Policy
    from hedgerow.client.target import Target

Dollars = float | str
"""An amount such as 2.5 or "2.50"."""
Prices = Dollars | Mapping[str, Dollars]
"""Dollars per call; or by the names of the configuration: `input`, `output`, `cached_input`, `cache_write` and
`cache_write_1h` per million tokens, and `request` per call."""
MONEY = ("usd_per_hour", "usd_per_day", "usd_per_month")


def amount(name: str, value: object) -> int:
    """Nano-dollars. Raises `ValueError` for what is no amount of at least 0."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        written = f"{value:.9f}"
    else:
        written = value if isinstance(value, str) else ""
    try:
        return nanousd(written)
    except ValueError:
        raise ValueError(f'{name} is {value!r}: it must be an amount of dollars such as 2.5 or "2.50"') from None


def price_of(target: str, said: Prices) -> Price:
    """Raises `ValueError`, which names the target, for what are no prices."""
    if not isinstance(said, Mapping):
        return Price(request=amount(f"the price of {target}", said))
    if unknown := [name for name in said if name not in RATES]:
        raise ValueError(f"the price of {target} has {unknown[0]!r}: it can have {', '.join(RATES)}")
    rates: dict[str, Any] = {name: amount(f"the price of {target}: {name}", each) for name, each in said.items()}
    return Price(**rates)


def terms_of(targets: Sequence[Target[Any]], policy: Policy, *, sized: bool) -> Mapping[str, Terms]:
    """What each target costs. Raises `ValueError` where `policy` limits money and what is spent could not be known.

    `sized`: how long prompts are is known when calls begin.
    """
    prices = {each.name: price_of(each.name, each.price) for each in targets if each.price is not None}
    need_prices(policy, [each.name for each in targets], prices, 'Target(..., price={"input": 2.5, "output": 10})')
    if not sized and policy.in_money and any(price.input for price in prices.values()):
        raise ValueError(
            f"{policy.in_money} with prices by token needs to know how long prompts are: "
            "Hedger(..., size=...), or prices per call"
        )
    return {name: Terms(price) for name, price in prices.items()}


def need_prices(policy: Policy, names: Sequence[str], priced: Mapping[str, object], such_as: str) -> None:
    """Raises `ValueError` where `policy` limits money and a target has no price."""
    without = [name for name in names if name not in priced]
    if policy.in_money and without:
        raise ValueError(f"{policy.in_money} needs the price of every target: {without[0]} has none; {such_as}")
