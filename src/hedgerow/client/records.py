"""What is told of a call in process: to what learns from it, to who listens, and to its caller."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from hedgerow.client.using import usage_of
from hedgerow.events import (
    AnswerRejected,
    AttemptEnded,
    AttemptLaunched,
    BreakerChanged,
    BreakerState,
    Event,
    Failure,
    HedgeSkipped,
    Outcome,
    Reason,
    RequestFinished,
    RequestStarted,
    Role,
    TargetTakenOut,
)
from hedgerow.policy.gates.gate import Rejection

if TYPE_CHECKING:
    from hedgerow.client.attempt import Attempt
    from hedgerow.client.flight import Flight

log = logging.getLogger("hedgerow")
_WHOLE = (Outcome.WON, Outcome.KEPT, Outcome.REJECTED)
PROTOCOL = "callable"
"""The protocol of calls in process, as events name it."""
_WON = Outcome.WON  # a member of an enum is slow to look up


def started(flight: Flight) -> None:
    """A call begins."""
    route, ask = flight.route, flight.ask
    route.emit(RequestStarted(ask.request_id, route.name, PROTOCOL, ask.stream, flight.started_at))


def launched(flight: Flight, attempt: Attempt) -> None:
    """An attempt begins."""
    launch = flight.ask.request_id, attempt.index, attempt.target, attempt.role, attempt.launched_at
    flight.route.emit(AttemptLaunched(*launch))


def skipped(flight: Flight, reason: Reason, detail: str, role: Role) -> None:
    """A hedge or failover was due and is not launched."""
    route = flight.route
    route.emit(HedgeSkipped(flight.ask.request_id, route.name, reason, flight.time(), detail, role))


def rejected(flight: Flight, attempt: Attempt, rejection: Rejection) -> None:
    """A gate rejected an attempt's value."""
    route = flight.route
    told = attempt.target, rejection.gate, rejection.detail
    route.emit(AnswerRejected(flight.ask.request_id, route.name, attempt.index, *told, flight.time(), False))


def ended(flight: Flight, attempt: Attempt, outcome: Outcome, failure: Failure | None = None) -> None:
    """An attempt is over, now."""
    attempt.outcome, attempt.ended_at = outcome, flight.time()
    attempt.failure = failure
    route, ask = flight.route, flight.ask
    if outcome is not _WON and attempt.probe is not None:
        route.over(attempt.probe)
        attempt.probe = None
    route.emit(
        AttemptEnded(
            ask.request_id,
            attempt.index,
            attempt.target,
            attempt.role,
            outcome,
            attempt.launched_at,
            attempt.first_token_at,
            attempt.first_token_at,
            attempt.ended_at,
            None if failure is None else failure.status,
            0,
            failure,
            usage_of(attempt.value) if outcome in _WHOLE and not attempt.streams else None,
            ask.stream,
            ask.input_tokens,
        )
    )


def finished(flight: Flight, outcome: Outcome) -> None:
    """The call is over, now."""
    route, ask, winner = flight.route, flight.ask, flight.winner
    first = None if winner is None else winner.first_token_at
    which = None if winner is None else winner.index
    times = flight.started_at, first, flight.time()
    launched = len(flight.attempts)
    route.emit(
        RequestFinished(ask.request_id, route.name, PROTOCOL, ask.stream, *times, None, which, launched, outcome)
    )


class Loud:
    """A listener who logs that a hedger does without a target."""

    kinds = (TargetTakenOut, BreakerChanged)

    def __init__(self, name: str) -> None:
        self._name = name
        self._told: dict[str, float] = {}
        """Until when which target is known to be out for somebody: of many callers' keys one line is enough."""

    def __call__(self, event: Event) -> None:
        if isinstance(event, TargetTakenOut):
            if event.at < self._told.get(event.target, 0.0):
                return
            self._told[event.target] = event.until
            out, why = event.until - event.at, (event.kind, event.message)
            told = "hedger %s: target %s is out for %.0f s for calls with this key: %s (%s)"
            log.warning(told, self._name, event.target, out, *why)
        elif isinstance(event, BreakerChanged) and event.state is BreakerState.OPEN:
            log.warning("hedger %s: target %s is out for now: %s", self._name, event.target, event.why)
