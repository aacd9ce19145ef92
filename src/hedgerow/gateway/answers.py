"""What the client is answered: the winner's head, an upstream's own error, or ours when none answered."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

import msgspec

from hedgerow.events import Failure, FailureClass, Headers
from hedgerow.gateway.headers import to_client
from hedgerow.policy.failures import client_status

if TYPE_CHECKING:
    from hedgerow.gateway.attempt import Attempt
    from hedgerow.gateway.flight import Flight

JSON: Headers = [(b"content-type", b"application/json")]
_JSON = b"content-type: application/json\r\n"


class Answer(msgspec.Struct, frozen=True, gc=False):
    """A whole answer; `fields` as for `Exchange.respond`."""

    status: int
    fields: bytes
    body: bytes


def failure_answer(flight: Flight, attempt: Attempt, failure: Failure) -> Answer:
    """The answer when every attempt failed: the upstream's own status and body where one answered."""
    marks = flight.marks(attempt)
    # Our attempts are used up: without this the official SDKs would start all of them again, twice. A rate limit that
    # says when it ends is another matter: to wait that long and to ask again is what the client should do.
    used_up = flight.attempts > 1 and not (
        failure.kind is FailureClass.RATE_LIMITED and failure.retry_after is not None
    )
    if used_up:
        marks += b"x-should-retry: false\r\n"
    # A redirect is no answer: it would lead clients, with their keys, past us.
    if failure.body is not None and failure.status is not None and not 300 <= failure.status < 400:
        headers = failure.headers
        if headers is None:
            headers = attempt.headers if failure.kind is FailureClass.EMPTY else JSON
        if used_up:
            headers = [field for field in headers if field[0] != b"x-should-retry"]
        return Answer(failure.status, to_client(headers) + marks, failure.body)
    if failure.retry_after is not None:
        marks += b"retry-after: %d\r\n" % ceil(failure.retry_after)
    status = client_status(failure)
    body = flight.protocol.error_body(status, _explain(flight, attempt, failure), kind=_type(status), code=failure.kind)
    return Answer(status, _JSON + marks, body)


def _explain(flight: Flight, attempt: Attempt, failure: Failure) -> str:
    tried = f" (last of {flight.attempts} attempts)" if flight.attempts > 1 else ""
    return f"No usable answer from target '{attempt.target.name}'{tried}: {failure.message}"


def _type(status: int) -> str:
    return "timeout_error" if status == 504 else "upstream_error"
