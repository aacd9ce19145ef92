"""What the client is answered: the winner's head, an upstream's own error, or ours when none answered."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from hedgerow.events import Failure, FailureClass, Headers
from hedgerow.gateway.headers import to_client
from hedgerow.policy.failures import client_status

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.flight import Flight

JSON: Headers = [(b"content-type", b"application/json")]


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A whole answer."""

    status: int
    headers: Headers
    body: bytes


def head_of(flight: Flight, winner: Attempt) -> Headers:
    """The winner's header fields and our marks."""
    keep_length = flight.protocol.accepts_head
    return to_client(winner.headers, keep_length=keep_length) + flight.marks(winner)


def failure_answer(flight: Flight, attempt: Attempt, failure: Failure) -> Answer:
    """The answer when every attempt failed: the upstream's own status and body where one answered."""
    marks = flight.marks(attempt)
    if flight.attempts > 1:
        # Our attempts are used up: without this the official SDKs would start all of them again, twice.
        marks.append((b"x-should-retry", b"false"))
    if failure.body is not None and failure.status is not None:
        if failure.headers is not None:
            headers = to_client(failure.headers)
        elif failure.kind is FailureClass.EMPTY:
            headers = to_client(attempt.headers)
        else:
            headers = JSON
        kept = [field for field in headers if field[0] != b"x-should-retry"] if flight.attempts > 1 else headers
        return Answer(failure.status, kept + marks, failure.body)
    status = client_status(failure)
    body = flight.protocol.error_body(status, _explain(flight, attempt, failure), kind=_type(status), code=failure.kind)
    return Answer(status, JSON + marks, body)


def _explain(flight: Flight, attempt: Attempt, failure: Failure) -> str:
    tried = f" (last of {flight.attempts} attempts)" if flight.attempts > 1 else ""
    return f"No usable answer from target '{attempt.target.name}'{tried}: {failure.message}"


def _type(status: int) -> str:
    return "timeout_error" if status == 504 else "upstream_error"
