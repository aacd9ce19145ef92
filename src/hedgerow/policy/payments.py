"""What further attempts of a route are taken to cost: when they start, when they are over, and when they are billed."""

from __future__ import annotations

from collections.abc import Callable

from hedgerow.events import AttemptEnded, Bill, Outcome, RequestBilled, Role, UsageSource
from hedgerow.policy.ask import Ask
from hedgerow.policy.billing import bill
from hedgerow.policy.plan import Refusal
from hedgerow.policy.spend import Spend
from hedgerow.policy.terms import Terms

_PRIMARY = Role.PRIMARY  # a member of an enum is slow to look up
_ANSWERED = (Outcome.WON, Outcome.KEPT)


class Payments:
    """Pays from a route's budgets, which go by the very bills that are told of."""

    __slots__ = ("_spend", "_terms", "by_number")

    def __init__(self, spend: Spend, terms: Callable[[str], Terms]) -> None:
        self._spend = spend
        self._terms = terms
        self.by_number = False
        """Whether no limit is in money or tokens, and none ever will be: then nobody asks what attempts come to."""

    def reserve(self, ask: Ask, role: Role, attempt: int, target: str, now: float) -> Refusal | None:
        """Pay for an attempt that starts now, or say whose limit it would pass."""
        if self.by_number:
            return self._spend.reserve(ask, role, attempt, 0, 0, now)
        output = ask.expected_output
        price = self._terms(target).price(ask.model)
        cost = 0 if price is None else price.cost(ask.input_tokens, output)
        return self._spend.reserve(ask, role, attempt, cost, ask.input_tokens + output, now)

    def over(self, event: AttemptEnded) -> None:
        """An attempt has ended: until others have told more of it, this is what it seems to have come to."""
        if event.role is _PRIMARY:
            return
        which, now = (event.request_id, event.attempt), event.ended_at
        if event.failure is not None and event.failure.unsent:
            self._spend.give_back(*which, now)
        elif not self.by_number:
            seems = bill(event, self._terms(event.target))
            self._spend.over(*which, *_spent(seems), now, guessed=_is_guess(seems))

    def billed(self, event: RequestBilled) -> None:
        """None of a request's attempts runs any more."""
        for came_to in event.bills:
            if came_to.role is not _PRIMARY:
                which = event.request_id, came_to.attempt
                self._spend.settle(*which, *_spent(came_to), event.at, guessed=_is_guess(came_to))


def _is_guess(came_to: Bill) -> bool:
    """Whether a whole answer did not say what it used."""
    return came_to.usage.source is UsageSource.ESTIMATED and came_to.outcome in _ANSWERED


def _spent(came_to: Bill) -> tuple[int, int]:
    """Nano-dollars and tokens."""
    usage = came_to.usage
    return came_to.nanousd or 0, (usage.input_tokens or 0) + (usage.output_tokens or 0)
