"""Reads requests once and keeps what the report needs of each: a few numbers, by route and side."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable
from math import inf

import numpy as np

from hedgerow.cost import Certainty, added_by_hedging
from hedgerow.events import Arm, FailureClass, Outcome, Reason, Role
from hedgerow.report.facts import Attempt, Request
from hedgerow.report.statistics import Numbers

EXTRA = frozenset({Role.HEDGE, Role.RACER})
"""Attempts that hedging launches."""
_OWN_FAULT = frozenset({FailureClass.FATAL_REQUEST, FailureClass.CONTENT_POLICY})


class Side:
    """The requests of one route and arm (None: of those that take part in no experiment)."""

    def __init__(self) -> None:
        self.requests = 0
        self.failed = 0
        """Got no whole answer, through no fault of their own."""
        self.refused = 0
        """Could not have been answered by anybody."""
        self.left = 0
        """Their clients went before the first token."""
        self.due = 0
        """A hedge of theirs was due, or they raced."""
        self.skipped: Counter[Reason] = Counter()
        """Why those that were due were not launched."""
        self.hedges = 0
        self.wins = 0
        self.failovers = 0
        self.estimated = 0
        """Requests of which it is known what they would have taken unhedged."""
        self._first, self._total, self._unhedged = array("d"), array("d"), array("d")
        self._cost = array("d")
        self.at = array("d")
        self.launched, self.won = array("H"), array("H")
        """Of each request: when it began, how many hedges it had, and how many of them won."""
        self.saved = 0.0
        """Seconds that the estimate says were saved, of all requests."""
        self.by_certainty: Counter[Certainty] = Counter()
        """Extra cost, in nano-dollars."""
        self.least = self.most = 0
        """What the extra cost comes to at least and at most."""
        self.unbounded = False
        """Of some extra cost no upper bound is known."""
        self.nanousd = 0
        """Everything, the winners included."""
        self.unpriced = 0
        """Attempts whose cost is not known."""

    @property
    def first_token(self) -> Numbers:
        """Seconds to the first token, in order; `inf` for those that failed without one."""
        return _ordered(self._first)

    @property
    def total(self) -> Numbers:
        """Seconds to the last byte, in order; `inf` for those that failed."""
        return _ordered(self._total)

    @property
    def unhedged(self) -> Numbers:
        """Seconds to the first token that they would have taken unhedged, in order; as `first_token`.

        Where that is not known, what they did take, which is no more.
        """
        return _ordered(self._unhedged)

    @property
    def cost_nanousd(self) -> Numbers:
        """Of each request: what all its attempts cost, the winner too."""
        return np.frombuffer(self._cost, np.float64)

    def add(self, request: Request) -> None:
        """One more."""
        self.requests += 1
        self.at.append(request.started_at)
        self._add_attempts(request)
        if request.outcome is Outcome.CLIENT_GONE and request.first_token_at is None:
            self.left += 1
            return
        if request.outcome in (Outcome.FAILED, Outcome.FAILED_AFTER_COMMIT):
            if request.failure in _OWN_FAULT:
                self.refused += 1
                return
            self.failed += 1
        began, first = request.started_at, request.first_token_at
        took = inf if first is None else first - began
        self._first.append(took)
        if request.outcome is not Outcome.CLIENT_GONE:
            self._total.append(request.ended_at - began if request.outcome is Outcome.WON else inf)
        if request.unhedged_at is None:
            self._unhedged.append(took)
            return
        self.estimated += 1
        self._unhedged.append(request.unhedged_at - began)
        self.saved += 0.0 if first is None else request.unhedged_at - first

    def _add_attempts(self, request: Request) -> None:
        launched = sum(each.role in EXTRA for each in request.attempts)
        won = request.winner is not None and request.winner < len(request.attempts)
        won = won and request.attempts[request.winner or 0].role in EXTRA
        self.launched.append(launched)
        self.won.append(won)
        self.hedges += launched
        self.wins += won
        self.failovers += sum(each.role is Role.FAILOVER for each in request.attempts)
        if launched or request.skipped is not None:
            self.due += 1
        if request.skipped is not None and not launched:
            self.skipped[request.skipped] += 1
        cost = 0
        for each in request.attempts:
            if each.nanousd is None:
                self.unpriced += 1
            else:
                cost += each.nanousd
        for each in added_by_hedging(request.attempts):
            if each.nanousd is not None:
                self._add_extra(each)
        self.nanousd += cost
        self._cost.append(cost)

    def _add_extra(self, attempt: Attempt) -> None:
        amount = attempt.nanousd or 0
        self.by_certainty[attempt.certainty or Certainty.ESTIMATED] += amount
        self.least += amount if attempt.least is None else attempt.least
        self.unbounded |= attempt.most is None and attempt.certainty is not Certainty.EXACT
        self.most += amount if attempt.most is None else attempt.most


class TargetTally:
    """What one target did on a route."""

    def __init__(self) -> None:
        self.roles: Counter[Role] = Counter()
        self.outcomes: Counter[Outcome] = Counter()
        self.won_as: Counter[Role] = Counter()
        self.nanousd = 0
        self.wasted = 0
        """Of that, what went to attempts that did not win."""
        self._first = array("d")

    @property
    def first_token(self) -> Numbers:
        """Seconds from launch to first token, in order, of the attempts that had one: the fast ones, then."""
        return _ordered(self._first)

    def add(self, attempt: Attempt, *, won: bool) -> None:
        """One more attempt."""
        self.roles[attempt.role] += 1
        if attempt.outcome is not None:
            self.outcomes[attempt.outcome] += 1
        if won:
            self.won_as[attempt.role] += 1
        if attempt.first_token_at is not None:
            self._first.append(attempt.first_token_at - attempt.launched_at)
        if attempt.nanousd is not None:
            self.nanousd += attempt.nanousd
            self.wasted += 0 if won else attempt.nanousd


class RouteTally:
    """What is known of one route."""

    def __init__(self) -> None:
        self.sides: dict[Arm | None, Side] = {}
        self.targets: dict[str, TargetTally] = {}
        self.since, self.until = inf, -inf

    def add(self, request: Request) -> None:
        """One more request."""
        self.since, self.until = min(self.since, request.started_at), max(self.until, request.started_at)
        side = self.sides.get(request.arm)
        if side is None:
            side = self.sides[request.arm] = Side()
        side.add(request)
        for index, attempt in enumerate(request.attempts):
            target = self.targets.get(attempt.target)
            if target is None:
                target = self.targets[attempt.target] = TargetTally()
            target.add(attempt, won=index == request.winner)


def gather(requests: Iterable[Request]) -> dict[str, RouteTally]:
    """Everything, by route, in the order of their names."""
    routes: dict[str, RouteTally] = {}
    for request in requests:
        tally = routes.get(request.route)
        if tally is None:
            tally = routes[request.route] = RouteTally()
        tally.add(request)
    return dict(sorted(routes.items()))


def _ordered(values: array[float]) -> Numbers:
    return np.sort(np.frombuffer(values, np.float64)) if values else np.empty(0)
