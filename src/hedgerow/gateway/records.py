"""The records that tell listeners of a request; a flight asks for one only where somebody hears its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hedgerow.events import (
    AttemptEnded,
    AttemptLaunched,
    Failure,
    HedgeSkipped,
    Outcome,
    Reason,
    RequestFinished,
    RequestStarted,
    Usage,
)

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.flight import Flight

_MODEL = 200
"""Characters of a model's name that are told; clients may send anything."""


def started(flight: Flight) -> RequestStarted:
    """A request begins."""
    model = flight.facts.model
    return RequestStarted(
        flight.request_id,
        flight.route.name,
        flight.protocol.name,
        flight.facts.stream,
        flight.started_at,
        None if model is None else model[:_MODEL],
    )


def launched(flight: Flight, attempt: Attempt) -> AttemptLaunched:
    """An attempt begins."""
    return AttemptLaunched(flight.request_id, attempt.index, attempt.target.name, attempt.role, attempt.launched_at)


def skipped(flight: Flight, reason: Reason, detail: str) -> HedgeSkipped:
    """A hedge was due and is not launched, now."""
    return HedgeSkipped(flight.request_id, flight.route.name, reason, flight.time(), detail)


def ended(
    flight: Flight, attempt: Attempt, outcome: Outcome, failure: Failure | None, usage: Usage | None
) -> AttemptEnded:
    """An attempt is over, now."""
    return AttemptEnded(
        flight.request_id,
        attempt.index,
        attempt.target.name,
        attempt.role,
        outcome,
        attempt.launched_at,
        attempt.headers_at,
        attempt.first_token_at,
        flight.time(),
        attempt.status,
        attempt.tally(),
        failure,
        usage,
    )


def finished(
    flight: Flight, winner: Attempt | None, launched: int, outcome: Outcome, status: int | None, usage: Usage | None
) -> RequestFinished:
    """A request is over, now, after so many attempts."""
    return RequestFinished(
        flight.request_id,
        flight.route.name,
        flight.protocol.name,
        flight.facts.stream,
        flight.started_at,
        winner.first_token_at if winner is not None else None,
        flight.time(),
        status,
        winner.index if winner is not None else None,
        launched,
        outcome,
        usage,
    )
