"""What requests to targets cost, by the size of their prompt, as delays and orders weigh it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from hedgerow.policy.ask import EXPECTED_OUTPUT
from hedgerow.policy.auto import PROMPTS
from hedgerow.policy.terms import Terms


class HedgeCost:
    """Of the targets of one route. Where they have prices by model, it is that of the `model` asked for last."""

    __slots__ = ("_terms", "model")

    def __init__(self, terms: Callable[[str], Terms]) -> None:
        self._terms = terms
        self.model: str | None = None

    def __call__(self, target: str, size: int) -> float:
        """Nano-dollars; tokens of prompt where no price is known."""
        return max(float(PROMPTS[size] if (cost := self._nanousd(target, size)) is None else cost), 1.0)

    def of_all(self, targets: Iterable[str], size: int) -> Mapping[str, float]:
        """Of targets that are compared: nano-dollars of all, or tokens of all."""
        costs = {target: self._nanousd(target, size) for target in targets}
        known = {target: float(cost) for target, cost in costs.items() if cost is not None}
        return known if len(known) == len(costs) else dict.fromkeys(costs, float(PROMPTS[size]))

    def asked(self, model: str, targets: Iterable[str]) -> None:
        """A request names this model; it is not gone by where not all of these targets have a price for it."""
        if all(self._terms(target).price(model) is not None for target in targets):
            self.model = model

    def _nanousd(self, target: str, size: int) -> int | None:
        price = self._terms(target).price(self.model)
        return None if price is None else price.cost(PROMPTS[size], EXPECTED_OUTPUT)
