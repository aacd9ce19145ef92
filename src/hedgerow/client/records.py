"""What is told of a call in process: to what learns from it, to who listens, and to its caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hedgerow.client.result import AttemptRecord, Result
from hedgerow.client.stream import Held, Winner
from hedgerow.events import (
    AnswerRejected,
    AttemptEnded,
    AttemptLaunched,
    Failure,
    FirstToken,
    HedgeSkipped,
    Outcome,
    Reason,
    RequestFinished,
    RequestStarted,
    Role,
)
from hedgerow.policy.gates.gate import Rejection

if TYPE_CHECKING:
    from hedgerow.client.attempt import Attempt
    from hedgerow.client.flight import Flight
    from hedgerow.client.keeping import Alternatives

PROTOCOL = "callable"
"""The protocol of calls in process, as events name it."""
_WON, _PRIMARY = Outcome.WON, Role.PRIMARY


def started(flight: Flight) -> None:
    """A call begins."""
    route, ask = flight.route, flight.ask
    route.emit(RequestStarted(ask.request_id, route.name, PROTOCOL, ask.stream, flight.started_at))


def launched(flight: Flight, attempt: Attempt) -> None:
    """An attempt begins."""
    launch = flight.ask.request_id, attempt.index, attempt.target.name, attempt.role, attempt.launched_at
    flight.route.emit(AttemptLaunched(*launch))


def skipped(flight: Flight, reason: Reason, detail: str, role: Role) -> None:
    """A hedge or failover was due and is not launched."""
    route = flight.route
    route.emit(HedgeSkipped(flight.ask.request_id, route.name, reason, flight.time(), detail, role))


def first_token(flight: Flight, attempt: Attempt) -> None:
    """An attempt has won."""
    ask, at = flight.ask, attempt.first_token_at
    where = ask.request_id, attempt.index, attempt.target.name, attempt.role, attempt.launched_at
    at = attempt.launched_at if at is None else at
    flight.route.emit(FirstToken(*where, at, ask.stream, ask.input_tokens))


def rejected(flight: Flight, attempt: Attempt, rejection: Rejection) -> None:
    """A gate rejected an attempt's value."""
    route = flight.route
    told = attempt.target.name, rejection.gate, rejection.detail
    route.emit(AnswerRejected(flight.ask.request_id, route.name, attempt.index, *told, flight.time(), False))


def ended(flight: Flight, attempt: Attempt, outcome: Outcome, failure: Failure | None = None) -> None:
    """An attempt is over, now."""
    attempt.outcome, attempt.ended_at = outcome, flight.time()
    attempt.failure = failure
    route, ask = flight.route, flight.ask
    if outcome is not _WON and attempt.probe is not None:
        route.over(attempt.probe)
        attempt.probe = None
    if outcome is _WON and attempt.role is _PRIMARY and not route.watched:
        return
    route.emit(
        AttemptEnded(
            ask.request_id,
            attempt.index,
            attempt.target.name,
            attempt.role,
            outcome,
            attempt.launched_at,
            attempt.first_token_at,
            attempt.first_token_at,
            attempt.ended_at,
            None if failure is None else failure.status,
            0,
            failure,
            None,
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


def result(flight: Flight, winner: Attempt, alternatives: Alternatives[Any]) -> Result[Any]:
    """What the call comes to for its caller, as of now."""
    value, started = winner.value, flight.started_at
    if winner.streams is not None:
        value = Winner(winner) if winner.streams else Held(winner)
    at = started if winner.first_token_at is None else winner.first_token_at
    attempts = [told(each, started) for each in flight.attempts]
    return Result(value, winner.target.name, attempts, at - started, flight.hedged, flight.skipped, alternatives)


def told(attempt: Attempt, started: float) -> AttemptRecord:
    """An attempt as its caller is told of it."""
    return AttemptRecord(
        attempt=attempt.index,
        target=attempt.target.name,
        role=attempt.role,
        outcome=attempt.outcome,
        launched=attempt.launched_at - started,
        first_token=None if attempt.first_token_at is None else attempt.first_token_at - started,
        ended=None if attempt.ended_at is None else attempt.ended_at - started,
        failure=attempt.failure,
        error=attempt.error,
    )
